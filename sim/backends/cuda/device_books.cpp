// CudaDevice: what its events say about when things happened, and what the pools say about memory.
#include "backends/cuda/checked.h"
#include "backends/cuda/device.h"

namespace shardsim::cuda {

/// All lanes are empty. Dates become seconds: CUDA's times are floats of milliseconds, so they are counted from the last waiting
/// on.
void CudaDevice::settle_books() {
  const auto since_base = [this](cudaEvent_t event) {
    float milliseconds = 0;
    ensure(cudaEventElapsedTime(&milliseconds, base_, event), "an event has no date");
    return base_seconds_ + double(milliseconds) * 1e-3;
  };
  const auto date = [&](Lane which, std::uint64_t mark) {
    return mark == 0 ? now() : since_base(lanes_[unsigned(which)]->event(mark));
  };
  double last = 0;  // not recorded: the host's order, one behind the other
  for (Noted& noted : noted_) {
    noted.entry.seconds = recorded_ ? date(noted.lane, noted.mark) : (last = std::max(last, now()));
    ledger_of(noted.place).hold(noted.entry);
  }
  for (Timed& timed : timed_) {
    if (recorded_) timed.span.begin = date(timed.span.lane, timed.begin), timed.span.end = date(timed.span.lane, timed.end);
    recorder_.add(timed.span);
  }
  for (const Date& stamp : dates_) *stamp.to = date(stamp.lane, stamp.mark);
  noted_.clear(), timed_.clear(), dates_.clear();
  ledger_.fold(), host_ledger_.fold();

  cudaEvent_t next = nullptr;
  ensure(cudaEventCreate(&next), "an event could not be made");
  ensure(cudaEventRecord(next, lanes_[0]->handle), "an event could not be recorded");
  ensure(cudaEventSynchronize(next), "the GPU does not answer");
  base_seconds_ = since_base(next);
  ensure(cudaEventDestroy(std::exchange(base_, next)), "an event could not be given back");
  for (auto& lane : lanes_) lane->retire();
  keep_pool_books();
}

void CudaDevice::keep_pool_books() {
  AllocatorBooks books;
  books.emulated = true;  // there is an allocator between what is asked for and what is held
  books.requested = ledger_.peak().bytes;
  books.allocated = pool_.used_peak(), books.active = books.allocated, books.reserved = pool_.reserved_peak();
  books.allocated_now = pool_.used();
  books.retries = pool_.retries() + scratch_.retries();
  books.has_outside = true, books.outside = scratch_.reserved_peak();
  ledger_.keep(books);
}

}  // namespace shardsim::cuda
