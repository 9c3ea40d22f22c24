// The benchmark's large worlds: steps of thousands of ranks, each simulated or folded.
#pragma once

namespace shardsim {

/// Prints a table: what a step takes of CPU and memory. `all`: also those that take more than some seconds each.
void bench_scale(bool all);

}  // namespace shardsim
