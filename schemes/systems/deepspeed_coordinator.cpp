// DeepSpeedCoordinator: the record of a pass, and the rules of fetching and releasing.
#include "systems/deepspeed_coordinator.h"

#include <algorithm>

#include "core/error.h"

namespace shardsim {
namespace {

constexpr std::int64_t never = -10'000'000'000;

}  // namespace

DeepSpeedCoordinator::DeepSpeedCoordinator(Limits limits, const std::vector<Parameter>& parameters,
                                           std::vector<std::vector<int>> modules)
    : limits_(limits), modules_(std::move(modules)) {
  for (const Parameter& parameter : parameters) states_.push_back({parameter, Status::partitioned, false, {}, never});
}

/// Once more from the beginning of the record.
void DeepSpeedCoordinator::forget() {
  for (State& s : states_) s.fetched_until = never;
  queue_.clear();
  step_ = 0;
}

std::vector<int> DeepSpeedCoordinator::abandon() {
  std::vector<int> dropped;
  for (int p = 0; p < int(states_.size()); ++p) {
    State& s = state(p);
    if (!s.registered || !s.users.empty()) continue;
    s.registered = false;
    arrived(p);
    if (drop(p)) dropped.push_back(p);
  }
  return dropped;
}

std::vector<int> DeepSpeedCoordinator::begin_pass() {
  std::vector<int> unused = abandon();
  if (record_ == Record::running) record_ = Record::complete;
  if (record_ == Record::invalid) record_ = Record::running, order_.clear();
  forget();
  live_ = 0;
  if (!is_recorded()) return unused;
  for (std::size_t step = 0; step < order_.size(); ++step)
    for (const int p : own(order_[step])) queue_.push_back({p, std::int64_t(step)});
  return unused;
}

std::vector<int> DeepSpeedCoordinator::enter(int module) {
  if (record_ == Record::running) order_.push_back(module);
  if (!is_recorded() || (std::size_t(step_) < order_.size() && order_[std::size_t(step_)] == module)) return {};
  record_ = Record::invalid;
  order_.clear();
  const std::int64_t step = step_;
  forget();
  step_ = step;
  return abandon();
}

/// Of `wanted`, what is partitioned: it will be on its way.
std::vector<int> DeepSpeedCoordinator::gathered(const std::vector<int>& wanted) {
  std::vector<int> gather;
  for (const int p : wanted) {
    State& s = state(p);
    if (s.status != Status::partitioned) continue;
    s.status = Status::in_flight, s.registered = true;
    live_ += s.about.elements;
    gather.push_back(p);
  }
  return gather;
}

DeepSpeedCoordinator::Fetch DeepSpeedCoordinator::fetch(int module) {
  Fetch fetch{gathered(own(module)), {}};
  for (const int p : own(module)) {
    state(p).users.insert(module);
    if (std::exchange(state(p).registered, false)) fetch.wait.push_back(p);
  }
  return fetch;
}

std::vector<int> DeepSpeedCoordinator::look_ahead(int module) {
  const std::int64_t step = step_++;
  if (!is_recorded()) return {};
  // What a look ahead has met before is no longer in the queue.
  std::set<int> expected, met;
  for (const int p : own(module))
    if (state(p).fetched_until < step) expected.insert(p);
  for (; !queue_.empty() && met.size() < expected.size(); queue_.pop_front()) {
    state(queue_.front().parameter).fetched_until = queue_.front().step;
    met.insert(queue_.front().parameter);
  }
  if (met != expected) throw IllegalStep("stage 3: modules run in another order than the one that was recorded");

  const std::int64_t room = std::min(limits_.max_live - live_, limits_.prefetch_bucket);
  std::int64_t elements = 0;
  std::vector<int> ahead;
  for (; !queue_.empty() && elements < room; queue_.pop_front()) {
    const Use use = queue_.front();
    State& s = state(use.parameter);
    s.fetched_until = std::max(s.fetched_until, use.step);
    if (s.status != Status::partitioned || std::find(ahead.begin(), ahead.end(), use.parameter) != ahead.end()) continue;
    ahead.push_back(use.parameter);
    elements += s.about.elements;
  }
  return gathered(ahead);
}

/// Decided once for a module and a step, and kept: later passes do as the first did (an lru_cache in DeepSpeed).
const std::vector<int>& DeepSpeedCoordinator::no_longer_needed(int module) {
  const auto [found, is_new] = decided_.try_emplace({module, step_});
  std::vector<int>& parameters = found->second;
  if (!is_new) return parameters;
  for (const int p : own(module))
    if (!state(p).about.persists && state(p).fetched_until <= step_) parameters.push_back(p);
  std::int64_t distance = 0;
  for (std::size_t step = std::size_t(step_); step < order_.size() && distance < limits_.max_reuse_distance; ++step)
    for (const int p : own(order_[step])) {
      std::erase(parameters, p);
      distance += state(p).about.elements;
    }
  return parameters;
}

bool DeepSpeedCoordinator::drop(int parameter) {
  State& s = state(parameter);
  if (s.status != Status::available || !s.users.empty()) return false;
  s.status = Status::partitioned;
  live_ -= s.about.elements;
  return true;
}

std::vector<int> DeepSpeedCoordinator::release(int module) {
  const std::vector<int>& candidates = is_recorded() ? no_longer_needed(module) : own(module);
  std::vector<int> dropped;
  for (const int p : own(module)) {
    state(p).users.erase(module);
    if (std::find(candidates.begin(), candidates.end(), p) != candidates.end() && drop(p)) dropped.push_back(p);
  }
  return dropped;
}

std::vector<int> DeepSpeedCoordinator::release_all() {
  std::vector<int> dropped;
  for (int p = 0; p < int(states_.size()); ++p) {
    State& s = state(p);
    if (s.status == Status::in_flight) arrived(p);
    s.registered = false;
    s.users.clear();
    if (drop(p)) dropped.push_back(p);
  }
  return dropped;
}

}  // namespace shardsim
