// Taking: a device and a fabric that take down what they are asked for, and what makes two programs the same.
#include "backends/simgrid/taking.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <map>
#include <tuple>

#include "backends/simgrid/storages.h"
#include "core/draw.h"
#include "core/error.h"
#include "core/touch.h"
#include "cost/price.h"

namespace shardsim {
namespace {

std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }
std::uint64_t bits(auto value) { return std::uint64_t(value); }
/// FNV-1a over whole words, in order; every op of every rank goes through it.
std::uint64_t digest_of(auto... values) {
  std::uint64_t digest = 14695981039346656037u;
  ((digest = (digest ^ bits(values)) * 1099511628211u, digest ^= digest >> 29), ...);
  return digest;
}
/// Of small numbers one.
std::uint64_t packed(auto... values) {
  std::uint64_t word = 0;
  ((word = word << 8 | std::uint8_t(values)), ...);
  return word;
}

/// A GPU on which every fact counts and no two are alike: ops on equal tensors that have one price here have one on every GPU.
Gpu telling_gpu() {
  Gpu gpu;
  for (std::size_t i = 0; i < cost::facts().size(); ++i) {
    const cost::Fact& fact = cost::facts()[i];
    fact.set(gpu, fact.low + std::fmod(0.618034 * double(i + 1), 1) * (std::min(fact.high, 100.0) - fact.low));
  }
  return gpu;
}

}  // namespace

std::vector<Programs::Use> Program::groups_at(const Mesh& other) const {
  std::vector<Programs::Use> moved = groups;
  const auto own = mesh->groups(), its = other.groups();
  for (Programs::Use& use : moved) {
    const auto place = std::find(own.begin(), own.end(), use.group);
    if (place == own.end())
      throw IllegalStep(
          "all ranks do the same, the scheme says (is_even), but it issues a collective in a group that is not in its "
          "mesh; let is_even say false");
    use.group = its[std::size_t(place - own.begin())];
  }
  return moved;
}

void Program::check_same(const Program& other, int rank) const {
  if (digest != other.digest || !other.mesh || groups_at(*other.mesh) != other.groups)
    throw IllegalStep("all ranks do the same, the scheme says (is_even), but rank " + std::to_string(rank) +
                      " does not do what rank 0 does; let its steps not depend on the rank, or is_even say false");
}

namespace simgrid_backend {

std::uint64_t Tape::Line::digest() const {
  const std::uint64_t small = packed(call, lane, op, of, label.verb);
  if (storage)
    return digest_of(small, packed(storage->band, storage->cause, storage->dtype, storage->place), storage->bytes, storage->unit);
  if (const Collective* c = collective)
    return digest_of(small, packed(c->verb, c->payload, c->label.verb, c->whole().dtype()), c->label.unit, c->root,
                     c->whole().count().charged(), c->sent_bytes(), c->group.size, group);
  return digest_of(small, label.unit, at, launch, seconds, touched);
}

class TakingDevice final : public Device {
 public:
  TakingDevice(int rank, const Gpu& gpu, bool keeps_lines) : Device(rank, false), gpu_(gpu), keeps_lines_(keeps_lines) {}
  double now() const override { return 0; }
  void begin_step(int) override { note({.call = Tape::Call::begin_step}); }

  const Positions& positions() const { return had_; }
  void start(const Positions& had) { had_ = begin_ = had; }
  Tape take() {
    Crossing of_this = crossed();
    of_this.to_device -= before_.to_device, of_this.to_host -= before_.to_host;
    before_ = crossed();
    return {std::exchange(lines_, {}), of_this, digest_of(std::exchange(digest_, 0), of_this.to_device, of_this.to_host)};
  }
  void issue(const Collective& collective, int group) {
    push({.call = Tape::Call::collective, .lane = collective.lane, .collective = &collective, .group = group});
    if (!keeps_lines_) return;
    Collective& kept = collectives_.emplace_back(collective);
    kept.borders = {};
    for (Tensor* tensor : {&kept.from, &kept.to})  // what they lie in is used again: of it only the type is asked for
      if (*tensor) tensor->in = in_books_of_type(tensor->dtype());
    lines_.back().collective = &kept;
  }

 private:
  void note(const Tape::Line& line) {
    digest_ = mixed(digest_, line.digest());
    if (keeps_lines_) lines_.push_back(line);
  }
  void push(const Tape::Line& line) {
    note(line);
    ++had_[unsigned(line.lane)];
  }
  void push_storage(Tape::Call call, Lane lane, Storage* storage) {
    push({.call = call, .lane = lane, .storage = storage});
    if (keeps_lines_) lines_.back().storage = in_books(*storage);
  }
  Tape::Line about(Tape::Call call, Lane lane, Event event) const {
    return {.call = call, .lane = lane, .of = event.lane, .at = std::int64_t(event.at - begin_[unsigned(event.lane)])};
  }
  /// One storage for all that look alike in the books.
  Storage* in_books(Storage storage) {
    storage.life = 0;
    const auto [at, is_new] =
        known_.try_emplace({storage.bytes, storage.unit, storage.band, storage.cause, storage.dtype, storage.place}, nullptr);
    if (is_new) *(at->second = &books_.emplace_back()) = storage;
    return at->second;
  }
  Storage* in_books_of_type(Dtype type) {
    Storage storage;
    storage.dtype = type;
    return in_books(storage);
  }

  Storage* do_alloc(Lane lane, Band band, Dim count, Dtype type, std::int64_t bytes, Place place) override {
    Storage* const storage = storages_.take(label(), band, count, type, bytes, place);
    push_storage(Tape::Call::hold, lane, storage);
    return storage;
  }
  void do_free(Lane lane, Storage* storage) override {
    push_storage(Tape::Call::let_go, lane, storage);
    storages_.give_back(storage);
  }
  void do_launch(Lane lane, const Op& op) override {
    const cost::Price price = cost::price(gpu_, op);
    std::uint64_t touched = 0;
    const auto each = [&touched](const Tensor& t, bool, bool) {
      touched = digest_of(touched, t.rows.charged(), t.cols.charged(), packed(t.dtype(), t.in->place, t.in->band));
    };
    std::visit([&](const auto& o) { touch(o, each); }, op);
    push({.call = Tape::Call::run,
          .lane = lane,
          .op = std::uint8_t(op.index()),
          .label = label(),
          .launch = price.kernels * gpu_.launch_seconds,
          .seconds = price.seconds,
          .touched = touched});
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

  const Gpu gpu_;
  bool keeps_lines_;
  std::vector<Tape::Line> lines_;
  std::uint64_t digest_ = 0;
  Crossing before_;
  Positions had_{}, begin_{};
  Storages storages_;
  std::deque<Storage> books_;
  std::map<std::tuple<std::int64_t, int, Band, Verb, Dtype, Place>, Storage*> known_;
  std::deque<Collective> collectives_;
};

namespace {

class TakingFabric final : public Fabric {
 public:
  TakingFabric(TakingDevice& device, IssueOrder& order, std::vector<Programs::Use>& groups)
      : Fabric(device, order), device_(device), groups_(groups) {}

 private:
  void enqueue(const Collective& collective) override {
    const auto is_its = [&collective](const Programs::Use& use) { return use.group == collective.group; };
    const auto known = std::find_if(groups_.begin(), groups_.end(), is_its);
    const int group = int(known - groups_.begin());
    Programs::Use& use = known == groups_.end() ? groups_.emplace_back(Programs::Use{collective.group}) : *known;
    use.in_pairs |= collective.verb == Verb::all_to_all;
    device_.issue(collective, group);
  }
  TakingDevice& device_;
  std::vector<Programs::Use>& groups_;
};

}  // namespace

Taking::Taking(const Original& original, int rank, const Gpu& gpu, bool keeps_lines)
    : device_(std::make_unique<TakingDevice>(rank, gpu, keeps_lines)),
      fabric_(std::make_unique<TakingFabric>(*device_, order_, program_.groups)),
      model_(original.model(*device_, rank)),
      scheme_(original.scheme()),
      rank_{*device_, *fabric_, *model_, original.knobs, original.theta0, original.name, rank, original.world} {}
Taking::~Taking() = default;
const Positions& Taking::positions() const { return device_->positions(); }

Tape Taking::take(const Positions& had, const std::function<void()>& what) {
  device_->start(had);
  what();
  Tape tape = device_->take();
  program_.digest = mixed(program_.digest, tape.digest);
  return tape;
}

Tape Taking::bind(const Positions& had) {
  return take(had, [this] {
    scheme_->bind(rank_);
    if (scheme_->is_even()) program_.mesh = scheme_->mesh();
  });
}

Tape Taking::step(int step, const Positions& had) {
  return take(had, [&] { scheme_->run_step(step, report_); });
}

}  // namespace simgrid_backend

Program program_of(const Original& original, int rank, int steps) {
  simgrid_backend::Taking taking(original, rank, telling_gpu(), false);
  taking.bind({});
  for (int step = 0; step < steps; ++step) taking.step(step, taking.positions());
  return taking.program();
}

}  // namespace shardsim
