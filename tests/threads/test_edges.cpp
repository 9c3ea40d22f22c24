// The event edges of the base class: leaving one out is noticed on real threads, whatever the numbers do.
#include <doctest/doctest.h>

#include "core/error.h"
#include "threads/training.h"

using namespace shardsim;
using namespace shardsim::threads_tests;

namespace {

// The other two, release_before_gather and reduction_before_backward, order no accesses: they bound memory, which only a simulated
// schedule can show for certain.
constexpr Edge ordering_edges[] = {Edge::parameters_before_use, Edge::gather_before_use, Edge::update_before_gather,
                                   Edge::gradient_before_reduction, Edge::reduction_before_update};

}  // namespace

TEST_CASE("the hazard checker notices every event edge of the base class that orders accesses") {
  for (Edge edge : ordering_edges) {
    int noticed = 0;
    std::string words;
    for (const std::string& scheme : scheme_names) {
      Job job;
      job.scheme = scheme, job.world = 2;
      job.knobs.streams = 3;
      job.knobs.step_barrier = false;
      job.knobs.prefetch = job.knobs.unreduced = 0;
      job.knobs.omitted = edge;
      job.backend.numerics = false;
      try {
        train(job);
      } catch (const IllegalStep& error) {
        ++noticed;
        words = error.what();
      }
    }
    CAPTURE(int(edge));
    CAPTURE(words);
    CHECK(noticed > 0);
    CHECK(words.find("missing edge") != std::string::npos);
  }
}
