// ThreadsDevice: what each operation does when its stream gets there.
#include "backends/threads/device.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>

#include "core/empty_op.h"
#include "core/error.h"
#include "numerics/host.h"
#include "numerics/real.h"

namespace shardsim::threads {
namespace {

/// Not numerics::allocate: that fills at once, on the host, and so would hide from ThreadSanitizer a use by another lane that does
/// not wait for the allocating one.
float* storage_for(Dim count) {
  const std::size_t bytes = std::size_t(Real::of(count)) * sizeof(float);
  if (bytes == 0) return nullptr;
  void* at = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!at) throw std::bad_alloc();
  return static_cast<float*>(at);
}

}  // namespace

ThreadsDevice::ThreadsDevice(int rank, const BackendSettings& settings, Instant start, Alarm& alarm)
    : Device(rank, settings.checks_hazards), start_(start), numerics_(settings.numerics) {
  ledger_ = host_ledger_ = Ledger(settings.recorded_ranks.has(rank));
  recorder_ = Recorder(settings.recorded_ranks.has(rank));
  for (auto& stream : streams_) stream = std::make_unique<Stream>(alarm);
}

ThreadsDevice::~ThreadsDevice() {
  close();
  for (const auto& block : blocks_)
    if (!block->released) std::free(block->at);
}

void ThreadsDevice::close() {
  for (auto& stream : streams_) stream->close();
}

double ThreadsDevice::now() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

// ---- memory

Storage* ThreadsDevice::do_alloc(Lane lane, Band band, Dim count, Dtype type, std::int64_t bytes, Place place) {
  if (reusable_.empty()) {
    blocks_.push_back(std::make_unique<Block>());
    reusable_.push_back(blocks_.back().get());
  }
  Block* block = reusable_.back();
  reusable_.pop_back();
  block->at = numerics_ ? storage_for(count) : nullptr;
  block->count = count, block->dtype = type, block->band = band;
  block->unit = label().unit, block->cause = label().verb;
  block->bytes = bytes, block->place = place;
  block->released = false;
  enqueue(lane, [this, block, &books = books_[unsigned(lane)]] {
    if (block->at) std::fill_n(static_cast<float*>(block->at), Real::of(block->count), std::numeric_limits<float>::quiet_NaN());
    books.of(block->place).push_back({now(), block->bytes, block->band, block->cause, block->unit});
  });
  return block;
}

void ThreadsDevice::do_free(Lane lane, Storage* storage) {
  Block* block = static_cast<Block*>(storage);
  enqueue(lane, [this, block, &books = books_[unsigned(lane)]] {
    std::free(block->at);
    block->released = true;
    books.of(block->place).push_back({now(), -block->bytes, block->band, block->cause, block->unit});
  });
  leaving_.push_back(block);
  // Only a wait of the host makes blocks and books its own again. A program that never waits is made to, once in a long while.
  constexpr std::size_t many = 100'000;
  if (leaving_.size() >= many) catch_up();
}

// ---- work

void ThreadsDevice::enqueue_span(const Span& about, std::function<std::int64_t()> work) {
  enqueue(about.lane,
          [this, span = about, issued = now(), work = std::move(work), &books = books_[unsigned(about.lane)]]() mutable {
            span.issue_begin = span.issue_end = issued;
            span.begin = now();
            span.bytes = work();
            span.end = now();
            books.spans.push_back(span);
          });
}

void ThreadsDevice::do_launch(Lane lane, const Op& op) {
  if (does_nothing(op))
    return enqueue(lane, [this, op] {
      if (numerics_) numerics::run(op);
    });
  enqueue_span({0, 0, 0, 0, label().unit, lane, label().verb, std::uint8_t(op.index()), false}, [this, op] {
    if (numerics_) numerics::run(op);
    return std::int64_t(0);
  });
}

void ThreadsDevice::do_upload(Lane lane, Tensor to, HostView from) {
  std::vector<float> staged;
  if (numerics_) staged = numerics::staged(to, from);
  enqueue(lane, [this, to, staged = std::move(staged)] {
    if (numerics_) numerics::copy_in(to, staged);
  });
}

// The worker never writes to the host's own variables: when a body throws, they go before the streams have stopped.

void ThreadsDevice::do_download(Lane lane, Tensor from, std::vector<float>& to) {
  enqueue(lane, [this, from, &to, &books = books_[unsigned(lane)]] {
    books.deliveries.push_back({&to, {}});
    if (numerics_) numerics::copy_out(from, books.deliveries.back().values);
  });
}

void ThreadsDevice::do_stamp(Lane lane, double& seconds) {
  enqueue(lane, [this, &seconds, &books = books_[unsigned(lane)]] { books.dates.push_back({&seconds, now()}); });
}

// ---- waiting

void ThreadsDevice::do_wait(Lane lane, Event event) {
  const Stream& other = stream(event.lane);
  if (event.at > other.enqueued())
    throw IllegalStep("the " + std::string(name_of(lane)) + " stream is to wait for an event that this device has not recorded");
  enqueue(lane,
          [this, lane, event, &done = other.done(), &alarm = stream(lane).alarm()] { done.wait(event.at, worker(lane), alarm); });
}

/// Waits for all lanes. Their books and the blocks that they freed are the host's again.
void ThreadsDevice::catch_up() {
  for (auto& stream : streams_)
    if (!stream->done().wait(stream->enqueued(), host_, stream->alarm())) throw Stopped();
  if (streams_[0]->alarm().raised()) throw Stopped();  // the queues are empty because nothing was carried out
  for (Books& books : books_) {
    for (const LedgerEntry& entry : books.memory) ledger_.hold(entry);
    for (const LedgerEntry& entry : books.host_memory) host_ledger_.hold(entry);
    for (const Span& span : books.spans) recorder_.add(span);
    books.memory.clear(), books.host_memory.clear(), books.spans.clear();
  }
  ledger_.fold(), host_ledger_.fold();
  reusable_.insert(reusable_.end(), leaving_.begin(), leaving_.end());
  leaving_.clear();
}

void ThreadsDevice::do_synchronize(Event event) {
  const double begin = now();
  const Stream& other = stream(event.lane);
  if (!other.done().wait(event.at, host_, other.alarm())) throw Stopped();
  recorder_.add({begin, now(), HostWait::Until::event});
}

void ThreadsDevice::do_synchronize() {
  const double begin = now();
  catch_up();
  recorder_.add({begin, now(), HostWait::Until::all});
  for (Books& books : books_) {
    for (Delivery& delivery : books.deliveries) *delivery.to = std::move(delivery.values);
    for (const Date& date : books.dates) *date.to = date.seconds;
    books.deliveries.clear(), books.dates.clear();
  }
}

}  // namespace shardsim::threads
