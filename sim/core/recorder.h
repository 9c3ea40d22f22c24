// Recorder: what a rank did, when, and what it sent. Every trace, table and figure is drawn from it.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/band.h"
#include "core/mesh.h"
#include "core/stream.h"

namespace shardsim {

/// An op or a collective on a stream. `op` is the op's position in the Op variant, or `collective`.
struct Span {
  static constexpr std::uint8_t collective = 255;
  double begin, end;   ///< seconds
  std::int64_t bytes;  ///< sent by this rank (collectives only)
  std::int64_t size;   ///< of the whole buffer (collectives only)
  std::int32_t unit;
  Lane lane;
  Verb verb;
  std::uint8_t op;
  bool control;  ///< norm, overflow flag: counted apart from traffic

  // Collectives only. `verb` says in whose name they were issued, `moves` which collective it is.
  Verb moves = Verb::all_reduce;
  Dtype dtype = Dtype::fp32;
  bool tree = false;  ///< NCCL's trees carry it, not its rings
  Group group = {};

  /// When the host was busy enqueueing it; NaN from a device that does not tell.
  double issue_begin = NAN, issue_end = NAN;
};

/// The host stood still: until all lanes were empty, until an event, or until the launch queue had room again.
struct HostWait {
  enum class Until : std::uint8_t { all, event, room };
  double begin, end;  ///< seconds
  Until until;
};

class Recorder {
 public:
  explicit Recorder(bool keeps_spans = true) : keeps_spans_(keeps_spans) {}
  void add(const Span& span) {
    if (span.op == Span::collective) (span.control ? control_bytes_ : traffic_bytes_) += span.bytes;
    if (keeps_spans_) spans_.push_back(span);
  }
  std::int64_t traffic_bytes() const { return traffic_bytes_; }
  std::int64_t control_bytes() const { return control_bytes_; }
  const std::vector<Span>& spans() const { return spans_; }
  void add(const HostWait& wait) {
    if (keeps_spans_ && wait.end > wait.begin) waits_.push_back(wait);
  }
  const std::vector<HostWait>& waits() const { return waits_; }

 private:
  std::vector<Span> spans_;
  std::vector<HostWait> waits_;
  std::int64_t traffic_bytes_ = 0, control_bytes_ = 0;
  bool keeps_spans_;
};

}  // namespace shardsim
