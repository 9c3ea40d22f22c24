// Fabric: shapes, hazards and issue order are checked here, once for every backend.
#include "core/fabric.h"

#include <string>
#include <utility>

#include "core/error.h"
#include "core/formulas.h"

namespace shardsim {

std::int64_t Collective::sent_bytes() const {
  return formulas::sent_bytes(verb, group.size, group.me, whole().count().charged(), bytes_of(whole().dtype()));
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

}  // namespace

void Fabric::issue(Collective collective) {
  collective.label = device_.label();
  device_.rethrow_deferred();
  const auto& [verb, lane, group, from, to, payload, label, borders] = collective;
  if (verb != Verb::all_reduce) check_slices(collective);
  device_.hazards().tick(lane);
  const bool in_place = from.in == to.in;
  device_.check(lane, from, true, in_place && verb == Verb::reduce_scatter, name_of(verb));
  device_.check(lane, to, verb == Verb::all_reduce, true, name_of(verb));
  order_.issue(device_.rank(), group, lane, verb, label, collective.bytes());
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

}  // namespace shardsim
