// Crossing: what an op moves between the host's memory and the GPU's, by the places of the tensors that it touches.
#pragma once
#include <cstdint>

#include "core/touch.h"

namespace shardsim {

/// Bytes over the link between host and GPU: the host's tensors, those that are read towards the device and those that are written
/// towards the host. None if all that the op touches is in one place.
struct Crossing {
  std::int64_t to_device = 0, to_host = 0;
  bool on_host = false;  ///< all that it touches is the host's: the CPU does it
  std::int64_t bytes() const { return to_device + to_host; }
  void operator+=(const Crossing& more) { to_device += more.to_device, to_host += more.to_host; }
};

inline Crossing crossing(const Op& op) {
  Crossing found;
  bool touches_host = false, touches_device = false;
  const auto each = [&](const Tensor& tensor, bool reads, bool writes) {
    if (tensor.in->place == Place::device) {
      touches_device = true;
      return;
    }
    touches_host = true;
    if (reads) found.to_device += tensor.bytes();
    if (writes) found.to_host += tensor.bytes();
  };
  std::visit([&](const auto& o) { touch(o, each); }, op);
  if (touches_device) return found;
  return {0, 0, touches_host};
}

}  // namespace shardsim
