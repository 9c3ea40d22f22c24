// Stream: one lane of a simulated GPU, as a FIFO that SimGrid's timers drive. The rank's actor only enqueues; the head of the queue
// runs, waits for another stream, or stands at its communicator.
//
// Consecutive operations are billed as one timer up to the next wait, collective or recorded position; their ends are summed in
// sequence, so the dates are those of one timer each. A collective that takes its share of the compute lane stretches the batch
// that runs: its timer then fires too early and is set once more.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "backends/simgrid/fifo.h"
#include "core/op.h"
#include "core/stream.h"
#include "core/tensor.h"

namespace shardsim::simgrid_backend {

class SimDevice;
class Communicator;

class Stream {
 public:
  /// Small, since every rank may have as many as its launch queue is deep.
  struct Entry {
    enum Kind : std::uint8_t { run, hold, let_go, action, wait, collective };
    explicit Entry(Kind k = run, double date = 0) : kind(k), from(date) {}
    Kind kind;
    bool marked = false;  ///< an event was recorded behind it: a batch ends here
    std::uint8_t op = 0;  ///< `run`: position in the Op variant; `wait`: the lane that is waited for
    Verb verb = Verb::bind;
    std::int32_t unit = -1;
    double from;      ///< the host's date: it cannot start before it was launched
    double call = 0;  ///< seconds that the host spent on the launch, up to that date
    union {
      double seconds = 0;          ///< `run`: its price
      Storage* storage;            ///< `hold`, `let_go`: whose bytes
      Communicator* communicator;  ///< `collective`: at this one
      std::uint64_t at;            ///< `wait`: until the lane has finished so many
    };
  };
  /// Called when the stream gets there, with the date.
  using Action = std::function<void(double)>;

  void belong_to(SimDevice& device, Lane lane) { device_ = &device, lane_ = lane; }
  SimDevice& device() { return *device_; }
  Lane lane() const { return lane_; }

  void push(Entry);
  void act(double from, Action);
  /// An op by its position in the Op variant; `arithmetic`: the op itself, to be done when its time has come.
  void launch(Label, double from, double call, double seconds, std::size_t op, const Op* arithmetic);

  /// The position of the next event; marks the last entry.
  std::uint64_t record();
  bool has_finished(std::uint64_t at) const { return finished_ >= at; }
  double clock() const { return clock_; }
  /// No entry that is not finished begins before this date; `now`: the host's.
  double earliest(double now) const { return std::max(clock_, queue_.empty() ? now : queue_.front().from); }

  std::uint64_t enqueued() const { return enqueued_; }
  /// What runs, or comes next.
  const Entry& head() { return queue_.front(); }
  /// The collective at the head is over.
  void end_collective(double date);
  /// A collective has begun to take its share: a batch that runs will end later.
  void slowed() { slowed_ = true; }

  /// Has the processor read what an event here begins with, first the stream itself and then its head.
  void fetch() const {
    for (int line = 0; line < 3; ++line) __builtin_prefetch(reinterpret_cast<const char*>(this) + 64 * line);
  }
  void fetch_head() const {
    if (!queue_.empty()) __builtin_prefetch(&queue_.front());
  }

 private:
  void pump();
  void start_batch();
  void arm(std::size_t entries, double date);
  /// The date at which the first `entries` have ended, as far as the pace is known; tells `each` entry, its begin and its end.
  template <class Each>
  double follow(std::size_t entries, const Each& each) const;
  void end_batch(std::size_t entries);
  void finish(std::size_t entries, double date);

  struct Waiter {
    std::uint64_t at;
    Stream* stream;
  };
  SimDevice* device_ = nullptr;
  Lane lane_ = Lane::compute;
  bool idle_ = true;
  bool slowed_ = false;  // since the timer was set
  double clock_ = 0;     // when the last finished entry ended
  std::uint64_t enqueued_ = 0, finished_ = 0;
  Fifo<Entry> queue_;
  std::vector<Waiter> waiters_;  // streams that wait for this one
  Fifo<Op> ops_;                 // of `run` entries, with numerics
  Fifo<Action> actions_;         // of `action` entries
};

/// Before the i-th of n streams gets its event: the next ones are fetched meanwhile. With thousands of ranks none of them is in the
/// cache, and each would be waited for. `at`: the stream of a number, or null.
template <class At>
void fetch_ahead(std::size_t i, std::size_t n, const At& at) {
  constexpr std::size_t far = 8, near = 4;
  if (i + far < n)
    if (const Stream* stream = at(i + far)) stream->fetch();
  if (i + near < n)
    if (const Stream* stream = at(i + near)) stream->fetch_head();
}

}  // namespace shardsim::simgrid_backend
