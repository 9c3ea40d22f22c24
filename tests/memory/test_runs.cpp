// Runs with PyTorch's allocator: it watches, and changes nothing but where the GPU's memory runs out.
#include <doctest/doctest.h>

#include <algorithm>

#include "app/metrics.h"
#include "property/runs.h"

using namespace shardsim;
using memory::MiB;

namespace {

/// Layers of a few MiB, so that segments matter.
Scenario scenario_of(const test::PlatformFile& platform, int streams = 3) {
  Scenario s = test::small_scenario();
  s.platform = platform.path();
  s.model.widths = {64, 1024, 1536, 1024, 512, 8};
  s.micro_batch = 8;
  s.numerics = Numerics::twin, s.twin_width = 16;
  s.knobs.streams = streams;
  return s;
}

Scenario with_torch(Scenario s) {
  s.memory.torch = s.memory.has_outside = true;
  return s;
}

std::string with_memory(const std::string& size, double launch_seconds = 0) {
  std::string xml = test::platform_xml({.launch_seconds = launch_seconds});
  return xml.replace(xml.find("80GiB"), 5, size);
}

const AllocatorBooks& books_of(const SchemeResult& result) { return result.ranks[0].allocator; }

}  // namespace

TEST_CASE("exact and torch runs give the same seconds, bytes, peaks and theta") {
  for (const double launch : {0.0, 3e-6, 50e-6}) {
    const test::PlatformFile platform(test::IdealGpus{.launch_seconds = launch, .kernel_seconds = 1e-6});
    for (const int streams : {1, 2, 3}) {
      Scenario s = scenario_of(platform, streams);
      s.knobs.clip = streams == 2 ? 1.f : 0.f;
      s.knobs.accumulation = streams == 3 ? 2 : 1;
      s.knobs.grads_resident = streams != 3;
      s.fabric = streams == 1 ? Fidelity::ring : streams == 2 ? Fidelity::coupled : Fidelity::formula;
      for (const std::string& scheme : test::schemes()) {
        CAPTURE(launch);
        CAPTURE(streams);
        CAPTURE(scheme);
        const SchemeResult exact = test::run(s, scheme), torch = test::run(with_torch(s), scheme);
        CHECK(torch.theta == exact.theta);
        REQUIRE(torch.ranks.size() == exact.ranks.size());
        for (std::size_t r = 0; r < exact.ranks.size(); ++r) {
          const RankResult &a = exact.ranks[r], &b = torch.ranks[r];
          CHECK(b.step_begin == a.step_begin);
          CHECK(b.step_end == a.step_end);
          CHECK(b.losses == a.losses);
          CHECK(b.traffic_bytes == a.traffic_bytes);
          CHECK(b.control_bytes == a.control_bytes);
          CHECK(b.peak.bytes == a.peak.bytes);
          CHECK(b.peak.seconds == a.peak.seconds);
          CHECK(b.model_state_peak.bytes == a.model_state_peak.bytes);
          CHECK(b.spans.size() == a.spans.size());
          CHECK(b.allocator.emulated);
          CHECK_FALSE(a.allocator.emulated);
        }
      }
    }
  }
}

TEST_CASE("the allocator holds at least what is asked for, in segments, and its composition adds up") {
  const test::PlatformFile platform(test::IdealGpus{});
  for (const std::string& scheme : test::schemes()) {
    CAPTURE(scheme);
    const SchemeResult result = test::run(with_torch(scenario_of(platform, 1)), scheme);
    const AllocatorBooks& books = books_of(result);
    CHECK(books.requested == result.ranks[0].peak.bytes);  // one stream: the host's order is the stream's
    CHECK(books.allocated >= books.requested);
    CHECK(books.active == books.allocated);
    CHECK(books.reserved >= books.active);
    CHECK(books.reserved % (2 * MiB) == 0);
    std::int64_t sum = books.awaiting + books.cached;
    for (const std::int64_t bytes : books.bands) sum += bytes;
    CHECK(sum == books.reserved);
    CHECK(books.awaiting == 0);
  }
}

TEST_CASE("a host that runs ahead cannot reuse what another stream may still read") {
  const test::PlatformFile platform(test::IdealGpus{});
  const SchemeResult one = test::run(with_torch(scenario_of(platform, 1)), "zero3");
  const SchemeResult three = test::run(with_torch(scenario_of(platform, 3)), "zero3");
  CHECK(books_of(one).awaiting == 0);
  CHECK(books_of(three).awaiting > 0);
  CHECK(books_of(three).reserved > books_of(one).reserved);
}

TEST_CASE("whether a block is free again is asked at the host's own date") {
  // Launches are slow and everything else is fast: when the host asks, the streams have long been done with what it freed.
  const test::PlatformFile fast(test::IdealGpus{}), slow(test::IdealGpus{.launch_seconds = 1e-3});
  const SchemeResult ahead = test::run(with_torch(scenario_of(fast, 3)), "zero3");
  const SchemeResult behind = test::run(with_torch(scenario_of(slow, 3)), "zero3");
  CHECK(books_of(behind).active < books_of(ahead).active);
  CHECK(books_of(behind).reserved < books_of(ahead).reserved);
}

TEST_CASE("a rank has a communicator for each group and stream that it has used") {
  const test::PlatformFile platform(test::IdealGpus{});
  Scenario s = scenario_of(platform, 3);
  s.memory.has_outside = true;
  s.memory.context = 500 * MiB, s.memory.communicator = memory::communicator_bytes(16);
  CHECK(s.memory.communicator == std::int64_t(16 * 2 * 9.2 * MiB));
  const auto communicators = [&](const char* scheme) { return books_of(test::run(s, scheme)).communicators; };
  CHECK(communicators("dp") == 1);
  CHECK(communicators("zero3") == 2);  // gathers and reductions apart
  s.knobs.clip = 1;
  CHECK(communicators("dp") == 1);     // every rank has the whole norm
  CHECK(communicators("zero3") == 3);  // the norm travels, on the compute stream
  s.knobs.streams = 1;
  CHECK(communicators("zero3") == 1);
  CHECK(books_of(test::run(s, "zero3")).outside == s.memory.context + s.memory.communicator);
  s.world = 1;
  CHECK(communicators("zero3") == 0);
}

TEST_CASE("where memory runs out the cache is given back, the host waits for it, and the run fits") {
  const test::PlatformFile roomy(test::IdealGpus{});
  Scenario s = with_torch(scenario_of(roomy, 3));
  const SchemeResult free_run = test::run(s, "zero3");
  const std::int64_t capacity = books_of(free_run).reserved - 22 * MiB;
  const test::PlatformFile tight(with_memory(std::to_string(capacity) + "B"));
  s.platform = tight.path();
  const SchemeResult squeezed = test::run(s, "zero3");
  CHECK(books_of(free_run).retries == 0);
  CHECK(books_of(squeezed).retries > 0);
  CHECK(books_of(squeezed).out_of_memory == 0);
  CHECK(books_of(squeezed).reserved <= capacity);
  CHECK(squeezed.theta == free_run.theta);
  CHECK(measure(s, squeezed).fits());
  CHECK(squeezed.ranks[0].traffic_bytes == free_run.ranks[0].traffic_bytes);
}

TEST_CASE("a communicator takes room that the allocator then lacks") {
  const test::PlatformFile roomy(test::IdealGpus{});
  Scenario s = with_torch(scenario_of(roomy, 1));
  const std::int64_t reserved = books_of(test::run(s, "zero3")).reserved;
  const test::PlatformFile exactly(with_memory(std::to_string(reserved) + "B"));
  s.platform = exactly.path();
  CHECK(books_of(test::run(s, "zero3")).retries == 0);
  s.memory.communicator = reserved / 2;
  const SchemeResult squeezed = test::run(s, "zero3");
  CHECK(books_of(squeezed).out_of_memory > 0);
  CHECK_FALSE(measure(s, squeezed).fits());
}

TEST_CASE("a run that cannot fit ends well, says so, and has the same theta") {
  const test::PlatformFile small(with_memory("24MiB"));
  const Scenario s = with_torch(scenario_of(small, 2));
  const SchemeResult result = test::run(s, "dp");
  CHECK(result.steps == s.steps);
  CHECK(books_of(result).out_of_memory > 0);
  const formats::Figures figures = measure(s, result);
  CHECK_FALSE(figures.fits());
  CHECK(figures.reserved_bytes.max > figures.gpu_memory);
  Scenario exact = s;
  exact.memory = {};
  CHECK(test::run(exact, "dp").theta == result.theta);
}
