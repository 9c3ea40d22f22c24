// DeepSpeed's coordinator alone: what it gathers of models of published sizes, and when it lets go, without any device.
#include <doctest/doctest.h>

#include <set>

#include "core/error.h"
#include "systems/deepspeed_coordinator.h"

using shardsim::DeepSpeedCoordinator;
using shardsim::IllegalStep;
using Limits = DeepSpeedCoordinator::Limits;

namespace {

/// A GPT-2 as nanoGPT first wrote it: every dropout is a module, and its GELU is a function.
struct Gpt2 {
  struct Event {
    int module;
    bool begins;
  };
  std::vector<DeepSpeedCoordinator::Parameter> parameters;
  std::vector<std::vector<int>> modules;
  std::vector<Event> pass;
  std::size_t forward = 0;  // events of it
  std::int64_t elements = 0;

  Gpt2(int layers, std::int64_t h, std::int64_t vocabulary) {
    std::vector<Event> backward;  // written down in reverse
    const auto module = [&](std::vector<std::int64_t> sizes) {
      modules.emplace_back();
      for (const std::int64_t size : sizes) {
        modules.back().push_back(int(parameters.size()));
        parameters.push_back({size, size <= 100'000});
        elements += size;
      }
      return int(modules.size()) - 1;
    };
    const auto begin = [&](int m, bool has_end = true) {
      pass.push_back({m, true});
      if (has_end) backward.push_back({m, false});
      return m;
    };
    const auto end = [&](int m) {
      pass.push_back({m, false});
      backward.push_back({m, true});
    };
    const auto call = [&](int m, bool has_end = true) { end(begin(m, has_end)); };
    const int root = begin(module({}), false), tokens = module({vocabulary * h});
    call(tokens, false);  // an embedding's input needs no gradient
    call(module({1024 * h}), false);
    call(module({}));
    for (int layer = 0; layer < layers; ++layer) {
      const int block = begin(module({}));
      call(module({h, h}));
      const int attention = begin(module({}));
      call(module({3 * h * h, 3 * h}));
      call(module({h * h, h}));
      call(module({}));
      end(attention);
      call(module({h, h}));
      const int feed_forward = begin(module({}));
      call(module({4 * h * h, 4 * h}));
      call(module({4 * h * h, h}));
      call(module({}));
      end(feed_forward);
      end(block);
    }
    call(module({h, h}));
    const int head = module({});
    modules[std::size_t(head)] = modules[std::size_t(tokens)];
    call(head);
    end(root);
    forward = pass.size();
    pass.insert(pass.end(), backward.rbegin(), backward.rend());
  }
};

struct Step {
  std::vector<std::int64_t> forward, backward;  // elements of each gather
  std::int64_t most_live = 0;
  int modules_until_last_gather = 0;  // of the forward pass
  std::size_t calls() const { return forward.size() + backward.size(); }
  std::int64_t elements() const { return sum(forward) + sum(backward); }
  static std::int64_t sum(const std::vector<std::int64_t>& of) {
    std::int64_t all = 0;
    for (const std::int64_t one : of) all += one;
    return all;
  }
};

/// A pass; afterwards the step drops everything, and gathers again what persists.
Step run(DeepSpeedCoordinator& coordinator, const Gpt2& model) {
  Step step;
  std::set<int> there;
  CHECK(coordinator.begin_pass().empty());
  int begun = 0;
  for (std::size_t i = 0; i < model.pass.size(); ++i) {
    const auto [module, begins] = model.pass[i];
    if (!begins) {
      for (const int p : coordinator.release(module)) CHECK(there.erase(p) == 1);
      continue;
    }
    ++begun;
    const auto gather = [&](const std::vector<int>& parameters) {
      if (parameters.empty()) return;
      std::int64_t elements = 0;
      for (const int p : parameters) {
        CHECK(there.insert(p).second);
        elements += model.parameters[std::size_t(p)].elements;
      }
      (i < model.forward ? step.forward : step.backward).push_back(elements);
      if (i < model.forward) step.modules_until_last_gather = begun;
    };
    CHECK(coordinator.enter(module).empty());
    const DeepSpeedCoordinator::Fetch fetch = coordinator.fetch(module);
    gather(fetch.gather);
    for (const int p : fetch.wait) coordinator.arrived(p);
    gather(coordinator.look_ahead(module));
    for (const int p : model.modules[std::size_t(module)]) CHECK((there.count(p) || model.parameters[std::size_t(p)].persists));
    std::int64_t live = 0;
    for (const int p : there) live += model.parameters[std::size_t(p)].elements;
    step.most_live = std::max(step.most_live, live);
  }
  coordinator.release_all();
  for (int p = 0; p < int(model.parameters.size()); ++p)
    if (model.parameters[std::size_t(p)].persists) coordinator.persist(p);
  return step;
}

/// The second pass and all later ones are alike; the first is recorded.
Step steady(const Gpt2& model, const Limits& limits = {}) {
  DeepSpeedCoordinator coordinator(limits, model.parameters, model.modules);
  run(coordinator, model);
  const Step second = run(coordinator, model), third = run(coordinator, model);
  CHECK(second.forward == third.forward);
  CHECK(second.backward == third.backward);
  return third;
}

double share(std::int64_t elements, const Gpt2& model) { return double(elements) / double(model.elements); }

const Gpt2& large() {
  static const Gpt2 model(36, 1280, 50304);
  return model;
}

}  // namespace

TEST_CASE("GPT-2 Large is gathered in the first 15 modules of forward, and not once in backward") {
  CHECK(large().elements == 774'090'240);
  CHECK(large().parameters.size() == 436);
  const Step step = steady(large());
  REQUIRE(step.forward.size() == 15);
  CHECK(step.backward.empty());
  CHECK(step.modules_until_last_gather == 15);
  CHECK(step.forward.front() == 64'389'120);
  for (std::size_t i = 1; i < 15; ++i) CHECK((step.forward[i] >= 47'000'000 && step.forward[i] <= 54'100'000));
  CHECK(step.elements() == 794'460'160);
  CHECK(step.most_live == 774'090'240 - 601'600);  // all but what persists
}

TEST_CASE("models of published sizes are gathered as often as DeepSpeed's rules say") {
  const Gpt2 medium(24, 1024, 50304), xl(48, 1600, 50304), seven_billion(32, 4096, 32000);
  Step step = steady(medium);
  CHECK(step.calls() == 7);
  CHECK(share(step.elements(), medium) == doctest::Approx(1.00).epsilon(0.005));
  step = steady(xl);
  CHECK(step.calls() == 115);
  CHECK(share(step.elements(), xl) == doctest::Approx(1.46).epsilon(0.005));
  CHECK(share(Step::sum(step.backward), xl) == doctest::Approx(0.41).epsilon(0.01));
  CHECK(double(step.most_live) == doctest::Approx(1.075e9).epsilon(0.001));
  step = steady(seven_billion);
  CHECK(step.calls() == 236);
  CHECK(share(step.elements(), seven_billion) == doctest::Approx(1.90).epsilon(0.005));
  CHECK(share(Step::sum(step.backward), seven_billion) == doctest::Approx(0.87).epsilon(0.01));
  CHECK(double(step.most_live) == doctest::Approx(1.087e9).epsilon(0.001));
}

TEST_CASE("limits below the model's size bring back the second gather") {
  Step step = steady(large(), {.prefetch_bucket = 0});
  CHECK(step.calls() == 202);
  CHECK(share(step.elements(), large()) == doctest::Approx(1.35).epsilon(0.005));
  CHECK(double(step.most_live) == doctest::Approx(503e6).epsilon(0.002));
  step = steady(large(), {.prefetch_bucket = 0, .max_reuse_distance = 0});
  CHECK(step.calls() == 294);
  CHECK(share(step.elements(), large()) == doctest::Approx(2.16).epsilon(0.005));  // a tied embedding once per use
  CHECK(double(step.most_live) < 66e6);
  step = steady(large(), {.prefetch_bucket = 20'000'000, .max_live = 100'000'000, .max_reuse_distance = 100'000'000});
  CHECK(step.calls() == 196);
  CHECK(share(step.elements(), large()) == doctest::Approx(2.04).epsilon(0.005));
  CHECK(double(step.most_live) == doctest::Approx(164e6).epsilon(0.001));
}

TEST_CASE("the first pass gathers what a module needs and drops all of it with the module, small or large") {
  DeepSpeedCoordinator coordinator({}, large().parameters, large().modules);
  const Step first = run(coordinator, large());
  CHECK(first.forward.size() == 2 + 36 * 6 + 2);  // every module with parameters
  CHECK(first.most_live <= 64'389'120 + 1024 * 1280);
}

TEST_CASE("a pass in another order voids the record: what was gathered on its word is dropped, and the next pass is recorded") {
  // Modules 1, 2 and 3 with a parameter each, in a root.
  DeepSpeedCoordinator coordinator({}, {{10, false}, {20, false}, {30, false}}, {{}, {0}, {1}, {2}});
  const auto pass = [&](std::vector<int> modules) {
    std::vector<std::vector<int>> abandoned;
    coordinator.begin_pass();
    for (const int module : modules) {
      abandoned.push_back(coordinator.enter(module));
      for (const int p : coordinator.fetch(module).wait) coordinator.arrived(p);
      coordinator.look_ahead(module);
      coordinator.release(module);
    }
    coordinator.release_all();
    return abandoned;
  };
  pass({0, 1, 2, 3});
  CHECK_FALSE(coordinator.is_recorded());
  const auto as_recorded = pass({0, 1, 2, 3});
  CHECK(coordinator.is_recorded());
  for (const std::vector<int>& dropped : as_recorded) CHECK(dropped.empty());
  const auto deviating = pass({0, 1, 3, 2});
  CHECK(deviating[2] == std::vector<int>{1, 2});
  CHECK_FALSE(coordinator.is_recorded());
  pass({0, 1, 3, 2});  // runs without a record, and is recorded
  pass({0, 1, 3, 2});
  CHECK(coordinator.is_recorded());
}
