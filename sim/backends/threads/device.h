// ThreadsDevice: one rank's streams on real threads, with memory that lives in stream order and books per lane.
#pragma once
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "backends/threads/stream.h"
#include "core/backend.h"

namespace shardsim::threads {

using Instant = std::chrono::steady_clock::time_point;

class ThreadsDevice : public Device {
 public:
  ThreadsDevice(int rank, const BackendSettings&, Instant start, Alarm&);
  ~ThreadsDevice() override;
  double now() const override;

  /// Enqueues `work`, which returns the bytes that this rank sent; it begins and ends the span.
  void enqueue_span(const Span&, std::function<std::int64_t()> work);
  /// What the host thread and a lane's worker wait for; to see whether the run is stuck.
  Waiter& host() { return host_; }
  Waiter& worker(Lane lane) { return stream(lane).waiter(); }
  bool numerics() const { return numerics_; }
  /// Ends the workers, after what is enqueued. Called when the host thread has ended.
  void close();

 private:
  /// Storage that knows whether its memory has gone back: set by the host when it is made, by the stream that frees it.
  struct Block : Storage {
    bool released = true;
  };
  struct Delivery {
    std::vector<float>* to;
    std::vector<float> values;
  };
  struct Date {
    double* to;
    double seconds;
  };
  /// What a lane notes. Its own: a book shared by two lanes would order them. The host reads it when it has waited for the lane.
  struct Books {
    std::vector<LedgerEntry> memory, host_memory;
    std::vector<LedgerEntry>& of(Place place) { return place == Place::host ? host_memory : memory; }
    std::vector<Span> spans;
    std::vector<Delivery> deliveries;
    std::vector<Date> dates;
  };

  Storage* do_alloc(Lane, Band, Dim count, Dtype, std::int64_t bytes, Place) override;
  void do_free(Lane, Storage*) override;
  void do_launch(Lane, const Op&) override;
  Event do_record(Lane lane) override { return {lane, stream(lane).enqueued()}; }
  void do_wait(Lane, Event) override;
  void do_synchronize() override;
  void do_synchronize(Event) override;
  void do_upload(Lane, Tensor, HostView) override;
  void do_download(Lane, Tensor, std::vector<float>&) override;
  void do_stamp(Lane, double&) override;

  Stream& stream(Lane lane) { return *streams_[unsigned(lane)]; }
  template <class F>
  void enqueue(Lane lane, F work) {
    stream(lane).enqueue(std::move(work), host_);
  }
  void catch_up();

  Instant start_;
  bool numerics_;
  std::array<Books, lane_count> books_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block*> leaving_;   // freed by the host, perhaps still in use by a stream
  std::vector<Block*> reusable_;  // the host has waited for their last use
  Waiter host_;
  std::array<std::unique_ptr<Stream>, lane_count> streams_;  // last: their workers end before the rest goes
};

}  // namespace shardsim::threads
