// Each broken scheme fails with its stated message, names itself, the verb, the unit and the remedy, and exits with 3.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "platforms.h"

using namespace shardsim::test;

namespace {

struct Broken {
  const char* scheme;
  std::vector<const char*> says;
};

const Broken all_broken[] = {
    {"gathers_once", {}},  // tried with more units below
    {"gathers_again_without_release", {}},
    {"forwards_ungathered", {"forward(unit 0 of 3)", "all_gather(u) first"}},
    {"backwards_ungathered", {"backward(unit 2 of 3)", "all_gather(u) first"}},
    {"updates_unreduced", {"adam(unit 2 of 3)", "never reduced", "reduce_scatter(u)"}},
    {"releases_nothing", {"release(unit 0 of 3)", "nothing is gathered", "once for every all_gather(u)"}},
    {"stays_gathered", {"all_gather(unit 0 of 3)", "still gathered at the end of step()", "release(u)"}},
    {"never_publishes", {"adam(unit 0 of 3)", "all_gather(u) to publish"}},
    {"all_reduces_shards", {"all_reduce(unit 2 of 3)", "call reduce_scatter(u)"}},
    {"scatters_replicas", {"reduce_scatter(unit 2 of 3)", "call all_reduce(u)"}},
    {"gathers_replicas", {"all_gather(unit 0 of 3)", "nothing is sharded"}},
    {"reduces_twice", {"all_reduce(unit 2 of 3)", "reduce once"}},
    {"hoards_gradients", {"backward(unit 0 of 3)", "units 1, 2 are still holding", "`unreduced`", "reduce_scatter(u) first"}},
    {"drops_a_gradient", {"backward(unit 0 of 3)", "never reduced", "reduce_scatter(u)"}},
    {"does_nothing", {"adam()", "ended without an update", "call adam()"}},
    {"forgets_to_update", {"adam()", "ended without an update"}},
    {"runs_backward_first", {"backward(unit 2 of 3)", "after all forwards"}},
    {"runs_forward_in_reverse", {"forward(unit 2 of 3)", "iterate forward_order()"}},
    {"runs_without_data", {"forward(unit 0 of 3)", "micro_batches()"}},
    {"names_a_unit_that_is_none", {"all_reduce(unit 7 of 3)", "no such unit"}},
    {"orders_by_rank", {"ranks issue different collectives", "all_reduce(unit 0)", "all_reduce(unit 2)",
                        "must not depend on the rank"}},
    {"repeats_on_one_rank", {"where rank", "all_gather(unit 0)", "all_gather(unit 1)"}},
    {"throws", {"the plugin's own words"}},
};

struct Ended {
  int code;
  std::string output;
};

Ended run_broken(const std::string& arguments) {
  const std::string command = std::string(SHARDSIM_BROKEN_PROGRAM) + " " + arguments + " 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  Ended ended{-1, {}};
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) ended.output.append(buffer, n);
  const int status = pclose(pipe);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

class Runs {
 public:
  Runs() { scratch_.write("platform.xml", platform_xml({})); }
  Ended operator()(const std::string& scheme, const std::string& backend, const std::string& more = "") const {
    write_scenario(scheme, backend);
    return run_broken("run " + (scratch_ / "run.yaml").string() + " -o " + (scratch_ / "results").string() + " " + more);
  }
  Ended sweep(const std::string& schemes) const {
    write_scenario("throws", "simgrid");
    return run_broken("sweep " + (scratch_ / "run.yaml").string() + " -o " + (scratch_ / "swept").string() + " --grid schemes=" +
                      schemes);
  }
  std::string swept(const std::string& file) const { return scratch_.read("swept/" + file); }
  bool left_results() const { return std::filesystem::exists(scratch_ / "results"); }

 private:
  void write_scenario(const std::string& scheme, const std::string& backend) const {
    scratch_.write("run.yaml", "name: broken\nschemes: [" + scheme + "]\nplatform: platform.xml\nworld: 4\n"
                               "model: {kind: mlp, widths: [5, 13, 11, 3]}\n"
                               "batch: {micro: 3}\nsteps: 2\nbackend: " + backend + "\n");
  }
  Scratch scratch_;
};

void refused(const Ended& ended, const char* scheme) {
  CHECK(ended.code == 3);
  CHECK(ended.output.find(std::string("scheme '") + scheme + "'") != std::string::npos);
}

}  // namespace

TEST_CASE("every broken scheme is refused with its message and exit code 3, on both backends") {
  const Runs runs;
  for (const Broken& broken : all_broken)
    for (const char* backend : {"simgrid", "threads"}) {
      const Ended ended = runs(broken.scheme, backend);
      INFO(broken.scheme << " on " << backend << ":\n" << ended.output);
      refused(ended, broken.scheme);
      for (const char* words : broken.says) CHECK(ended.output.find(words) != std::string::npos);
      CHECK_FALSE(runs.left_results());
    }
}

TEST_CASE("a broken scheme is refused with the same words where its ranks are folded") {
  const Runs runs;
  for (const Broken& broken : all_broken) {
    if (std::string(broken.scheme).find("rank") != std::string::npos) continue;  // only the first and the last are asked there
    const Ended ended = runs(broken.scheme, "simgrid", "--set numerics=off --set ranks=folded");
    INFO(broken.scheme << ":\n" << ended.output);
    refused(ended, broken.scheme);
    for (const char* words : broken.says) CHECK(ended.output.find(words) != std::string::npos);
    CHECK_FALSE(runs.left_results());
  }
}

TEST_CASE("the mistake to avoid is refused with one unit, with two and with many") {
  const Runs runs;
  for (const char* scheme : {"gathers_once", "gathers_again_without_release"}) {
    const Ended whole = runs(scheme, "simgrid", "--set units=whole");
    INFO(whole.output);
    refused(whole, scheme);
    CHECK(whole.output.find("backward(unit 0 of 1): the gather of an earlier pass still serves this one") !=
          std::string::npos);
    CHECK(whole.output.find("release(u) after forward(u)") != std::string::npos);
    const Ended two = runs(scheme, "simgrid", "--set model.widths=[5,7,3]");
    INFO(two.output);
    refused(two, scheme);
    CHECK(two.output.find("backward(unit 1 of 2): the gather of an earlier pass") != std::string::npos);
    const Ended many = runs(scheme, "simgrid", "--set model.widths=[5,7,7,7,7,7,7,7,3]");
    INFO(many.output);
    refused(many, scheme);
    CHECK(many.output.find("all_gather(unit 2 of 8): units 0, 1 are gathered already") != std::string::npos);
    CHECK(many.output.find("release(u) one first, or override keeps_gathered()") != std::string::npos);
    const Ended roomy = runs(scheme, "simgrid", "--set model.widths=[5,7,7,7,7,7,7,7,3] --set prefetch=unlimited");
    INFO(roomy.output);
    refused(roomy, scheme);
    CHECK(roomy.output.find("backward(unit 7 of 8): the gather of an earlier pass") != std::string::npos);
  }
}

TEST_CASE("a scheme that hangs is ended and named, on both backends") {
  const Runs runs;
  for (const char* backend : {"simgrid", "threads"}) {
    const Ended ended = runs("hangs", backend, "--set patience=500ms");
    INFO(ended.output);
    refused(ended, "hangs");
    CHECK(ended.output.find("step() hangs") != std::string::npos);
    CHECK_FALSE(runs.left_results());
  }
}

TEST_CASE("gradients that are reduced at the wrong micro-batch are refused") {
  const Runs runs;
  const Ended every = runs("reduces_every_micro_batch", "simgrid", "--set batch.accumulation=2");
  INFO(every.output);
  refused(every, "reduces_every_micro_batch");
  CHECK(every.output.find("backward(unit 2 of 3): its gradient is summed over the ranks already") != std::string::npos);
  CHECK(every.output.find("where micro.reduces is true") != std::string::npos);
  CHECK(runs("reduces_every_micro_batch", "simgrid").code == 0);  // with one micro-batch it is dp
  const Ended last = runs("reduces_the_last_only", "simgrid", "--set batch.accumulation=2 --set unreduced=unlimited");
  INFO(last.output);
  refused(last, "reduces_the_last_only");
  CHECK(last.output.find("backward(unit 2 of 3): its gradient of an earlier micro-batch was never reduced") != std::string::npos);
}

TEST_CASE("a sweep goes on where a scheme is illegal or crashes, tries a crash three times, and says why") {
  const Runs runs;
  const Ended ended = runs.sweep("throws,crashes,reduces_every_micro_batch");
  INFO(ended.output);
  CHECK(ended.code == 4);
  CHECK(ended.output.find("1 ok, 1 refused, 1 failed") != std::string::npos);
  const std::string csv = runs.swept("sweep.csv"), journal = runs.swept("journal");
  CHECK(csv.find("\nthrows,throws,refused,\"scheme 'throws', rank 0, step 0: an exception came out of it") != std::string::npos);
  CHECK(csv.find("\ncrashes,crashes,failed,scheme 'crashes': the run ended with signal 11,,") != std::string::npos);
  CHECK(csv.find("\nreduces_every_micro_batch,reduces_every_micro_batch,ok,,") != std::string::npos);
  CHECK(std::count(journal.begin(), journal.end(), '\n') == 5);
}
