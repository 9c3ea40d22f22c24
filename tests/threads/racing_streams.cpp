// A program that misses one event edge, with the hazard checker off: ThreadSanitizer has to report it, and is silent with the edge.
//
// racing_streams KIND missing|kept
#include <cstdio>
#include <cstring>

#include "backends/threads/backend.h"
#include "threads/until_reported.h"

using namespace shardsim;

namespace {

constexpr Dim size(4, 4);

Tensor make(Device& device) { return device.alloc(Lane::compute, Band::workspace, one, size, Dtype::fp32); }

/// Two halves, the first on the compute stream, the second on the gather stream; x was made and filled before both.
struct Kind {
  const char* name;
  void (*first)(Device&, Fabric&, Tensor x, Tensor other);
  void (*second)(Device&, Fabric&, Tensor x, Tensor other);
};

void fill(Device& d, Lane lane, Tensor x) { d.launch(lane, Fill{x, 2}); }

const Kind kinds[] = {
    {"read_after_write", [](Device& d, Fabric&, Tensor x, Tensor) { fill(d, Lane::compute, x); },
     [](Device& d, Fabric&, Tensor x, Tensor other) {
       d.launch(Lane::gather, Copy{x, other});
     }},
    {"write_after_read",
     [](Device& d, Fabric&, Tensor x, Tensor other) {
       d.launch(Lane::compute, Copy{x, other});
     },
     [](Device& d, Fabric&, Tensor x, Tensor) { fill(d, Lane::gather, x); }},
    {"write_after_write", [](Device& d, Fabric&, Tensor x, Tensor) { fill(d, Lane::compute, x); },
     [](Device& d, Fabric&, Tensor x, Tensor) { fill(d, Lane::gather, x); }},
    {"free_after_read",
     [](Device& d, Fabric&, Tensor x, Tensor other) {
       d.launch(Lane::compute, Copy{x, other});
     },
     [](Device& d, Fabric&, Tensor x, Tensor) { d.free(Lane::gather, x); }},
    {"collective_after_write", [](Device& d, Fabric&, Tensor x, Tensor) { fill(d, Lane::compute, x); },
     [](Device& d, Fabric& f, Tensor x, Tensor) {
       f.all_reduce(Lane::gather, {0, 1, 2, d.rank()}, x);
     }},
    {"write_after_collective",
     [](Device& d, Fabric& f, Tensor x, Tensor) {
       f.all_reduce(Lane::compute, {0, 1, 2, d.rank()}, x);
     },
     [](Device& d, Fabric&, Tensor x, Tensor) { fill(d, Lane::gather, x); }},
};

}  // namespace

int main(int count, char** words) {
  const bool kept = count > 2 && std::strcmp(words[2], "kept") == 0;
  for (const Kind& kind : kinds) {
    if (count < 3 || std::strcmp(kind.name, words[1]) != 0) continue;
    BackendSettings settings;
    settings.checks_hazards = false;
    until_reported(!kept, [&] {
      ThreadsBackend(settings).run(2, [&](Device& device, Fabric& fabric) {
        const Tensor x = make(device), other = make(device);
        fill(device, Lane::compute, x);
        fill(device, Lane::compute, other);
        device.synchronize();
        kind.first(device, fabric, x, other);
        if (kept) device.wait(Lane::gather, device.record(Lane::compute));
        kind.second(device, fabric, x, other);
        device.synchronize();
      });
    });
    std::puts("done");
    return 0;
  }
  std::fputs("racing_streams KIND missing|kept\n", stderr);
  return 2;
}
