// CudaDevice: memory, work and transfers, each enqueued at once.
#include "backends/cuda/device.h"

#include <cstring>
#include <span>
#include <thread>

#include "backends/cuda/checked.h"
#include "backends/cuda/run_op.h"
#include "core/empty_op.h"
#include "core/error.h"
#include "numerics/host.h"

namespace shardsim::cuda {

CudaDevice::CudaDevice(int rank, int gpu, const BackendSettings& settings, Instant start, std::function<void()> watch)
    : Device(rank, settings.checks_hazards),
      gpu_(gpu),
      numerics_(settings.numerics),
      poisons_(settings.checks_hazards),
      recorded_(settings.recorded_ranks.has(rank)),
      start_(start),
      watch_(std::move(watch)),
      pulse_(settings.pulse),
      pool_((ensure(cudaSetDevice(gpu), "the GPU could not be used"), gpu)),
      scratch_(gpu) {
  ledger_ = host_ledger_ = Ledger(recorded_);
  recorder_ = Recorder(recorded_);
  for (auto& lane : lanes_) lane = std::make_unique<Stream>(scratch_, blas_);
  lanes_[0]->open();
  ensure(cudaEventCreate(&base_), "an event could not be made");
  ensure(cudaEventRecord(base_, lanes_[0]->handle), "an event could not be recorded");
  ensure(cudaEventSynchronize(base_), "the GPU does not answer");
  base_seconds_ = now();
}

CudaDevice::~CudaDevice() {
  (void)cudaSetDevice(gpu_);
  (void)cudaDeviceSynchronize();
  if (base_) (void)cudaEventDestroy(base_);
  for (const auto& block : blocks_)
    if (block->place == Place::host && block->at) leaving_host_.push_back(block->at);
  for (void* at : leaving_host_) (void)cudaFreeHost(at);
}

double CudaDevice::now() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

Stream& CudaDevice::lane(Lane which) {
  Stream& stream = *lanes_[unsigned(which)];
  if (!stream.is_open()) stream.open();
  return stream;
}

template <class F>
void CudaDevice::named(const char* what, F f) {
  const auto where = [&] {
    const Label at = label();
    const std::string unit = at.unit < 0 ? "" : "(unit " + std::to_string(at.unit) + ")";
    return "rank " + std::to_string(rank()) + ", " + name_of(at.verb) + unit + ", " + what + ": ";
  };
  try {
    f();
  } catch (const OutOfMemory& error) {
    ledger_.fold();
    throw OutOfMemory(where() + error.what());
  } catch (const GpuError& error) {
    throw GpuError(where() + error.what());
  }
}

// ---- memory

Storage* CudaDevice::do_alloc(Lane which, Band band, Dim count, Dtype type, std::int64_t bytes, Place place) {
  Stream& on = lane(which);
  if (reusable_.empty()) {
    blocks_.push_back(std::make_unique<Block>());
    reusable_.push_back(blocks_.back().get());
  }
  Block* block = reusable_.back();
  block->at = nullptr;
  block->count = count, block->dtype = type, block->band = band;
  block->unit = label().unit, block->cause = label().verb;
  block->bytes = bytes, block->place = place;
  note(which, *block, block->bytes);
  named("alloc", [&] {
    const std::size_t real_bytes = numerics_ ? std::size_t(real(count) * bytes_of(type)) : 0;
    if (real_bytes == 0) return;
    if (place == Place::host) ensure(cudaMallocHost(&block->at, real_bytes), "pinned memory could not be had");
    else block->at = pool_.take(real_bytes, on.handle);
    on.changed();
    if (!poisons_) return;
    ensure(cudaMemsetAsync(block->at, 0xff, real_bytes, on.handle), "memory could not be filled");  // NaN in every type
    on.worked();
  });
  reusable_.pop_back();
  return block;
}

void CudaDevice::do_free(Lane which, Storage* storage) {
  Block* block = static_cast<Block*>(storage);
  Stream& on = lane(which);
  note(which, *block, -block->bytes);
  named("free", [&] {
    if (block->place == Place::device) pool_.give_back(block->at, on.handle);
    else if (block->at) leaving_host_.push_back(block->at);
    on.changed();
  });
  block->at = nullptr;
  leaving_.push_back(block);
  constexpr std::size_t many = 100'000;  // only a wait of the host makes events and blocks its own again
  if (leaving_.size() >= many) catch_up();
}

void CudaDevice::note(Lane which, const Storage& block, std::int64_t bytes) {
  const LedgerEntry entry{0, bytes, block.band, block.cause, block.unit};
  noted_.push_back({entry, block.place, which, recorded_ ? lane(which).date() : 0});
}

// ---- work

void CudaDevice::time_span(Span span, Stream& on, const std::function<void()>& work) {
  span.issue_begin = now();
  const std::uint64_t begin = recorded_ ? on.date() : 0;
  work();
  on.worked();
  span.issue_end = now();
  timed_.push_back({span, begin, recorded_ ? on.mark() : 0});
}

void CudaDevice::do_launch(Lane which, const Op& op) {
  Stream& on = lane(which);
  const Span span{0, 0, 0, 0, label().unit, which, label().verb, std::uint8_t(op.index()), false};
  const auto work = [&] {
    if (numerics_) run(on, op);
  };
  named(name_of(op), [&] {
    if (does_nothing(op)) work();
    else time_span(span, on, work);
  });
}

void CudaDevice::enqueue_collective(const Collective& of, const std::function<void(Stream&)>& work) {
  Stream& on = lane(of.lane);
  Span span{
      0, 0, of.sent_bytes(), of.bytes(), of.label.unit, of.lane, of.label.verb, Span::collective, of.payload == Payload::control};
  span.moves = of.verb, span.dtype = of.whole().dtype(), span.group = of.group;
  named(name_of(of.verb), [&] { time_span(span, on, [&] { work(on); }); });
}

void CudaDevice::do_upload(Lane which, Tensor to, HostView from) {
  if (!numerics_ || size(to) == 0) return;
  named("upload", [&] {
    const std::span<const float> values = numerics::source(to, from);
    const std::size_t bytes = values.size() * std::size_t(bytes_of(to.dtype()));
    const std::size_t all = std::size_t(size(to) * bytes_of(to.dtype()));
    char* const at = static_cast<char*>(numbers(to).at);
    Stream& on = lane(which);
    if (bytes > 0) {
      const Staging::Piece piece = staging_.take(bytes);
      if (to.dtype() == Dtype::fp32) std::memcpy(piece, values.data(), bytes);
      else
        for (std::size_t i = 0; i < values.size(); ++i) store(piece, to.dtype(), std::int64_t(i), values[i]);
      ensure(cudaMemcpyAsync(at, piece, bytes, cudaMemcpyDefault, on.handle), "a copy to the GPU");
    }
    if (bytes < all) ensure(cudaMemsetAsync(at + bytes, 0, all - bytes, on.handle), "memory could not be cleared");
    on.worked();
  });
}

void CudaDevice::do_download(Lane which, Tensor from, std::vector<float>& to) {
  const std::int64_t count = numerics_ ? size(from) : 0;
  named("download", [&] {
    const std::size_t bytes = std::size_t(count * bytes_of(from.dtype()));
    const Staging::Piece piece = staging_.take(bytes);
    Stream& on = lane(which);
    if (bytes) ensure(cudaMemcpyAsync(piece, numbers(from).at, bytes, cudaMemcpyDefault, on.handle), "a copy from the GPU");
    on.worked();
    deliveries_.push_back({&to, piece, from.dtype(), count});
  });
}

void CudaDevice::do_stamp(Lane which, double& seconds) { dates_.push_back({&seconds, which, lane(which).mark()}); }

// ---- waiting

Event CudaDevice::do_record(Lane which) {
  Stream& on = *lanes_[unsigned(which)];
  return {which, on.is_open() ? on.mark() : 0};
}

void CudaDevice::do_wait(Lane which, Event event) {
  const Stream& other = *lanes_[unsigned(event.lane)];
  if (event.at > other.marks())
    throw IllegalStep("the " + std::string(name_of(which)) + " stream is to wait for an event that this device has not recorded");
  if (event.at > other.retired()) named("wait", [&] { lane(which).wait_for(other.event(event.at)); });
}

/// Until CUDA says that it is done, or the run has failed elsewhere.
void CudaDevice::poll(const std::function<cudaError_t()>& query) {
  const double begin = now();
  named("at the latest here", [&] {
    for (cudaError_t answer; (answer = query()) != cudaSuccess;) {
      if (answer != cudaErrorNotReady) ensure(answer, "the GPU failed");
      watch_();
      if (now() - begin > patience_) throw GpuError("the GPU has not finished for " + std::to_string(int(patience_)) + " s");
      std::this_thread::yield();
    }
  });
  if (pulse_) pulse_->fetch_add(1, std::memory_order_relaxed);
}

void CudaDevice::do_synchronize(Event event) {
  const Stream& other = *lanes_[unsigned(event.lane)];
  if (event.at <= other.retired()) return;
  const cudaEvent_t until = other.event(event.at);
  const double begin = now();
  poll([until] { return cudaEventQuery(until); });
  recorder_.add({begin, now(), HostWait::Until::event});
}

/// Waits for all lanes. Their events, the blocks that they freed and the books are the host's again.
void CudaDevice::catch_up() {
  for (auto& lane : lanes_)
    if (lane->is_open()) poll([&lane] { return cudaStreamQuery(lane->handle); });
  answered_ = now();
  named("keeping the books", [&] { settle_books(); });
  reusable_.insert(reusable_.end(), leaving_.begin(), leaving_.end());
  leaving_.clear();
  for (void* at : leaving_host_) ensure(cudaFreeHost(at), "pinned memory could not be freed");
  leaving_host_.clear();
}

void CudaDevice::do_synchronize() {
  const double begin = now();
  catch_up();
  recorder_.add({begin, now(), HostWait::Until::all});
  for (const Delivery& delivery : deliveries_) {
    delivery.to->resize(std::size_t(delivery.count));
    for (std::int64_t i = 0; i < delivery.count; ++i) (*delivery.to)[std::size_t(i)] = loaded(delivery.piece, delivery.type, i);
  }
  deliveries_.clear();
  staging_.clear();
}

}  // namespace shardsim::cuda
