// Lanes (CUDA's streams), the events that order them, and the verbs that everything is labelled with.
#pragma once
#include <cstdint>

namespace shardsim {

/// A rank's streams. A scenario with fewer streams maps several of these to one (see Rank::lane).
enum class Lane : std::uint8_t { compute, gather, reduce, copy };
inline constexpr int lane_count = 4;
const char* name_of(Lane);

/// "Everything enqueued on `lane` before position `at`." A sequence number, not an object; a default Event is always over.
struct Event {
  Lane lane = Lane::compute;
  std::uint64_t at = 0;
};

/// What a rank is doing: the cause of a byte, the name of a span, the subject of an error.
enum class Verb : std::uint8_t {
  bind,
  load,
  forward,
  backward,
  all_reduce,
  reduce_scatter,
  all_gather,
  reduce,
  broadcast,
  all_to_all,
  release,
  clip,
  adam,
  fetch,
};
inline constexpr int verb_count = 14;
const char* name_of(Verb);
inline constexpr Verb collective_verbs[] = {Verb::all_reduce, Verb::reduce_scatter, Verb::all_gather,
                                            Verb::reduce,     Verb::broadcast,      Verb::all_to_all};
/// Whether a collective goes to or comes from one member, its root.
constexpr bool is_rooted(Verb verb) { return verb == Verb::reduce || verb == Verb::broadcast; }

/// The verb and the unit in whose name the next operations are enqueued. unit -1: no unit.
struct Label {
  Verb verb = Verb::bind;
  int unit = -1;
};

}  // namespace shardsim
