// Fabric: shapes, hazards and issue order are checked here, once for every backend.
#include "core/fabric.h"

#include <string>
#include <utility>

#include "core/error.h"
#include "core/formulas.h"

namespace shardsim {

std::int64_t Collective::sent_bytes() const {
  const std::int64_t count = whole().count().charged(), width = bytes_of(whole().dtype());
  if (is_rooted(verb)) return formulas::sent_bytes_rooted(verb, group.size, group.me, root, count, width);
  return formulas::sent_bytes(verb, group.size, group.me, count, width);
}

namespace {

void check_slices(const Collective& collective) {
  const Dim whole = collective.whole().count(), part = collective.part().count();
  const int n = collective.group.size, me = collective.group.me;
  const std::string subject = std::string(name_of(collective.verb)) + "(unit " + std::to_string(collective.label.unit) + "): ";
  if (part.charged() * n != whole.charged())
    throw IllegalStep(subject + "a buffer of " + std::to_string(whole.charged()) + " elements and a slice of " +
                      std::to_string(part.charged()) + " do not fit " + std::to_string(n) +
                      " ranks; pad the buffer to a multiple of the group");
  if (!collective.borders) {
    if (n * part != whole)
      throw IllegalStep(subject + "the twin's buffer is not " + std::to_string(n) + " of its slices; give the borders");
    return;
  }
  const std::vector<Dim>& borders = *collective.borders;
  bool fit = borders.size() == std::size_t(n) + 1 && borders.front() == none && borders.back() == whole &&
             borders[me + 1] - borders[me] == part;
  for (int c = 0; fit && c <= n; ++c) fit = borders[c].charged() == c * part.charged();
  if (!fit)
    throw IllegalStep(subject + "the borders have to be " + std::to_string(n + 1) + ", from 0 to the buffer's size, one every " +
                      std::to_string(part.charged()) + " elements, with this rank's slice between its two");
}

void check_exchange(const Collective& c) {
  const std::string subject = std::string(name_of(c.verb)) + "(unit " + std::to_string(c.label.unit) + "): ";
  if (c.from.in == c.to.in) throw IllegalStep(subject + "needs two buffers: NCCL has no all-to-all in place");
  if (c.from.count().charged() != c.to.count().charged() || c.from.dtype() != c.to.dtype())
    throw IllegalStep(subject + "the two buffers differ in size or type");
  check_slices(c);
}

void check_root(const Collective& c) {
  const std::string subject = std::string(name_of(c.verb)) + "(unit " + std::to_string(c.label.unit) + "): ";
  if (c.root < 0 || c.root >= c.group.size)
    throw IllegalStep(subject + "root " + std::to_string(c.root) + " is no member of a group of " + std::to_string(c.group.size));
  if (c.group.me == c.root && (c.from.count() != c.to.count() || c.from.dtype() != c.to.dtype()))
    throw IllegalStep(subject + "the root's two buffers differ in size or type");
}

}  // namespace

void Fabric::issue(Collective collective) {
  collective.label = device_.label();
  device_.rethrow_deferred();
  const auto& [verb, lane, group, from, to, payload, label, borders, root] = collective;
  if (is_rooted(verb)) check_root(collective);
  else if (verb == Verb::all_to_all) check_exchange(collective);
  else if (verb != Verb::all_reduce) check_slices(collective);
  const bool is_root = group.me == root, in_place = from.in == to.in;
  const bool reads = verb != Verb::broadcast || is_root,
             writes = verb == Verb::reduce ? is_root : verb != Verb::broadcast || !is_root;
  device_.hazards().tick(lane);
  if (reads) device_.check(lane, from, true, in_place && verb == Verb::reduce_scatter, name_of(verb));
  if (writes) device_.check(lane, to, verb == Verb::all_reduce, true, name_of(verb));
  order_.issue(device_.rank(), group, lane, verb, label, collective.bytes(), root);
  enqueue(collective);
}

void Fabric::all_reduce(Lane lane, Group group, Tensor buffer, Payload payload) {
  issue({Verb::all_reduce, lane, group, buffer, buffer, payload, {}});
}

void Fabric::reduce_scatter(Lane lane, Group group, Tensor from, Tensor to, Payload payload, Borders borders) {
  issue({Verb::reduce_scatter, lane, group, from, to, payload, {}, std::move(borders)});
}

void Fabric::all_gather(Lane lane, Group group, Tensor from, Tensor to, Payload payload, Borders borders) {
  issue({Verb::all_gather, lane, group, from, to, payload, {}, std::move(borders)});
}

void Fabric::reduce(Lane lane, Group group, Tensor from, Tensor to, int root, Payload payload) {
  issue({Verb::reduce, lane, group, from, to, payload, {}, {}, root});
}

void Fabric::broadcast(Lane lane, Group group, Tensor buffer, int root, Payload payload) {
  issue({Verb::broadcast, lane, group, buffer, buffer, payload, {}, {}, root});
}

void Fabric::all_to_all(Lane lane, Group group, Tensor from, Tensor to, Payload payload, Borders borders) {
  issue({Verb::all_to_all, lane, group, from, to, payload, {}, std::move(borders)});
}

}  // namespace shardsim
