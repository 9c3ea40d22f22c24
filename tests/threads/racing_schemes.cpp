// A training run whose base class leaves out one event edge, with the hazard checker off: ThreadSanitizer has to report it.
//
// racing_schemes SCHEME EDGE [OPTION VALUE]..., where EDGE `none` leaves out nothing, and `shards` is an option of the mesh
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "threads/training.h"
#include "threads/until_reported.h"

using namespace shardsim;
using namespace shardsim::threads_tests;

int main(int count, char** words) {
  struct Named {
    const char* name;
    Edge edge;
  };
  const Named edges[] = {{"none", Edge::count},
                         {"parameters_before_use", Edge::parameters_before_use},
                         {"gather_before_use", Edge::gather_before_use},
                         {"update_before_gather", Edge::update_before_gather},
                         {"gradient_before_reduction", Edge::gradient_before_reduction},
                         {"reduction_before_update", Edge::reduction_before_update}};
  for (const Named& named : edges) {
    if (count < 3 || std::strcmp(named.name, words[2]) != 0) continue;
    Job job;
    job.scheme = words[1], job.world = 2;
    job.gpt2 = job.scheme == "llmc_zero1";  // which trains nothing else
    for (int i = 3; i + 1 < count; i += 2)
      if (std::strcmp(words[i], "shards") == 0) job.knobs.shards = std::atoi(words[i + 1]);
      else job.options.emplace_back(words[i], words[i + 1]);
    job.knobs.streams = 3;
    job.knobs.step_barrier = false;
    job.knobs.omitted = named.edge;
    job.backend.checks_hazards = false;
    until_reported(named.edge != Edge::count, [&] {
      try {
        train(job);
      } catch (const std::exception& error) {  // racing ranks may end with different parameters
        std::puts(error.what());
      }
    });
    std::puts("done");
    return 0;
  }
  std::fputs("racing_schemes SCHEME EDGE [OPTION VALUE]...\n", stderr);
  return 2;
}
