// DeepSpeedCoordinator: decides what stage 3 gathers, and when it lets go of it, from the order of modules and a few limits alone.
//
// The first pass of a step is recorded: until then a module's parameters are gathered as it begins and dropped as it ends. Then
// every module that begins, also one without parameters, looks ahead in that record and gathers the next `prefetch_bucket`
// elements, while fewer than `max_live` are there; and what is used again soon, or was met while looking ahead, is kept. For a
// model of fewer than `max_live` parameters all of it is therefore gathered in the first few modules of a pass, and stays for
// backward.
//
// Source: PartitionedParameterCoordinator in DeepSpeed 0.19.2, deepspeed/runtime/zero/partitioned_param_coordinator.py.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace shardsim {

class DeepSpeedCoordinator {
 public:
  struct Limits {
    std::int64_t prefetch_bucket = 50'000'000, max_live = 1'000'000'000, max_reuse_distance = 1'000'000'000;  ///< elements
  };
  struct Parameter {
    std::int64_t elements = 0;
    bool persists = false;  ///< stays gathered, except during the optimizer's step
  };
  /// `modules`: each module's own parameters, in the order in which they are to be gathered.
  DeepSpeedCoordinator(Limits, const std::vector<Parameter>&, std::vector<std::vector<int>> modules);

  // In the order in which they are called. What they return is to be done by the caller, and counts as done here.

  /// The root begins its forward pass. Returns what was gathered and never used, to be dropped.
  std::vector<int> begin_pass();
  /// A module begins in either pass. If it is not the one that was recorded, the record is void, and what was gathered on its word
  /// is returned, to be dropped.
  std::vector<int> enter(int module);
  struct Fetch {
    std::vector<int> gather;  ///< by one all-gather now
    std::vector<int> wait;    ///< for their gather; each is named once per gather
  };
  /// What the module that begins needs.
  Fetch fetch(int module);
  /// A gather is over: its parameters can be used and dropped.
  void arrived(int parameter) { states_[std::size_t(parameter)].status = Status::available; }
  /// After the waits: what is gathered ahead of use, by one all-gather.
  std::vector<int> look_ahead(int module);
  /// A module ends. Returns what is dropped.
  std::vector<int> release(int module);
  /// Returns all that is gathered or in flight, to be dropped.
  std::vector<int> release_all();

  /// The step has gathered it again by itself, which is not counted as live.
  void persist(int parameter) { arrived(parameter); }

  /// Gathered elements as DeepSpeed counts them: from 0 in every pass, whatever was kept from the last.
  std::int64_t live() const { return live_; }
  bool is_recorded() const { return record_ == Record::complete; }

 private:
  enum class Status : std::uint8_t { partitioned, in_flight, available };
  enum class Record : std::uint8_t { invalid, running, complete };
  struct State {
    Parameter about;
    Status status = Status::partitioned;
    bool registered = false;     // gathered, and nobody has waited for it
    std::set<int> users;         // modules that have begun and not ended
    std::int64_t fetched_until;  // the last use that a look ahead has met; before all uses: never
  };
  struct Use {
    int parameter;
    std::int64_t step;
  };
  State& state(int parameter) { return states_[std::size_t(parameter)]; }
  const std::vector<int>& own(int module) const { return modules_[std::size_t(module)]; }
  void forget();
  std::vector<int> abandon();
  std::vector<int> gathered(const std::vector<int>& wanted);
  const std::vector<int>& no_longer_needed(int module);
  bool drop(int parameter);

  Limits limits_;
  std::vector<State> states_;
  std::vector<std::vector<int>> modules_;
  Record record_ = Record::invalid;
  std::vector<int> order_;  // of modules, as recorded
  std::deque<Use> queue_;   // uses that no fetch and no look ahead has met
  std::int64_t step_ = 0, live_ = 0;
  std::map<std::pair<int, std::int64_t>, std::vector<int>> decided_;
};

}  // namespace shardsim
