// Sharing: who shares links with whom, and progressive filling.
#include "backends/simgrid/sharing.h"

#include <simgrid/s4u/Engine.hpp>

#include <algorithm>
#include <limits>

#include "backends/simgrid/fabric.h"

namespace shardsim::simgrid_backend {
namespace {

double now() { return simgrid::s4u::Engine::get_clock(); }

}  // namespace

Sharing::Route Sharing::route(const Weights& weights) {
  Route route{{}, std::numeric_limits<double>::infinity()};
  for (const auto& [link, weight] : weights) {
    if (!link->is_shared) {
      route.bound = std::min(route.bound, link->bandwidth);
      continue;
    }
    const auto [known, is_new] = line_of_.try_emplace(link, int(lines_.size()));
    if (is_new) lines_.push_back({.capacity = link->bandwidth, .transfers = {}});
    route.uses.push_back({known->second, weight});
  }
  std::stable_sort(route.uses.begin(), route.uses.end(), [](const auto& a, const auto& b) { return a.link < b.link; });
  std::size_t kept = 0;
  for (const Route::Use& use : route.uses) {
    if (kept > 0 && route.uses[kept - 1].link == use.link) route.uses[kept - 1].weight += use.weight;
    else route.uses[kept++] = use;
  }
  route.uses.resize(kept);
  return route;
}

void Sharing::start(const Route& route, double bytes, Communicator& communicator) {
  transfers_.push_back(std::make_unique<Transfer>(Transfer{&route, &communicator, bytes}));
  Transfer* transfer = transfers_.back().get();
  transfer->since = now();
  for (const auto& use : route.uses) lines_[use.link].transfers.push_back(transfer);
  changed(route);
}

/// Rates are found once for all that starts and ends at one date.
void Sharing::changed(const Route& route) {
  changed_.push_back(&route);
  if (changed_.size() == 1) world_.later(now(), [this] { solve(); });
}

void Sharing::finish(Transfer& transfer) {
  const Route& route = *transfer.route;
  Communicator& communicator = *transfer.communicator;
  for (const auto& use : route.uses) {
    std::vector<Transfer*>& there = lines_[use.link].transfers;
    there.erase(std::find(there.begin(), there.end(), &transfer));
  }
  transfers_.erase(std::find_if(transfers_.begin(), transfers_.end(), [&](const auto& t) { return t.get() == &transfer; }));
  changed(route);
  communicator.end_transfer();
}

/// Only those that share a link with what has changed, or with one that does, get new rates.
void Sharing::solve() {
  ++round_;
  std::vector<int> lines;
  std::vector<Transfer*> transfers;
  const auto see = [&](const Route& route) {
    for (const auto& use : route.uses) {
      if (lines_[use.link].seen == round_) continue;
      lines_[use.link].seen = round_;
      lines.push_back(use.link);
    }
  };
  const auto take = [&](Transfer* transfer) {
    if (transfer->seen == round_) return;
    transfer->seen = round_;
    transfers.push_back(transfer);
    see(*transfer->route);
  };
  for (const Route* route : changed_) see(*route);
  changed_.clear();
  for (const auto& transfer : transfers_)
    if (transfer->route->uses.empty() && transfer->rate == 0) take(transfer.get());
  for (std::size_t i = 0; i < lines.size(); ++i)
    for (Transfer* transfer : lines_[lines[i]].transfers) take(transfer);
  find_rates(transfers, lines);
}

void Sharing::find_rates(const std::vector<Transfer*>& transfers, const std::vector<int>& lines) {
  for (const int at : lines) lines_[at].free = lines_[at].capacity, lines_[at].weight = 0;
  for (Transfer* transfer : transfers) {
    transfer->is_fixed = false;
    for (const auto& use : transfer->route->uses) lines_[use.link].weight += use.weight;
  }
  std::vector<Transfer*> open = transfers;
  while (!open.empty()) {
    double level = std::numeric_limits<double>::infinity();
    for (const int at : lines)
      if (lines_[at].weight > 1e-9) level = std::min(level, std::max(0.0, lines_[at].free) / lines_[at].weight);
    for (const Transfer* transfer : open) level = std::min(level, transfer->route->bound);
    const double full = level * (1 + 1e-12);
    for (Transfer* transfer : open)
      transfer->is_fixed = transfer->route->bound <= full ||
                           std::any_of(transfer->route->uses.begin(), transfer->route->uses.end(),
                                       [&](const auto& use) { return lines_[use.link].free <= full * lines_[use.link].weight; });
    for (Transfer* transfer : open)
      if (transfer->is_fixed) {
        for (const auto& use : transfer->route->uses)
          lines_[use.link].free -= use.weight * level, lines_[use.link].weight -= use.weight;
        set_rate(*transfer, level);
      }
    std::erase_if(open, [](const Transfer* transfer) { return transfer->is_fixed; });
  }
}

void Sharing::set_rate(Transfer& transfer, double rate) {
  if (rate == transfer.rate) return;
  transfer.left -= transfer.rate * (now() - transfer.since);
  transfer.rate = rate, transfer.since = now();
  if (transfer.end) transfer.end->remove();
  const double date = now() + std::max(0.0, transfer.left) / rate;
  transfer.end = simgrid::kernel::timer::Timer::set(date, [this, &transfer] { world_.at(now(), [&] { finish(transfer); }); });
}

}  // namespace shardsim::simgrid_backend
