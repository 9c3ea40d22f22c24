// Fabric: shapes, hazards and issue order are checked here, once for every backend.
#include "core/fabric.h"

#include <string>

#include "core/error.h"

namespace shardsim {

void Fabric::issue(Collective collective) {
  collective.label = device_.label();
  device_.rethrow_deferred();
  const auto& [verb, lane, group, from, to, payload, label] = collective;
  const std::int64_t whole = collective.whole().count().charged();
  const std::int64_t part = verb == Verb::all_gather ? from.count().charged() : to.count().charged();
  if (whole % group.size != 0 || (verb != Verb::all_reduce && part * group.size != whole))
    throw IllegalStep(std::string(name_of(verb)) + "(unit " + std::to_string(label.unit) + "): a buffer of " +
                      std::to_string(whole) + " elements and a slice of " + std::to_string(part) + " do not fit " +
                      std::to_string(group.size) + " ranks; pad the buffer to a multiple of the group");
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

void Fabric::reduce_scatter(Lane lane, Group group, Tensor from, Tensor to, Payload payload) {
  issue({Verb::reduce_scatter, lane, group, from, to, payload, {}});
}

void Fabric::all_gather(Lane lane, Group group, Tensor from, Tensor to, Payload payload) {
  issue({Verb::all_gather, lane, group, from, to, payload, {}});
}

}  // namespace shardsim
