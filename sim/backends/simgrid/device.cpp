// SimDevice: each call becomes an entry of a stream.
#include "backends/simgrid/device.h"

#include <simgrid/s4u/Actor.hpp>

#include <algorithm>
#include <utility>

#include "cost/price.h"
#include "numerics/host.h"

namespace shardsim::simgrid_backend {
namespace {

double clock() { return simgrid::s4u::Engine::get_clock(); }

}  // namespace

void World::fail(std::exception_ptr error) {
  if (failed()) return;
  error_ = error;
  for (SimDevice* device : devices) device->wake();
}

void World::run(double date) {
  const auto taken = due_.extract(date);
  const std::vector<Due>& due = taken.mapped();
  for (std::size_t i = 0; i < due.size(); ++i) {
    fetch_ahead(i, due.size(), [&due](std::size_t j) { return due[j].stream; });
    guarded(due[i].task);
  }
}

SimDevice::SimDevice(World& world, int rank, const Gpu& gpu, const SimgridSettings& settings, Jitter jitter)
    : Device(rank, settings.checks_hazards),
      world_(world),
      gpu_(gpu),
      numerics_(settings.numerics),
      queue_depth_(settings.launch_queue),
      pulse_(settings.pulse),
      jitter_(jitter),
      memory_(*this, settings.memory, settings.recorded_ranks.has(rank)) {
  ledger_ = host_ledger_ = Ledger(settings.recorded_ranks.has(rank), &world.compositions);
  recorder_ = Recorder(settings.recorded_ranks.has(rank));
  for (int lane = 0; lane < lane_count; ++lane) streams_[lane].belong_to(*this, Lane(lane));
}

SimDevice::~SimDevice() {
  for (Storage& storage : storages_) numerics::release(storage.at);
}

double SimDevice::now() const { return std::max(host_, clock()); }

/// The host's date after it has spent `cost` on a call.
double SimDevice::host_date(double cost) {
  if (world_.failed()) throw Aborted();
  return host_ = now() + cost;
}

void SimDevice::catch_up() { block(host_, pending_, pending_); }

void SimDevice::dequeued(std::size_t entries) {
  pending_ -= int(entries);
  if (pulse_) pulse_->fetch_add(1, std::memory_order_relaxed);
  constexpr int many = 32;  // every rank has such a window
  if (booked_ >= many) fold_ledgers();
  if (sleeper_ && may_go_on()) wake();
}

void SimDevice::wake() {
  if (sleeper_) std::exchange(sleeper_, nullptr)->resume();
}

/// The engine's clock stands still while the host enqueues, so that more seems to be pending than is: ask at the host's own date.
void SimDevice::wait_for_room() {
  const double begin = now();
  const int half = queue_depth_ / 2;
  block(begin, begin > clock() ? queue_depth_ - 1 : half, half);
  recorder_.add({begin, now(), HostWait::Until::room});
}

bool SimDevice::may_go_on() const {
  if (world_.failed()) return true;
  const double date = clock();
  return date >= wakes_from_ && pending_ <= (date > wakes_from_ ? pending_later_ : pending_there_);
}

void SimDevice::block(double date, int pending, int later) {
  wakes_from_ = std::max(date, clock()), pending_there_ = pending, pending_later_ = later;
  const auto come = [this] {
    wakes_from_ = clock();  // which may differ in the last digit
    if (sleeper_ && may_go_on()) wake();
  };
  if (date > clock()) world_.later(date, come);
  while (!may_go_on()) {
    sleeper_ = simgrid::s4u::Actor::self();
    try {
      simgrid::s4u::this_actor::suspend();
    } catch (...) {  // SimGrid ends the actor
      sleeper_ = nullptr;
      throw;
    }
  }
  if (world_.failed()) throw Aborted();
}

void SimDevice::block_until(int pending) { block(clock(), pending, pending); }

void SimDevice::begin_traffic(double date, double seconds, double bytes) {
  if (gpu_.contention == 0) return;
  pace_.take(date, date + seconds, gpu_.contention * bytes / gpu_.memory_bandwidth / seconds);
  stream(Lane::compute).slowed();
}

Storage* SimDevice::do_alloc(Lane lane, Band band, Dim count, Dtype type, std::int64_t bytes, Place place) {
  DeviceMemory::Block* const block = place == Place::host ? nullptr : memory_.allocate(lane, band, bytes);
  host_date(0);  // may throw
  Storage* const storage = storages_.take(label(), band, count, type, bytes, place);
  if (numerics_) storage->at = numerics::allocate(count);
  memory_.keep(storage, block);
  push_storage(lane, Stream::Entry::hold, storage);
  return storage;
}

void SimDevice::push_storage(Lane lane, Stream::Entry::Kind kind, Storage* storage) {
  Stream::Entry entry(kind, host_date(0));
  entry.storage = storage;
  stream(lane).push(entry);
}

void SimDevice::hold(const Storage& storage, double date) { book(storage, storage.bytes, date); }

void SimDevice::book(const Storage& storage, std::int64_t bytes, double date) {
  ledger_of(storage.place).hold({date, bytes, storage.band, storage.cause, storage.unit});
  ++booked_;
}

void SimDevice::fold_ledgers() {
  booked_ = 0;
  double before = now();
  for (const Stream& stream : streams_) before = std::min(before, stream.earliest(now()));
  ledger_.fold(before), host_ledger_.fold(before);
}

void SimDevice::do_free(Lane lane, Storage* storage) {
  memory_.free(lane, storage);
  push_storage(lane, Stream::Entry::let_go, storage);
}

void SimDevice::let_go(Storage& storage, double date) {
  book(storage, -storage.bytes, date);
  if (storages_.empty()) return;  // of a tape
  numerics::release(storage.at);
  storage.at = nullptr;
  storages_.give_back(&storage);
}

void SimDevice::do_launch(Lane lane, const Op& op) {
  const cost::Price price = cost::price(gpu_, op);
  if (notes_ && price.kernels > 0) notes_->add(label().verb, name_of(op), cost::in_words(gpu_, op), price.seconds);
  const double call = price.kernels * gpu_.launch_seconds;
  stream(lane).launch(label(), host_date(call), call, price.seconds * slowness_, op.index(), numerics_ ? &op : nullptr);
  throttle();
}

Event SimDevice::do_record(Lane lane) { return {lane, stream(lane).record()}; }

void SimDevice::do_wait(Lane lane, Event event) {
  // An entry even if it is over: an event recorded next is another one than the last.
  Stream::Entry entry(Stream::Entry::wait, host_date(0));
  entry.op = std::uint8_t(event.lane);
  entry.at = event.at;
  stream(lane).push(entry);
}

void SimDevice::enqueue_collective(Lane lane, Communicator& communicator) {
  memory_.use(communicator);
  Stream::Entry entry(Stream::Entry::collective, host_date(gpu_.launch_seconds));
  entry.call = gpu_.launch_seconds;
  entry.communicator = &communicator;
  stream(lane).push(entry);
  throttle();
}

void SimDevice::play(const Tape::Line& line) {
  switch (line.call) {
    case Tape::Call::run:
      stream(line.lane).launch(line.label, host_date(line.launch), line.launch, line.seconds * slowness_, line.op, nullptr);
      return throttle();
    case Tape::Call::hold:
      return push_storage(line.lane, Stream::Entry::hold, line.storage);
    case Tape::Call::let_go:
      return push_storage(line.lane, Stream::Entry::let_go, line.storage);
    case Tape::Call::record:
      return void(do_record(line.lane));
    default:
      return stream(line.lane).act(host_date(0), [](double) {});
  }
}

void SimDevice::do_synchronize() {
  const double begin = host_date(0);
  block_until(0);
  for (const Stream& stream : streams_) host_ = std::max(host_, stream.clock());
  recorder_.add({begin, host_, HostWait::Until::all});
  ledger_.fold(), host_ledger_.fold();
  ledger_.keep(memory_.books());
}

void SimDevice::do_synchronize(Event event) {
  const double begin = host_date(0);
  const Stream& other = stream(event.lane);
  if (!other.has_finished(event.at)) catch_up();
  while (!other.has_finished(event.at)) block_until(pending_ - 1);
  recorder_.add({begin, host_date(0), HostWait::Until::event});
}

void SimDevice::do_upload(Lane lane, Tensor to, HostView from) {
  const double date = host_date(0);  // an entry without numerics too: it takes its place in the launch queue
  if (!numerics_) return stream(lane).act(date, [](double) {});
  stream(lane).act(date, [to, values = numerics::staged(to, from)](double) { numerics::copy_in(to, values); });
}

void SimDevice::do_download(Lane lane, Tensor from, std::vector<float>& to) {
  const double date = host_date(0);
  if (!numerics_) return stream(lane).act(date, [](double) {});
  stream(lane).act(date, [from, &to](double) { numerics::copy_out(from, to); });
}

void SimDevice::do_stamp(Lane lane, double& seconds) {
  stream(lane).act(host_date(0), [&seconds](double when) { seconds = when; });
}

}  // namespace shardsim::simgrid_backend
