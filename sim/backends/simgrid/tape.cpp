// Tape: the parts that play it.
#include "backends/simgrid/tape.h"

#include "backends/simgrid/fabric.h"

namespace shardsim {
namespace simgrid_backend {

/// Of one kind of GPU: rank 0's, and whether the last rank's are the same.
class Tapes {
 public:
  Tapes(const Original& original, const Gpu& gpu)
      : first_(original, 0, gpu, true), last_(original, original.world - 1, gpu, false), world_(original.world) {}
  const Scheme& scheme() const { return first_.scheme(); }
  const Program& program() const { return first_.program(); }
  const Tape& bind(const Positions& had) {
    return tape(0, [&](Taking& rank) { return rank.bind(had); });
  }
  const Tape& step(int step, const Positions& had) {
    return tape(std::size_t(step) + 1, [&](Taking& rank) { return rank.step(step, had); });
  }

 private:
  template <class Take>
  const Tape& tape(std::size_t number, const Take& take) {
    if (number < tapes_.size()) return *tapes_[number];
    auto taken = std::make_shared<const Tape>(take(first_));
    take(last_);
    program().check_same(last_.program(), world_ - 1);
    if (!tapes_.empty() && tapes_.back()->digest == taken->digest) taken = tapes_.back();
    return *tapes_.emplace_back(taken);
  }

  Taking first_, last_;
  int world_;
  std::vector<std::shared_ptr<const Tape>> tapes_;  // of bind, then of each step
};

namespace {

class PlayedPart final : public Scheme {
 public:
  explicit PlayedPart(Score& score) : score_(score) {}

  void bind(Rank& rank) override {
    device_ = &dynamic_cast<SimDevice&>(rank.device), fabric_ = &dynamic_cast<SimFabric&>(rank.fabric);
    tapes_ = &score_.tapes(device_->gpu());
    const Tape& tape = tapes_->bind(had());
    mesh_ = Mesh::of(rank.index, rank.world, scheme().mesh().shards.size);
    play(tape, 0);
  }
  void run_step(int step, StepReport&) override { play(tapes_->step(step, had()), step); }
  std::vector<ThetaPiece> theta() override { return {}; }
  const std::vector<Unit>& units() const override { return scheme().units(); }
  const Mesh& mesh() const override { return mesh_; }
  ShardSet shard() const override { return scheme().shard(); }
  bool is_even() const override { return true; }
  bool has_closed_forms() const override { return scheme().has_closed_forms(); }

 private:
  const Scheme& scheme() const { return tapes_->scheme(); }
  void play(const Tape& tape, int step) {
    if (groups_.size() < tapes_->program().groups.size()) groups_ = tapes_->program().groups_at(mesh_);
    fabric_->play(tape, groups_, step);
  }
  Positions had() const {
    Positions had;
    for (int lane = 0; lane < lane_count; ++lane) had[unsigned(lane)] = device_->stream(Lane(lane)).enqueued();
    return had;
  }
  Score& score_;
  Tapes* tapes_ = nullptr;
  SimDevice* device_ = nullptr;
  SimFabric* fabric_ = nullptr;
  Mesh mesh_;
  std::vector<Programs::Use> groups_;  // the rank's
};

}  // namespace

void SimFabric::play(const Tape& tape, const std::vector<Programs::Use>& groups, int step) {
  Positions begin;
  for (int lane = 0; lane < lane_count; ++lane) begin[unsigned(lane)] = device_.stream(Lane(lane)).enqueued();
  const auto event = [&](const Tape::Line& line) { return Event{line.of, begin[unsigned(line.of)] + std::uint64_t(line.at)}; };
  for (const Tape::Line& line : tape.lines) {
    if (line.call == Tape::Call::begin_step) device_.begin_step(step);
    else if (line.call == Tape::Call::synchronize) device_.synchronize();
    else if (line.call == Tape::Call::until) device_.synchronize(event(line));
    else if (line.call == Tape::Call::wait) device_.wait(line.lane, event(line));
    else if (line.call != Tape::Call::collective) device_.play(line);
    else {
      Collective collective = *line.collective;
      collective.group = groups[std::size_t(line.group)].group;
      enqueue(collective);
    }
  }
  device_.add_crossed(tape.crossed);
}

}  // namespace simgrid_backend

using namespace simgrid_backend;

Score::Score(Original original) : original_(std::move(original)) {
  try {
    any_ = std::make_unique<Taking>(original_, 0, Gpu(), false);
    any_->bind({});
  } catch (...) {  // the run tells it
    any_.reset();
  }
}
Score::~Score() = default;

bool Score::is_even() const { return any_ && any_->scheme().is_even(); }
Model& Score::model() const { return any_->model(); }
const Scheme& Score::scheme() const { return any_->scheme(); }

std::unique_ptr<Scheme> Score::part() { return std::make_unique<PlayedPart>(*this); }

Tapes& Score::tapes(const Gpu& gpu) {
  auto& tapes = tapes_[&gpu];
  if (!tapes) tapes = std::make_unique<Tapes>(original_, gpu);
  return *tapes;
}

}  // namespace shardsim
