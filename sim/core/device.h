// Device: one rank's accelerator. Everything is asynchronous and ordered by stream, with CUDA's semantics.
//
// The public calls check the program (hazards, freed memory) and hand it to a backend's `do_` functions. They are called by the
// rank's host thread only, in program order.
#pragma once
#include <exception>
#include <vector>

#include "core/crossing.h"
#include "core/hazard.h"
#include "core/ledger.h"
#include "core/op.h"
#include "core/recorder.h"
#include "core/stream.h"
#include "core/tensor.h"

namespace shardsim {

/// A window of floats on the host: `count` real floats from `begin` on. Empty data stands for "no numerics".
struct HostView {
  const std::vector<float>* data;
  Dim begin, count;
};

class Device {
 public:
  Device(int rank, bool checks_hazards) : rank_(rank), hazards_(checks_hazards) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int rank() const { return rank_; }
  /// Names what follows: the cause of memory, the name of spans, the subject of errors.
  void label(Verb verb, int unit = -1) { label_ = {verb, unit}; }
  Label label() const { return label_; }

  /// rows x cols elements, valid at once for later operations of `lane`; charged to the ledger when the stream gets there.
  /// The content is undefined (host backends fill it with NaN). The host's memory has a ledger of its own.
  Tensor alloc(Lane, Band, Dim rows, Dim cols, Dtype, Place = Place::device);
  /// Ends the storage's life when the stream gets there. Views of it are stale from this call on.
  void free(Lane, Tensor);
  /// From now on activations and workspaces lie inside of `arena`, which is charged as a whole, once: they add nothing to the
  /// ledger. Whether they fit is not checked.
  void place_in(Tensor arena) { arena_ = arena; }
  /// The CPU's work, too, has its place in a lane; where the host thread does it, the program makes it wait (synchronize).
  void launch(Lane, const Op&);

  /// The event of everything enqueued on `lane` so far.
  Event record(Lane);
  /// What is enqueued on `lane` from now on starts after the event.
  void wait(Lane, Event);
  /// Blocks the host until all lanes are empty; rethrows what went wrong.
  void synchronize();
  /// Blocks the host until the event is over: whatever is enqueued from now on, on any lane, comes after it.
  void synchronize(Event);
  /// Seconds since the run began, as the host sees them: virtual or real.
  virtual double now() const = 0;
  /// When the last synchronize() had its answer; the books that a real device keeps thereafter are no part of a step.
  virtual double answered() const { return now(); }

  /// Copies from.count floats to the beginning of `to`, converted, and clears the rest of it. The host's data is read at once.
  void upload(Lane, Tensor to, HostView from);
  /// Fills `to` when the stream gets there: valid after synchronize. `to` has to live until then.
  void download(Lane, Tensor from, std::vector<float>& to);
  /// Writes the date at which the stream gets there: valid after synchronize (CUDA: an event with timing).
  void stamp(Lane, double& seconds);
  /// What is launched from now on belongs to this step: for devices that are not equally fast in every one.
  virtual void begin_step(int /*step*/) {}

  Hazards& hazards() { return hazards_; }
  const Ledger& ledger() const { return ledger_; }
  const Ledger& host_ledger() const { return host_ledger_; }
  /// What all ops so far have moved between the host's memory and the GPU's.
  const Crossing& crossed() const { return crossed_; }
  const Recorder& recorder() const { return recorder_; }

  /// For destructors, which must not throw: the error is kept and thrown by the next call.
  void free_later(Lane, Tensor) noexcept;

 protected:
  /// `bytes` are what is charged.
  virtual Storage* do_alloc(Lane, Band, Dim count, Dtype, std::int64_t bytes, Place) = 0;
  virtual void do_free(Lane, Storage*) = 0;
  virtual void do_launch(Lane, const Op&) = 0;
  virtual Event do_record(Lane) = 0;
  virtual void do_wait(Lane, Event) = 0;
  virtual void do_synchronize() = 0;
  virtual void do_synchronize(Event) = 0;
  virtual void do_upload(Lane, Tensor, HostView) = 0;
  virtual void do_download(Lane, Tensor, std::vector<float>&) = 0;
  virtual void do_stamp(Lane, double&) = 0;

  Ledger& ledger_of(Place place) { return place == Place::host ? host_ledger_ : ledger_; }

  Ledger ledger_, host_ledger_;
  Recorder recorder_;
  Crossing crossed_;

 private:
  friend class Fabric;
  void check(Lane, Tensor, bool reads, bool writes, const char* op);
  void rethrow_deferred();

  int rank_;
  Label label_;
  Hazards hazards_;
  Tensor arena_;
  std::exception_ptr deferred_;
};

/// Owns a tensor's storage and frees it on its lane at scope exit.
class Held {
 public:
  Held() = default;
  Held(Device& device, Lane lane, Tensor tensor) : device_(&device), lane_(lane), tensor_(tensor) {}
  Held(Held&& other) noexcept : device_(other.device_), lane_(other.lane_), tensor_(other.tensor_) { other.device_ = nullptr; }
  Held& operator=(Held&& other) noexcept;
  ~Held() { reset(); }
  void reset() noexcept;
  const Tensor& operator*() const { return tensor_; }
  const Tensor* operator->() const { return &tensor_; }
  explicit operator bool() const { return device_ != nullptr; }

 private:
  Device* device_ = nullptr;
  Lane lane_ = Lane::compute;
  Tensor tensor_;
};

}  // namespace shardsim
