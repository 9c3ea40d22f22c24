// Fabric: the collectives of one rank. As in NCCL, each runs on the lane it is issued on, and the ranks of a group have to issue
// the same collectives in the same order; a communicator is (group, lane).
#pragma once
#include <cstdint>

#include "core/device.h"
#include "core/image.h"
#include "core/issue_order.h"
#include "core/mesh.h"

namespace shardsim {

/// What travels: data is traffic; control (a norm, an overflow flag) is counted apart.
enum class Payload : std::uint8_t { data, control };

/// One rank's part in a collective. `from` and `to` follow NCCL's buffers: for n members and a whole buffer of S bytes,
/// all_reduce: from = to, S; reduce_scatter: from S, to S/n; all_gather: from S/n, to S. In place: the small one is a slice of the
/// other. reduce: from S, to S at the root; broadcast: from = to, S; all_to_all: from S, to S, never in place. Reduce-scatters,
/// all-gathers and all-to-alls need equal charged slices, as in NCCL, the others may have any number of elements; how many real
/// numbers a slice has may differ from member to member: `borders`.
struct Collective {
  Verb verb;
  Lane lane;
  Group group;
  Tensor from, to;
  Payload payload;
  Label label;
  Borders borders = {};  ///< of the members' slices in the whole buffer; null: equal ones
  int root = 0;          ///< of a reduce or broadcast: a member
  std::int64_t bytes() const { return verb == Verb::all_gather ? to.bytes() : from.bytes(); }  ///< of the whole buffer
  Tensor whole() const { return verb == Verb::all_gather ? to : from; }
  /// One member's slice; of an all-to-all, what member 0 sends.
  Tensor part() const { return verb == Verb::all_gather ? from : verb == Verb::all_to_all ? received(0) : to; }
  /// Of an all-to-all: where the slice that member m sends to this one goes.
  Tensor received(int m) const {
    const Dim size = to.count().over(group.size);
    return to.slice(m * size, size);
  }
  /// Where chunk c of the whole buffer begins, and chunk c - 1 ends.
  Dim border(int c) const { return borders ? (*borders)[std::size_t(c)] : whole().count().share(c, group.size); }
  std::int64_t sent_bytes() const;  ///< by this member
};

class Fabric {
 public:
  Fabric(Device& device, IssueOrder& order) : device_(device), order_(order) {}
  virtual ~Fabric() = default;

  /// buffer = sum over the members; any number of elements. Sent per member: 2 (n-1)/n S; where n does not divide the elements,
  /// some send an element more than others.
  void all_reduce(Lane, Group, Tensor buffer, Payload = Payload::data);
  /// to = member's slice of the sum of `from`; the foreign slices of an in-place buffer are undefined. Sent: (n-1)/n S.
  /// With borders, `to` has the size of [borders[me], borders[me+1]).
  void reduce_scatter(Lane, Group, Tensor from, Tensor to, Payload = Payload::data, Borders = {});
  /// to = every member's `from`, in member order. Sent: (n-1)/n S. With borders, `from` has the size of [borders[me],
  /// borders[me+1]).
  void all_gather(Lane, Group, Tensor from, Tensor to, Payload = Payload::data, Borders = {});
  /// to = sum of the members' `from`, at member `root`, where `to` may be `from`; the others' is left alone and may be empty. Sent:
  /// S, by all but the root. In pieces from member to member, root+1 first and the root last, as NCCL's ring.
  void reduce(Lane, Group, Tensor from, Tensor to, int root, Payload = Payload::data);
  /// buffer = the root's. Sent: S, by all but the member before the root. In pieces from member to member, the root first.
  void broadcast(Lane, Group, Tensor buffer, int root, Payload = Payload::data);
  /// to = slice `me` of every member's `from`, in member order. Sent: (n-1)/n S, a message to each other member. With borders (of
  /// `from`), `to` has n times the size of [borders[me], borders[me+1]).
  void all_to_all(Lane, Group, Tensor from, Tensor to, Payload = Payload::data, Borders = {});

  /// This rank will issue nothing more; what others still expect of it is an error, not a hang.
  void finish() { order_.finish(device_.rank()); }

 protected:
  virtual void enqueue(const Collective&) = 0;

 private:
  void issue(Collective);
  Device& device_;
  IssueOrder& order_;
};

}  // namespace shardsim
