// Tape: a device and a fabric that take down what they are asked for, and the parts that play it.
#include "backends/simgrid/tape.h"

#include <algorithm>
#include <array>
#include <deque>
#include <tuple>

#include "backends/simgrid/fabric.h"
#include "core/error.h"
#include "cost/price.h"

namespace shardsim {
namespace simgrid_backend {

using Positions = std::array<std::uint64_t, lane_count>;

bool Tape::Line::operator==(const Line& o) const {
  const auto same = [](const Collective& a, const Collective& b) {
    return a.verb == b.verb && a.payload == b.payload && a.root == b.root && a.label.verb == b.label.verb &&
           a.label.unit == b.label.unit && a.whole().count() == b.whole().count() && a.whole().in == b.whole().in;
  };
  return std::tie(call, lane, op, of, label.verb, label.unit, at, launch, seconds, storage, group) ==
             std::tie(o.call, o.lane, o.op, o.of, o.label.verb, o.label.unit, o.at, o.launch, o.seconds, o.storage, o.group) &&
         (collective == o.collective || (collective && o.collective && same(*collective, *o.collective)));
}

class TakingDevice final : public Device {
 public:
  explicit TakingDevice(const Gpu& gpu) : Device(0, false), gpu_(gpu) {}
  double now() const override { return 0; }
  void begin_step(int) override { note({.call = Tape::Call::begin_step}); }

  void start(const Positions& had) { had_ = begin_ = had; }
  Tape take() {
    Crossing of_this = crossed();
    of_this.to_device -= before_.to_device, of_this.to_host -= before_.to_host;
    before_ = crossed();
    return {std::exchange(lines_, {}), of_this};
  }
  void issue(const Collective& collective, Group Mesh::*group) {
    Collective& kept = collectives_.emplace_back(collective);
    kept.borders = {};
    for (Tensor* tensor : {&kept.from, &kept.to})  // what they lie in is used again: of it only the type is asked for
      if (*tensor) tensor->in = in_books_of_type(tensor->dtype());
    push({.call = Tape::Call::collective, .lane = collective.lane, .collective = &kept, .group = group});
  }

 private:
  void note(const Tape::Line& line) { lines_.push_back(line); }
  void push(const Tape::Line& line) {
    note(line);
    ++had_[unsigned(line.lane)];
  }
  Tape::Line about(Tape::Call call, Lane lane, Event event) const {
    return {.call = call, .lane = lane, .of = event.lane, .at = std::int64_t(event.at - begin_[unsigned(event.lane)])};
  }
  /// One storage for all that look alike in the books.
  Storage* known(const Storage& s) {
    const auto [at, is_new] = known_.try_emplace({s.bytes, s.unit, s.band, s.cause, s.dtype, s.place}, nullptr);
    if (is_new) *(at->second = &storages_.emplace_back()) = s;
    return at->second;
  }

  Storage* do_alloc(Lane lane, Band band, Dim count, Dtype type, std::int64_t bytes, Place place) override {
    if (free_.empty()) free_.push_back(&storages_.emplace_back());
    Storage* storage = free_.back();
    free_.pop_back();
    *storage = {.count = count,
                .dtype = type,
                .band = band,
                .unit = label().unit,
                .cause = label().verb,
                .life = storage->life,
                .bytes = bytes,
                .place = place,
                .history = nullptr};
    push({.call = Tape::Call::hold, .lane = lane, .storage = in_books(*storage)});
    return storage;
  }
  void do_free(Lane lane, Storage* storage) override {
    push({.call = Tape::Call::let_go, .lane = lane, .storage = in_books(*storage)});
    free_.push_back(storage);
  }
  Storage* in_books_of_type(Dtype type) {
    Storage storage;
    storage.dtype = type;
    return known(storage);
  }
  Storage* in_books(Storage storage) {
    storage.life = 0;
    return known(storage);
  }
  void do_launch(Lane lane, const Op& op) override {
    const cost::Price price = cost::price(gpu_, op);
    push({.call = Tape::Call::run,
          .lane = lane,
          .op = std::uint8_t(op.index()),
          .label = label(),
          .launch = price.kernels * gpu_.launch_seconds,
          .seconds = price.seconds});
  }
  Event do_record(Lane lane) override {
    note({.call = Tape::Call::record, .lane = lane});
    return {lane, had_[unsigned(lane)]};
  }
  void do_wait(Lane lane, Event event) override { push(about(Tape::Call::wait, lane, event)); }
  void do_synchronize() override { note({.call = Tape::Call::synchronize}); }
  void do_synchronize(Event event) override { note(about(Tape::Call::until, Lane::compute, event)); }
  void do_upload(Lane lane, Tensor, HostView) override { push({.call = Tape::Call::nothing, .lane = lane}); }
  void do_download(Lane lane, Tensor, std::vector<float>&) override { push({.call = Tape::Call::nothing, .lane = lane}); }
  void do_stamp(Lane lane, double&) override { push({.call = Tape::Call::nothing, .lane = lane}); }

  const Gpu& gpu_;
  std::vector<Tape::Line> lines_;
  Crossing before_;
  Positions had_{}, begin_{};
  std::deque<Storage> storages_;
  std::vector<Storage*> free_;
  std::map<std::tuple<std::int64_t, int, Band, Verb, Dtype, Place>, Storage*> known_;
  std::deque<Collective> collectives_;
};

class TakingFabric final : public Fabric {
 public:
  TakingFabric(TakingDevice& device, IssueOrder& order) : Fabric(device, order), device_(device) {}
  const Scheme* scheme = nullptr;

 private:
  void enqueue(const Collective& collective) override {
    const Mesh& mesh = scheme->mesh();
    for (Group Mesh::*place : {&Mesh::world, &Mesh::replicas, &Mesh::shards})
      if (same(mesh.*place, collective.group)) return device_.issue(collective, place);
    throw std::logic_error("an even scheme issues a collective in a group that is not in its mesh");
  }
  static bool same(const Group& a, const Group& b) { return a.first == b.first && a.stride == b.stride && a.size == b.size; }
  TakingDevice& device_;
};

/// Rank 0's own scheme and model, and the tapes that were taken of them.
class Taker {
 public:
  Taker(const Score::Original& original, const Gpu& gpu)
      : device_(gpu),
        fabric_(device_, order_),
        model_(original.model(device_)),
        scheme_(original.scheme()),
        rank_{device_, fabric_, *model_, original.knobs, original.theta0, original.name, 0, original.world} {
    fabric_.scheme = scheme_.get();
  }
  const Scheme& scheme() const { return *scheme_; }
  Model& model() { return *model_; }
  const Tape& bind(const Positions& had) {
    return tape(0, had, [this] { scheme_->bind(rank_); });
  }
  const Tape& step(int step, const Positions& had) {
    return tape(std::size_t(step) + 1, had, [&] { scheme_->run_step(step, report_); });
  }

 private:
  template <class Body>
  const Tape& tape(std::size_t number, const Positions& had, const Body& body) {
    if (number < tapes_.size()) return *tapes_[number];
    device_.start(had);
    body();
    auto taken = std::make_shared<const Tape>(device_.take());
    if (!tapes_.empty() && tapes_.back()->lines == taken->lines) taken = tapes_.back();
    return *tapes_.emplace_back(taken);
  }

  TakingDevice device_;
  IssueOrder order_;
  TakingFabric fabric_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Scheme> scheme_;
  Rank rank_;
  StepReport report_;
  std::vector<std::shared_ptr<const Tape>> tapes_;  // of bind, then of each step
};

namespace {

class PlayedPart final : public Scheme {
 public:
  explicit PlayedPart(Score& score) : score_(score) {}

  void bind(Rank& rank) override {
    device_ = &dynamic_cast<SimDevice&>(rank.device), fabric_ = &dynamic_cast<SimFabric&>(rank.fabric);
    taker_ = &score_.taker(device_->gpu());
    const Tape& tape = taker_->bind(had());
    mesh_ = Mesh::of(rank.index, rank.world, scheme().mesh().shards.size);
    fabric_->play(tape, mesh_, 0);
  }
  void run_step(int step, StepReport&) override { fabric_->play(taker_->step(step, had()), mesh_, step); }
  std::vector<ThetaPiece> theta() override { return {}; }
  const std::vector<Unit>& units() const override { return scheme().units(); }
  const Mesh& mesh() const override { return mesh_; }
  ShardSet shard() const override { return scheme().shard(); }
  bool is_even() const override { return true; }
  bool has_closed_forms() const override { return scheme().has_closed_forms(); }

 private:
  const Scheme& scheme() const { return taker_->scheme(); }
  Positions had() const {
    Positions had;
    for (int lane = 0; lane < lane_count; ++lane) had[unsigned(lane)] = device_->stream(Lane(lane)).enqueued();
    return had;
  }
  Score& score_;
  Taker* taker_ = nullptr;
  SimDevice* device_ = nullptr;
  SimFabric* fabric_ = nullptr;
  Mesh mesh_;
};

}  // namespace

void SimFabric::play(const Tape& tape, const Mesh& mesh, int step) {
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
      collective.group = mesh.*line.group;
      enqueue(collective);
    }
  }
  device_.add_crossed(tape.crossed);
}

}  // namespace simgrid_backend

using namespace simgrid_backend;

Score::Score(Original original) : original_(std::move(original)) {
  try {
    any_ = std::make_unique<Taker>(original_, ideal_);
    any_->bind({});
  } catch (const std::exception&) {
    any_.reset();
  }
}
Score::~Score() = default;

bool Score::is_even() const { return any_ && any_->scheme().is_even(); }
Model& Score::model() const { return any_->model(); }
const Scheme& Score::scheme() const { return any_->scheme(); }

std::unique_ptr<Scheme> Score::part() { return std::make_unique<PlayedPart>(*this); }

Taker& Score::taker(const Gpu& gpu) {
  auto& taker = takers_[&gpu];
  if (!taker) taker = std::make_unique<Taker>(original_, gpu);
  return *taker;
}

}  // namespace shardsim
