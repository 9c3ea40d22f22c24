// CudaDevice: one rank's GPU: CUDA's streams and events, memory in stream order, and books that are kept by events.
#pragma once
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "backends/cuda/blas.h"
#include "backends/cuda/stream.h"
#include "backends/cuda/staging.h"
#include "core/backend.h"

namespace shardsim::cuda {

using Instant = std::chrono::steady_clock::time_point;

/// A recorded rank has an event behind every op: an op's span begins where the one before it on its lane ended, or when its waits
/// were over, so that what the launch cost is in it. Ranks that are not recorded have no spans, and their ledgers the host's order.
/// An op of tensors on the host runs as a kernel over pinned memory.
class CudaDevice : public Device {
 public:
  /// `watch` is called while the host waits: it throws when the run has failed elsewhere.
  CudaDevice(int rank, int gpu, const BackendSettings&, Instant start, std::function<void()> watch);
  ~CudaDevice() override;
  double now() const override;
  double answered() const override { return answered_; }

  /// A wait of the host that lasts longer ends the run.
  void give_up_after(double seconds) { patience_ = seconds; }
  /// The host's thread ends, and watches no more.
  void end() {
    watch_ = [] {};
  }
  bool numerics() const { return numerics_; }
  bool poisons() const { return poisons_; }
  /// The lane's stream, made if need be, on this rank's GPU.
  Stream& lane(Lane which);
  /// Enqueues a collective by `work`, between two events; its span.
  void enqueue_collective(const Collective&, const std::function<void(Stream&)>& work);

 private:
  struct Block : Storage {};
  /// What is written into the books when the lane's event is over.
  struct Noted {
    LedgerEntry entry;
    Place place;
    Lane lane;
    std::uint64_t mark;
  };
  struct Timed {
    Span span;
    std::uint64_t begin, end;
  };
  struct Date {
    double* to;
    Lane lane;
    std::uint64_t mark;
  };
  struct Delivery {
    std::vector<float>* to;
    Staging::Piece piece;
    Dtype type;
    std::int64_t count;
  };

  Storage* do_alloc(Lane, Band, Dim count, Dtype, std::int64_t bytes, Place) override;
  void do_free(Lane, Storage*) override;
  void do_launch(Lane, const Op&) override;
  Event do_record(Lane) override;
  void do_wait(Lane, Event) override;
  void do_synchronize() override;
  void do_synchronize(Event) override;
  void do_upload(Lane, Tensor, HostView) override;
  void do_download(Lane, Tensor, std::vector<float>&) override;
  void do_stamp(Lane, double&) override;

  /// f, with what goes wrong in it named by rank, verb, unit and `what`.
  template <class F>
  void named(const char* what, F f);
  void note(Lane, const Storage&, std::int64_t bytes);
  void time_span(Span, Stream&, const std::function<void()>& work);
  void poll(const std::function<cudaError_t()>& query);
  void catch_up();
  void settle_books();
  void keep_pool_books();

  int gpu_;
  bool numerics_, poisons_, recorded_;
  Instant start_;
  std::function<void()> watch_;
  double patience_ = 60;
  std::atomic<std::uint64_t>* pulse_;
  Pool pool_, scratch_;  // what bands hold; what kernels and cuBLASLt need for themselves
  Blas blas_;
  Staging staging_;
  std::array<std::unique_ptr<Stream>, lane_count> lanes_;
  cudaEvent_t base_ = nullptr;
  double base_seconds_ = 0, answered_ = 0;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block*> leaving_, reusable_;
  std::vector<void*> leaving_host_;
  std::vector<Noted> noted_;
  std::vector<Timed> timed_;
  std::vector<Date> dates_;
  std::vector<Delivery> deliveries_;
};

}  // namespace shardsim::cuda
