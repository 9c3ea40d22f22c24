// Contention and jitter: a collective takes compute time from what it overlaps, and nodes are not equally fast in every step. Times
// are computed by hand, as "have to take".
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "app/process.h"
#include "backends/simgrid/backend.h"
#include "backends/simgrid/jitter.h"
#include "cost/price.h"
#include "runs.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

constexpr double c = 5, memory_bandwidth = 2e12, port = 50e9, hop = 1e-6;
constexpr std::int64_t buffer = 50'000'000;             // elements of 4 bytes: two ranks send 100 MB each to gather it
constexpr double sent = 1e8, transfer = sent / port;    // 2 ms
constexpr double stolen = c * sent / memory_bandwidth;  // 250 us
constexpr Fidelity fidelities[] = {Fidelity::ring, Fidelity::coupled, Fidelity::formula};

/// Ideal GPUs with more properties than IdealGpus has.
std::string platform_with(const std::string& properties, int gpus = 2) {
  IdealGpus ideal;
  ideal.gpus = gpus, ideal.bandwidth = port, ideal.latency = hop, ideal.memory_bandwidth = memory_bandwidth;
  std::string xml = platform_xml(ideal);
  return xml.insert(xml.find("</cluster>"), properties);
}

std::string property(const char* id, const std::string& value) {
  return std::string("<prop id=\"") + id + "\" value=\"" + value + "\"/>";
}

struct Timed {
  double compute_begin = -1, compute_end = -1;  // of the first op's begin and the last op's end
  double collective_end[2] = {-1, -1};          // by unit
  double freed = -1;                            // when the ledger heard of the release behind the first op
};

/// What rank 0 did on the platform; in a process of its own.
Timed timed(const std::string& xml, Fidelity fidelity, const std::function<void(Device&, Fabric&)>& body) {
  const PlatformFile file(xml);
  const ProcessEnd end = run_in_process([&](int messages) {
    SimgridSettings settings;
    settings.numerics = false;
    settings.platform = file.path(), settings.messages = messages, settings.fidelity = fidelity;
    SimgridBackend backend(settings);
    backend.run(2, body);
    Timed times;
    for (const Span& span : backend.device(0).recorder().spans()) {
      if (span.op == Span::collective) {
        times.collective_end[span.unit] = span.end;
      } else {
        if (times.compute_begin < 0) times.compute_begin = span.begin;
        times.compute_end = span.end;
      }
    }
    for (const LedgerEntry& entry : backend.device(0).ledger().entries())
      if (entry.bytes < 0) times.freed = entry.seconds;
    return std::string(reinterpret_cast<const char*>(&times), sizeof times);
  });
  REQUIRE_MESSAGE(end.answered, end.messages);
  Timed times;
  std::memcpy(&times, end.answer.data(), sizeof times);
  return times;
}

Tensor floats(Device& device, Lane lane, std::int64_t count) {
  return device.alloc(lane, Band::workspace, one, Dim(count, 0), Dtype::fp32);
}

void gather(Device& device, Fabric& fabric, Lane lane = Lane::gather, int unit = 0, Payload payload = Payload::data) {
  const int me = device.rank();
  device.label(Verb::all_gather, unit);
  const Tensor whole = floats(device, lane, buffer);
  fabric.all_gather(lane, {0, 1, 2, me}, whole.slice(Dim(me * buffer / 2, 0), Dim(buffer / 2, 0)), whole, payload);
}

/// An op that takes so long when nothing disturbs it: clearing memory.
void compute(Device& device, double seconds) {
  device.label(Verb::forward, 0);
  const Tensor memory = floats(device, Lane::compute, std::int64_t(std::llround(seconds * memory_bandwidth / 4)));
  device.launch(Lane::compute, Fill{memory, 0.f});
}

const std::string with_contention = platform_with(property("contention", "5"));

/// In `ring`, latencies lie between the messages: the collective takes its share from the start on.
double flight(Fidelity fidelity) { return fidelity == Fidelity::ring ? hop + transfer : transfer; }
double flight_begin(Fidelity fidelity) { return fidelity == Fidelity::ring ? 0 : hop; }

/// Within 1e-6 of itself (doctest's Approx would add 1 to it), or the 1 ns that SimGrid's clock resolves.
void check_about(double actual, double have_to) {
  INFO("have to " << have_to << ", actual " << actual);
  CHECK(std::abs(actual - have_to) <= std::max(1e-6 * have_to, 1.5e-9));
}

}  // namespace

TEST_CASE("a matrix product that overlaps a whole collective takes c x / W longer, and the collective as long as ever") {
  const auto work = [](Device& device, Fabric& fabric) {
    gather(device, fabric);
    const Dim n(6000, 0);
    device.label(Verb::forward, 0);
    const Tensor a = device.alloc(Lane::compute, Band::workspace, n, n, Dtype::fp32);
    const Tensor out = device.alloc(Lane::compute, Band::workspace, n, n, Dtype::fp32);
    device.launch(Lane::compute, Matmul{a, a, out, false, false, false});
  };
  for (const Fidelity fidelity : fidelities) {
    const Timed with = timed(with_contention, fidelity, work), without = timed(platform_with(""), fidelity, work);
    CHECK(without.compute_end > 2 * transfer);  // 2 n^3 / 100 Tf = 4.32 ms: it overlaps all of the collective
    check_about(with.compute_end - without.compute_end, stolen);
    CHECK(with.collective_end[0] == without.collective_end[0]);
    check_about(with.collective_end[0], hop + transfer);
  }
}

TEST_CASE("an op that ends before the collective is slowed down only as long as it runs") {
  for (const Fidelity fidelity : fidelities) {
    const Timed times = timed(with_contention, fidelity, [](Device& device, Fabric& fabric) {
      gather(device, fabric);
      compute(device, 1e-3);
    });
    // Have to: at full speed until the transfer starts, then 1 - s.
    const double s = stolen / flight(fidelity), alone = flight_begin(fidelity);
    check_about(times.compute_end, alone + (1e-3 - alone) / (1 - s));
    check_about(times.collective_end[0], hop + transfer);
  }
}

TEST_CASE("an op that begins within a collective and outlives it is slowed down by what is left of it") {
  for (const Fidelity fidelity : fidelities) {
    const Timed times = timed(with_contention, fidelity, [](Device& device, Fabric& fabric) {
      gather(device, fabric);
      compute(device, 1e-3);
      const Event first = device.record(Lane::compute);
      device.wait(Lane::compute, first);
      compute(device, 3e-3);
    });
    // Have to: 4 ms of work and all that the collective takes, wherever the border between the two ops is.
    check_about(times.compute_end, 4e-3 + stolen);
  }
}

TEST_CASE("two collectives take the sum of their shares while both are in flight") {
  const auto both = [](double seconds) {
    return [seconds](Device& device, Fabric& fabric) {
      gather(device, fabric, Lane::gather, 0);
      gather(device, fabric, Lane::reduce, 1);
      compute(device, seconds);
    };
  };
  // The formula knows no other traffic: both take 2 ms.
  const double s = stolen / transfer;
  check_about(timed(with_contention, Fidelity::formula, both(1e-3)).compute_end, hop + (1e-3 - hop) / (1 - 2 * s));
  for (const Fidelity fidelity : fidelities) {
    const Timed times = timed(with_contention, fidelity, both(10e-3));
    check_about(times.compute_end, 10e-3 + 2 * stolen);
    // On shared links each lasts twice as long, and takes no more: what counts is the bytes.
    const double lasts = fidelity == Fidelity::formula ? transfer : 2 * transfer;
    CHECK(times.collective_end[1] == doctest::Approx(hop + lasts).epsilon(1e-3).scale(0));
  }
}

TEST_CASE("collectives never take more than nine tenths of the compute lane") {
  const std::string greedy = platform_with(property("contention", "100"));  // would take 5 ms in 2
  const Timed times = timed(greedy, Fidelity::formula, [](Device& device, Fabric& fabric) {
    gather(device, fabric);
    compute(device, 5e-3);
  });
  check_about(times.compute_end, 5e-3 + 0.9 * transfer);
}

TEST_CASE("a collective that overlaps no compute costs nothing more, and neither does control") {
  for (const Fidelity fidelity : fidelities) {
    const auto after = [](Device& device, Fabric& fabric) {
      compute(device, 1e-3);
      device.wait(Lane::gather, device.record(Lane::compute));
      gather(device, fabric);
      device.wait(Lane::compute, device.record(Lane::gather));
      compute(device, 1e-3);
    };
    check_about(timed(with_contention, fidelity, after).compute_end, 2e-3 + hop + transfer);
    const auto control = [](Device& device, Fabric& fabric) {
      gather(device, fabric, Lane::gather, 0, Payload::control);
      compute(device, 3e-3);
    };
    check_about(timed(with_contention, fidelity, control).compute_end, 3e-3);
  }
}

TEST_CASE("ops and ledger entries inside a batch of one timer get their own stretched dates") {
  // Two ops of 1 ms in one batch, with a release between them; the collective takes 1/8 of 2 ms from 1 us on.
  const Timed times = timed(with_contention, Fidelity::coupled, [](Device& device, Fabric& fabric) {
    gather(device, fabric);
    device.label(Verb::forward, 0);
    const Tensor first = floats(device, Lane::compute, 500'000'000), second = floats(device, Lane::compute, 500'000'000);
    device.launch(Lane::compute, Fill{first, 0.f});
    device.free(Lane::compute, first);
    device.launch(Lane::compute, Fill{second, 0.f});
  });
  const double s = stolen / transfer;
  check_about(times.freed, hop + (1e-3 - hop) / (1 - s));
  // Have to: 2 ms of work, of which the last part runs alone: the collective ends at 2.001 ms, when 1.751 ms are done.
  check_about(times.compute_end, 2e-3 + stolen);
}

TEST_CASE("without contention, or with no collective to take from it, dates are the same to the bit") {
  static const PlatformFile plain(platform_with("", 4)), zero(platform_with(property("contention", "0"), 4)),
      one(platform_with(property("contention", "5"), 1));
  Scenario s = small_scenario();
  const auto dates = [&s](const PlatformFile& platform, int world) {
    s.platform = platform.path(), s.world = world;
    std::vector<double> all;
    const SchemeResult result = run(s, "zero3");
    for (const Span& span : result.ranks[0].spans) all.insert(all.end(), {span.begin, span.end});
    return all;
  };
  CHECK(dates(plain, 4) == dates(zero, 4));
  CHECK(dates(plain, 1) == dates(one, 1));
}

TEST_CASE("contention changes when things happen, and neither bytes nor bits") {
  // Compute lasts about as long as communication; both are long against the latencies.
  static const auto slow = [](const std::string& properties) {
    IdealGpus gpus;
    gpus.flops = 1e9, gpus.bandwidth = 2.5e7, gpus.latency = 1e-7, gpus.memory_bandwidth = 1e9;
    std::string xml = platform_xml(gpus);
    return xml.insert(xml.find("</cluster>"), properties);
  };
  static const PlatformFile off(slow("")), on(slow(property("contention", "20")));
  Scenario s = small_scenario();
  s.model.widths = {32, 32, 32, 32, 32, 32, 32};
  s.micro_batch = 64, s.steps = 2;
  for (const Fidelity fidelity : fidelities)
    for (const std::string& scheme : schemes()) {
      s.fabric = fidelity;
      s.platform = off.path();
      const SchemeResult without = run(s, scheme);
      s.platform = on.path();
      const SchemeResult with = run(s, scheme);
      INFO(scheme);
      CHECK(with.theta == without.theta);
      CHECK(with.ranks[0].traffic_bytes == without.ranks[0].traffic_bytes);
      CHECK(with.ranks[0].traffic_bytes == 2 * closed_form_bytes(s, scheme, with));
      CHECK(with.ranks[0].step_end.back() > 1.01 * without.ranks[0].step_end.back());
    }
}

TEST_CASE("draws of the jitter are exponential: mean 1, and the slowest of n grows as ln n") {
  using simgrid_backend::Jitter;
  for (const int n : {1, 8, 64, 1024}) {
    double sum = 0, harmonic = 0;
    constexpr int steps = 4000;
    std::vector<Jitter> nodes;
    for (int node = 0; node < n; ++node) nodes.emplace_back(7, "node" + std::to_string(node)), harmonic += 1.0 / (node + 1);
    for (int step = 0; step < steps; ++step) {
      double slowest = 0;
      for (const Jitter& node : nodes) slowest = std::max(slowest, node.of(step));
      sum += slowest;
    }
    // The largest of n exponentials has mean 1 + 1/2 + ... + 1/n = ln n + 0.58 and a deviation below 1.29: within 5 of its errors.
    CHECK(std::abs(sum / steps - harmonic) < 5 * 1.29 / std::sqrt(double(steps)));
  }
  CHECK(Jitter(1, "0").of(0) != Jitter(2, "0").of(0));
  CHECK(Jitter(1, "0").of(0) != Jitter(1, "1").of(0));
  CHECK(Jitter(1, "0").of(0) != Jitter(1, "0").of(1));
}

TEST_CASE("jitter stretches every op of a node's step by one factor, the same in every scheme, and 0 is none at all") {
  static const PlatformFile none(platform_with("", 4)), off(platform_with(property("jitter", "0"), 4)),
      on(platform_with(property("jitter", "0.1"), 4));
  Scenario s = small_scenario();
  s.seed = 3;
  const auto spans = [&s](const PlatformFile& platform, const std::string& scheme) {
    s.platform = platform.path();
    std::vector<Span> ops;
    const SchemeResult result = run(s, scheme);
    for (const Span& span : result.ranks[0].spans)
      if (span.op != Span::collective && span.begin >= 0) ops.push_back(span);
    return std::pair(ops, result.ranks[0].step_begin);
  };
  for (const std::string scheme : {"dp", "zero2", "zero3"}) {
    const auto [plain, plain_begin] = spans(none, scheme);
    const auto [still, still_begin] = spans(off, scheme);
    const auto [stretched, begin] = spans(on, scheme);
    REQUIRE(plain.size() == still.size());
    REQUIRE(plain.size() == stretched.size());
    for (std::size_t i = 0; i < plain.size(); ++i) {
      CHECK(still[i].begin == plain[i].begin);
      CHECK(still[i].end == plain[i].end);
      int step = 0;
      while (step + 1 < int(begin.size()) && stretched[i].begin >= begin[step + 1]) ++step;
      const double factor = 1 + 0.1 * simgrid_backend::Jitter(3, "0").of(step);  // all four GPUs are in node 0
      CHECK(stretched[i].end - stretched[i].begin ==
            doctest::Approx(factor * (plain[i].end - plain[i].begin)).epsilon(1e-6).scale(0));
    }
  }
}
