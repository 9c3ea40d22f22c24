// Explain of a real system: its options, the timeline of a steady step from a trial, and what that trial holds.
#include <doctest/doctest.h>

#include "app/explain.h"
#include "app/explain_pair.h"
#include "app/explain_system.h"
#include "app/trial.h"

using namespace shardsim;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<SchemeChoice> schemes(const std::vector<std::string>& words) { return schemes_in(words, built_in_schemes()); }

TimelineEntry entry(const std::string& trigger, const std::string& what) { return {trigger, what, 8, Lane::gather, "", ""}; }

}  // namespace

TEST_CASE("lines that repeat with other numbers are folded, with the longest row of them, and others are kept") {
  std::vector<TimelineEntry> timeline = {entry("begin", "one")};
  for (int block = 9; block < 12; ++block) {
    timeline.push_back(entry("block" + std::to_string(block) + " begins", "gather"));
    timeline.push_back(entry("block" + std::to_string(block) + " ends", "release"));
  }
  timeline.push_back(entry("end", "one"));
  const std::vector<TimelineRun> runs = folded(timeline);
  REQUIRE(runs.size() == 3);
  CHECK(runs[0].times == 1);
  CHECK((runs[1].begin == 1 && runs[1].lines == 2 && runs[1].times == 3));
  CHECK((runs[2].begin == 7 && runs[2].times == 1));
  timeline[3].lane = Lane::reduce;  // the middle one on another stream
  CHECK(folded(timeline).size() == 8);
}

TEST_CASE("explain of DeepSpeed's stage 3 shows its options, its steady step and what it holds, and no closed forms") {
  const std::vector<SchemeChoice> choice = schemes({"deepspeed", "--stage", "3"});
  const std::string text = explain_scheme(choice.front(), built_in_schemes());
  CHECK(has(text, "  stage: 3, not the default 0; "));
  CHECK(has(text, "begins; ahead of use: all_gather of "));
  CHECK(has(text, "reduce_scatter of "));
  CHECK(has(text, "all_reduce of the norm, one per sub-group"));
  CHECK(has(text, "  bucket       953.67 MiB   953.67 MiB\n"));  // 5e8 bf16 elements, held for good
  CHECK_FALSE(has(text, "Closed forms"));
  CHECK_FALSE(has(text, "The verbs"));
}

TEST_CASE("the timeline comes from rank 0's last step, in order, as the forked run told it") {
  const Trial trial = try_out_on_gpt2(schemes({"deepspeed", "--stage", "2", "--overlap_comm", "true"})).front();
  const std::vector<TimelineEntry>& timeline = trial.result.timeline;
  REQUIRE(timeline.size() >= 4);
  CHECK(timeline.front().trigger == "first gradient of backward");
  CHECK(timeline.front().what == "two buckets are allocated");
  int reductions = 0, gathers = 0;
  for (const TimelineEntry& each : timeline) {
    reductions += each.what == "all_reduce" && each.lane == Lane::reduce;
    gathers += has(each.what, "all_gather of the partitions");
  }
  CHECK(reductions == 1);  // of one step, not of three: all gradients fit into a bucket
  CHECK(gathers == 1);
  CHECK(has(timeline.back().what, "all_gather of the partitions"));
}

TEST_CASE("explain shows what an offloading stage lets the CPU do") {
  const std::string text =
      explain_scheme(schemes({"deepspeed", "--stage", "2", "--offload_optimizer", "cpu"}).front(), built_in_schemes());
  CHECK(has(text, "the CPU updates the partition"));
}

TEST_CASE("explain speaks of every real system, and its text of two shows how the timelines differ") {
  for (const std::string system : {"pytorch_ddp", "torch_zero_redundancy_optimizer", "fsdp1", "fsdp2", "deepspeed",
                                   "megatron_distributed_optimizer", "llmc_zero1", "nanotron_zero1"}) {
    const std::string text = explain_scheme(schemes({system}).front(), built_in_schemes());
    CHECK(has(text, "Options:\n"));
    CHECK(has(text, "A steady step of GPT-2 (12 layers)"));
    CHECK_FALSE(has(text, "tells no timeline"));
    const bool repeats = system == "pytorch_ddp" || system == "torch_zero_redundancy_optimizer" || system.find("fsdp") == 0 ||
                         system == "llmc_zero1";
    CHECK(has(text, " times in all, the last one from: ") == repeats);
  }
  const std::vector<SchemeChoice> hybrid = schemes({"fsdp1", "--sharding_strategy", "HYBRID_SHARD"});
  CHECK(has(explain_scheme(hybrid.front(), built_in_schemes()), "mesh: {replicas: 2, shards: 4}"));
  const std::vector<SchemeChoice> two = schemes({"dp", "deepspeed", "--stage", "1"});
  const std::string text = explain_pair(two[0], two[1], built_in_schemes());
  CHECK(text.find("--- dp: ") == 0);
  CHECK(has(text, "\n+  "));
  CHECK(has(text, "all_gather of the partitions"));
}
