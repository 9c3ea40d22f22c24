// Sharing: transfers over many links at once that share them fairly (weighted max-min), on SimGrid's timers. The same rates as
// SimGrid's own solver, whose cost of one transfer grows with the square of its links: used where collectives have many.
//
// All of a transfer's links move in lock-step, as the data of a ring do: its rate is one number, and a link that it crosses w times
// carries w times that. Rates are found by filling: all rise together, and a transfer is fixed when one of its links is full.
#pragma once
#include <simgrid/kernel/Timer.hpp>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/simgrid/link.h"
#include "backends/simgrid/world.h"

namespace shardsim::simgrid_backend {

class Communicator;

class Sharing {
 public:
  explicit Sharing(World& world) : world_(world) {}
  Sharing(const Sharing&) = delete;

  /// A way over links; made once and taken by many transfers.
  struct Route {
    struct Use {
      int link;
      double weight;
    };
    std::vector<Use> uses;
    double bound;  ///< bytes per second: of the links that do not share
  };
  /// How often each link is crossed, in an order that is the same in every run; a link may be there several times.
  using Weights = std::vector<std::pair<const Link*, double>>;
  Route route(const Weights&);

  /// Sends so many bytes; tells the communicator when they have arrived (end_transfer).
  void start(const Route&, double bytes, Communicator&);

 private:
  struct Transfer {
    const Route* route;
    Communicator* communicator;
    double left, rate = 0, since = 0;  // bytes left at the date `since`
    simgrid::kernel::timer::Timer* end = nullptr;
    bool is_fixed = false;
    std::uint64_t seen = 0;
  };
  struct Line {
    double capacity;
    std::vector<Transfer*> transfers;
    double free = 0, weight = 0;  // while rates are found
    std::uint64_t seen = 0;
  };

  void changed(const Route&);
  void solve();
  void find_rates(const std::vector<Transfer*>&, const std::vector<int>& lines);
  void set_rate(Transfer&, double rate);
  void finish(Transfer&);

  World& world_;
  std::unordered_map<const Link*, int> line_of_;
  std::vector<Line> lines_;
  std::vector<std::unique_ptr<Transfer>> transfers_;
  std::vector<const Route*> changed_;
  std::uint64_t round_ = 0;
};

}  // namespace shardsim::simgrid_backend
