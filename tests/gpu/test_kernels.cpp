// The card's kernels, carried out on the host, against the host's own arithmetic: every op, in every type, at many offsets.
#include <doctest/doctest.h>

#include "gpu/agreement.h"
#include "gpu/run_kernels.h"

using namespace shardsim;

TEST_CASE("the kernels of every op compute what the host's arithmetic does, in every type and at every offset") {
  gpu_tests::check_all_ops({0, 1, 3, 17, 64}, {0, 1, 8, 11}, true, [](const Op& op) { gpu_tests::run_kernels(op); });
}

TEST_CASE("the threads of a team share a row's work, and meet before they read what others of them have written") {
  gpu_tests::check_all_ops({3, 64}, {0, 1}, true, [](const Op& op) { gpu_tests::run_kernels(op, 3); });
}
