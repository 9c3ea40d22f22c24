// Schemes with options: what a scenario and `explain` may say about them, the labels that they get, and that they run with them.
#include <doctest/doctest.h>

#include <stdexcept>

#include "app/expectations.h"
#include "app/explain.h"
#include "app/metrics.h"
#include "app/run.h"
#include "app/scenario_schemes.h"
#include "core/band_scheme.h"
#include "core/error.h"
#include "platforms.h"
#include "scratch.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

/// zero3 that keeps its first `keep` units gathered from forward to backward; `stage` only sets what is sharded on top of that.
class Keeping : public BandScheme {
 public:
  static std::vector<Option> options() {
    using Kind = Option::Kind;
    return {{"stage", Kind::integer, "3", "as in the ZeRO paper", {}, 0, 3},
            {"keep", Kind::integer, "0", "units that stay gathered", {"all"}, 0},
            {"clips", Kind::boolean, "true", "whether it calls clip()"}};
  }
  explicit Keeping(const Options& options)
      : keep_(options.text("keep") == "all" ? unlimited : int(options.integer("keep"))), clips_(options.boolean("clips")) {
    if (options.integer("stage") != 3) throw std::invalid_argument("only stage 3 gathers; remove stage or set it to 3");
  }
  ShardSet shard() const override { return {Band::opt, Band::grad, Band::param}; }
  bool keeps_gathered() const override { return keep_ > 0; }
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) {
        all_gather(u), forward(u);
        if (u >= keep_) release(u);
      }
      for (int u : backward_order()) all_gather(u), backward(u), release(u), reduce_scatter(u);
    }
    if (clips_) clip();
    adam();
  }

 private:
  int keep_;
  bool clips_;
};

Registry registry() {
  Registry registry = built_in_schemes();
  registry.add({"keeping", "zero3 that keeps some units", "",
                [](const Options& options) -> std::unique_ptr<Scheme> { return std::make_unique<Keeping>(options); },
                Keeping::options()});
  return registry;
}

/// Four equal layers on four GPUs.
class Folder {
 public:
  Scenario read(const std::string& schemes, const std::string& more = "", const std::vector<std::string>& overrides = {}) const {
    folder_.write("s.yaml", "schemes: " + schemes + "\nplatform: " + platform_.path().string() +
                                "\nworld: 4\nmodel: {kind: mlp, widths: [8, 8, 8, 8, 8]}\nsteps: 2\n" + more);
    return read_scenario(folder_ / "s.yaml", overrides, registry());
  }
  /// The line with which it is refused, without the folder; else the labels.
  std::string outcome(const std::string& schemes, const std::string& more = "",
                      const std::vector<std::string>& overrides = {}) const {
    try {
      return labels(read(schemes, more, overrides).schemes);
    } catch (const ScenarioError& error) {
      const std::string message = error.what(), prefix = folder_.path().string() + "/";
      return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
    }
  }

 private:
  PlatformFile platform_{IdealGpus{}};
  Scratch folder_;
};

formats::Figures figures_of(const Scenario& s, const SchemeChoice& choice) {
  return measure(s, run_scheme(s, TrainingSet(s), choice));
}

std::string explained(const std::vector<std::string>& words) {
  try {
    return labels(schemes_in(words, registry()));
  } catch (const ScenarioError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a scheme's options reach it, and its results carry a label that tells them apart") {
  const Folder folder;
  const Scenario s = folder.read("[zero3, keeping, {name: keeping, keep: 2}, {name: keeping, keep: all, clips: off}]");
  CHECK(labels(s.schemes) == "zero3, keeping, keeping-keep-2, keeping-keep-all-clips-false");
  const double traffic[] = {3, 3, 2.5, 2};
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < s.schemes.size(); ++i) {
    INFO(s.schemes[i].label);
    const formats::Figures f = figures_of(s, s.schemes[i]);
    CHECK(f.scheme == s.schemes[i].label);
    CHECK(f.traffic_units == traffic[i]);
    REQUIRE(f.theta_hash);
    if (i == 0) hash = *f.theta_hash;
    CHECK(*f.theta_hash == hash);
  }
}

TEST_CASE("a scheme may be listed several times with different options, and not twice with the same") {
  const Folder folder;
  CHECK(folder.outcome("{name: keeping, keep: 1}") == "keeping-keep-1");
  CHECK(folder.outcome("[{name: dp}]") == "dp");
  CHECK(folder.outcome("[{name: keeping, stage: 3, keep: 0}]") == "keeping");  // nothing differs from the defaults
  CHECK(folder.outcome("[dp]", "", {"schemes=[{name: keeping, keep: 1e0}, zero1]"}) == "keeping-keep-1e0, zero1");
  CHECK(folder.outcome("[keeping, {name: keeping, keep: 0}]") ==
        "s.yaml:1: schemes[1]: the scheme 'keeping' is listed twice; remove one");
  CHECK(folder.outcome("[{name: keeping, keep: 1}, {name: keeping, keep: 1e0}]") ==
        "s.yaml:1: schemes[1]: the scheme 'keeping-keep-1e0' is listed twice, first as 'keeping-keep-1'; remove one");
}

TEST_CASE("an option that does not fit is refused by file, line and key, with what would fit") {
  const Folder folder;
  struct Case {
    const char *schemes, *message;
  };
  const Case cases[] = {
      {"\n  - dp\n  - {name: keeping, kep: 1}", "s.yaml:3: schemes[1].kep: unknown option; known options: stage, keep, clips"},
      {"[{name: dp, keep: 1}]", "s.yaml:1: schemes[0].keep: unknown option; this scheme has none"},
      {"[{name: keping}]", "s.yaml:1: schemes[0].name: there is no scheme 'keping'; known schemes: dp, zero1"},
      {"[{keep: 1}]", "s.yaml:1: schemes[0]: the key 'name' is missing"},
      {"[{name: dp, name: dp}]", "s.yaml:1: schemes[0].name: is given twice; remove one"},
      {"[{name: keeping, keep: 1, keep: 2}]", "s.yaml:1: schemes[0].keep: is given twice; remove one"},
      {"[{name: keeping, keep: -1}]", "s.yaml:1: schemes[0].keep: has to be a whole number of at least 0, or all"},
      {"[{name: keeping, keep: [1]}]", "s.yaml:1: schemes[0].keep: is a list, but has to be a whole number of at least 0, or all"},
      {"[{name: keeping, keep: }]", "s.yaml:1: schemes[0].keep: has no value, but has to be a whole number"},
      {"[{name: keeping, keep: \"1\"}]", "s.yaml:1: schemes[0].keep: '1' is a text, but has to be a whole number"},
      {"[{name: keeping, keep: \"all\"}]", "keeping-keep-all"},
      {"[{name: keeping, clips: maybe}]", "s.yaml:1: schemes[0].clips: has to be true or false"},
      {"[{name: keeping, stage: 4}]", "s.yaml:1: schemes[0].stage: has to be a whole number from 0 to 3"},
      {"[{name: keeping, stage: 1}]", "s.yaml:1: schemes[0]: only stage 3 gathers; remove stage or set it to 3"},
  };
  for (const Case& each : cases) {
    const std::string outcome = folder.outcome(each.schemes);
    CHECK_MESSAGE(outcome.starts_with(each.message), outcome);
    CHECK(outcome.find('\n') == std::string::npos);
  }
}

TEST_CASE("expectations are by label, or by the scheme's name where only one is meant") {
  const Folder folder;
  const auto misses = [&](const Scenario& s) {
    std::vector<formats::Figures> all;
    for (const SchemeChoice& choice : s.schemes) all.push_back(figures_of(s, choice));
    return missed_expectations(s, all);
  };
  const char* two = "[{name: keeping, keep: 2}, {name: keeping, keep: 4}]";
  CHECK(misses(folder.read("{name: keeping, keep: 2}", "expect: {keeping: {traffic: 2.5}}\n")).empty());
  CHECK(misses(folder.read(two, "expect: {keeping-keep-2: {traffic: 2.5}, keeping-keep-4: {traffic: 2}}\n")).empty());
  const std::vector<std::string> missed = misses(folder.read(two, "expect: {keeping-keep-4: {traffic: 3}}\n"));
  REQUIRE(missed.size() == 1);
  CHECK_MESSAGE(missed[0].find("keeping-keep-4.traffic: expected 3, found 2") != std::string::npos, missed[0]);
  CHECK(folder.outcome(two, "expect: {keeping: {traffic: 2.5}}\n") ==
        "s.yaml:6: expect.keeping: which of them? The schemes are keeping-keep-2, keeping-keep-4");
  const std::string unknown = folder.outcome(two, "expect: {keeping-keep-3: {traffic: 2.5}}\n");
  CHECK_MESSAGE(unknown.starts_with("s.yaml:6: expect.keeping-keep-3: unknown key; known keys: theta, dp"), unknown);
  CHECK(unknown.ends_with("keeping-keep-2, keeping-keep-4"));
  // Other schemes on the command line: the file's expectations stand, and are of schemes that are not run.
  CHECK(folder.outcome(two, "expect: {keeping-keep-4: {traffic: 2}}\n", {"schemes=[dp]"}) == "dp");
}

TEST_CASE("explain takes a scheme's options after its name, and shows them with their defaults") {
  CHECK(explained({"keeping", "--keep", "2", "zero3"}) == "keeping-keep-2, zero3");
  CHECK(explained({"keeping", "keeping", "--keep=all", "--clips", "off"}) == "keeping, keeping-keep-all-clips-false");
  CHECK(explained({"keeping", "--kep", "2"}) == "keeping: --kep: unknown option; known options: stage, keep, clips");
  CHECK(explained({"zero3", "--keep", "2"}) == "zero3: --keep: unknown option; this scheme has none");
  CHECK(explained({"keeping", "--keep"}) == "keeping: --keep: has no value; write --keep 0");
  CHECK(explained({"keeping", "--keep", "-1"}) == "keeping: --keep: has to be a whole number of at least 0, or all");
  CHECK(explained({"keeping", "--stage", "2"}).find("only stage 3 gathers") != std::string::npos);
  CHECK(explained({"--keep", "2"}).starts_with("there is no scheme '--keep'"));
  const Registry all = registry();
  const std::string text = explain_scheme(schemes_in({"keeping", "--keep", "2"}, all)[0], all);
  CHECK(text.starts_with("keeping-keep-2: zero3 that keeps some units\n"));
  CHECK(text.find("  stage: 3; a whole number from 0 to 3\n      as in the ZeRO paper\n") != std::string::npos);
  CHECK(text.find("  keep: 2, not the default 0; a whole number of at least 0, or all\n") != std::string::npos);
  CHECK(text.find("  traffic, 1 micro-batch   3         2.5\n") != std::string::npos);
  CHECK(explain_scheme(*all.find("zero3"), all).find("Options:") == std::string::npos);
}
