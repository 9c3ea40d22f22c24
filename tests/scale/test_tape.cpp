// Tape: ranks that play what one of them would enqueue have the bytes and the seconds of ranks that go through their program each.
#include <doctest/doctest.h>

#include "app/platform_writer.h"
#include "property/runs.h"
#include "systems/systems.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

/// To the last bit.
void check_same(const SchemeResult& a, const SchemeResult& b) {
  CHECK(a.unit_names == b.unit_names);
  CHECK(a.parameters == b.parameters);
  REQUIRE(a.ranks.size() == b.ranks.size());
  for (std::size_t rank = 0; rank < a.ranks.size(); ++rank) {
    const RankResult &x = a.ranks[rank], &y = b.ranks[rank];
    CHECK(x.step_begin == y.step_begin);
    CHECK(x.step_end == y.step_end);
    CHECK(x.host_step_begin == y.host_step_begin);
    CHECK(x.traffic_bytes == y.traffic_bytes);
    CHECK(x.control_bytes == y.control_bytes);
    CHECK(x.resident == y.resident);
    CHECK(x.peak.seconds == y.peak.seconds);
    CHECK(x.peak.parts == y.peak.parts);
    CHECK(x.model_state_peak.parts == y.model_state_peak.parts);
    REQUIRE(x.entries.size() == y.entries.size());
    REQUIRE(x.spans.size() == y.spans.size());
    REQUIRE(x.waits.size() == y.waits.size());
    for (std::size_t i = 0; i < x.spans.size(); ++i) {
      const Span &s = x.spans[i], &t = y.spans[i];
      const bool same = s.begin == t.begin && s.end == t.end && s.bytes == t.bytes && s.size == t.size && s.unit == t.unit &&
                        s.lane == t.lane && s.verb == t.verb && s.op == t.op && s.control == t.control && s.moves == t.moves &&
                        s.dtype == t.dtype && s.group.first == t.group.first && s.group.me == t.group.me &&
                        s.issue_begin == t.issue_begin && s.issue_end == t.issue_end;
      if (!same) FAIL("span " << i << " of rank " << rank);
    }
  }
  REQUIRE(a.links.size() == b.links.size());
  for (std::size_t i = 0; i < a.links.size(); ++i) CHECK(a.links[i].bytes == b.links[i].bytes);
}

}  // namespace

TEST_CASE("ranks that play a tape have the bytes and seconds of ranks that go through their program, in every textbook scheme") {
  MachineSpec spec;
  spec.nodes = 2, spec.gpus_per_node = 4, spec.gpu = "h100-sxm", spec.nic = 50e9;
  const PlatformFile nodes(platform_xml(completed(spec), ""));
  std::vector<std::string> names = schemes();
  names.push_back("hsdp");
  for (const std::string& scheme : names)
    for (const int variant : {0, 1, 2}) {
      CAPTURE(scheme);
      CAPTURE(variant);
      Scenario s = thin_gpt2();
      s.platform = nodes.path(), s.world = 8, s.steps = 3, s.numerics = Numerics::off, s.recorded_ranks = 8;
      s.knobs.shards = scheme == "hsdp" ? 4 : 0;
      if (variant == 1) s.knobs.accumulation = 2, s.knobs.clip = 1, s.knobs.step_barrier = false, s.launch_queue = 8;
      if (variant == 2) s.knobs.grads_resident = false, s.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::fp32};
      s.checks_hazards = true;  // which every rank's own program is needed for
      const SchemeResult each = train(s, scheme);
      s.checks_hazards = false;
      check_same(train(s, scheme), each);
    }
}

TEST_CASE("a straggler plays the same tape at its own speed") {
  Scenario s = thin_gpt2();
  MachineSpec spec;
  spec.nodes = 2, spec.gpus_per_node = 2, spec.gpu = "h100-sxm", spec.nic = 50e9;
  std::string xml = platform_xml(completed(spec), "");
  const std::string gpu = "<prop id=\"gpu\"";
  xml.insert(xml.rfind(gpu), "<prop id=\"gemm_efficiency\" value=\"0.1\"/>");
  const PlatformFile nodes(xml);
  s.platform = nodes.path(), s.world = 4, s.steps = 2, s.numerics = Numerics::off, s.recorded_ranks = 4;
  s.checks_hazards = true;
  const SchemeResult each = train(s, "zero3");
  s.checks_hazards = false;
  check_same(train(s, "zero3"), each);
}
