// SimDevice: a simulated GPU: three streams, prices, and a host that runs ahead of them by at most the launch queue's depth.
#pragma once
#include <simgrid/s4u/Actor.hpp>

#include <array>
#include <vector>

#include "backends/simgrid/backend.h"
#include "backends/simgrid/device_memory.h"
#include "backends/simgrid/jitter.h"
#include "backends/simgrid/pace.h"
#include "backends/simgrid/storages.h"
#include "backends/simgrid/stream.h"
#include "backends/simgrid/tape.h"
#include "backends/simgrid/world.h"
#include "core/backend.h"
#include "cost/gpu.h"
#include "cost/notes.h"

namespace shardsim::simgrid_backend {

class SimDevice final : public Device {
 public:
  SimDevice(World&, int rank, const Gpu&, const SimgridSettings&, Jitter);
  ~SimDevice() override;

  double now() const override;
  void begin_step(int step) override {
    if (notes_) notes_->clear();  // of the last step only
    slowness_ = 1 + gpu_.jitter * jitter_.of(step);
    host_date(gpu_.step_host_seconds);
  }
  World& world() { return world_; }
  const Gpu& gpu() const { return gpu_; }
  bool has_numerics() const { return numerics_; }
  Stream& stream(Lane lane) { return streams_[unsigned(lane)]; }

  void note_prices(cost::PriceNotes* notes) { notes_ = notes; }

  // For streams and fabrics.
  void enqueued() { ++pending_; }
  void dequeued(std::size_t entries);
  void record_span(const Span& span) { recorder_.add(span); }
  void hold(const Storage&, double date);
  void let_go(Storage&, double date);
  /// What concerns no other rank and no event.
  void play(const Tape::Line&);
  void add_crossed(const Crossing& more) { crossed_ += more; }
  void enqueue_collective(Lane, Communicator&);
  /// The host, if it sleeps.
  void wake();
  /// The engine's clock comes up to the host's, which may be ahead: what is over by then is over.
  void catch_up();
  /// All that is enqueued is over. The program's own synchronize does more: the hazard checker hears of it.
  void drain() { do_synchronize(); }
  const std::vector<AllocatorEvent>& allocator_history() const { return memory_.history(); }
  const Pace& pace() const { return pace_; }
  Pace& pace() { return pace_; }
  /// A collective begins that sends so many bytes in so many seconds on idle links: it takes contention x bytes /
  /// memory_bandwidth seconds from the compute lane, spread evenly over them.
  void begin_traffic(double date, double seconds, double bytes);

 private:
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

  double host_date(double cost);
  void book(const Storage&, std::int64_t bytes, double date);
  void fold_ledgers();
  void push_storage(Lane, Stream::Entry::Kind, Storage*);
  /// The host sleeps until the date, and goes on there if so few entries are pending, or else as soon as `later` are.
  void block(double date, int pending, int later);
  void block_until(int pending);
  bool may_go_on() const;
  void wait_for_room();
  void throttle() {
    if (pending_ >= queue_depth_) wait_for_room();
  }

  World& world_;
  const Gpu& gpu_;
  bool numerics_;
  int queue_depth_;
  std::atomic<std::uint64_t>* pulse_;
  Jitter jitter_;
  cost::PriceNotes* notes_ = nullptr;
  double slowness_ = 1;  // of this step's ops
  Pace pace_;
  std::array<Stream, lane_count> streams_;
  int pending_ = 0;                            // entries enqueued and not finished
  int booked_ = 0;                             // in the ledgers, since they were folded
  double host_ = 0;                            // the host's own clock: launches take its time
  simgrid::s4u::Actor* sleeper_ = nullptr;     // null: the host is awake
  double wakes_from_ = 0;                      // it sleeps until this date at least,
  int pending_there_ = 0, pending_later_ = 0;  // until so few are pending
  Storages storages_;
  DeviceMemory memory_;
};

}  // namespace shardsim::simgrid_backend
