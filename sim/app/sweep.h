// Sweep: carries out the runs of a plan that nobody has carried out yet, in several processes.
#pragma once
#include <filesystem>
#include <functional>

#include "app/sweep_journal.h"
#include "app/sweep_plan.h"

namespace shardsim {

/// Which of several programs started together this is: by mpirun (Open MPI, MPICH and relatives) or srun.
struct SweepSeat {
  int rank = 0, size = 1;
};
SweepSeat sweep_seat();

/// Looked at a few times a second while runs are carried out.
using SweepProgress = std::function<void()>;

/// Runs in `jobs` processes what the journal in `file` lacks, together with whoever else works on that file, and returns when it
/// lacks nothing, when interrupted, or when no process is left. One that is killed is replaced, a few times.
struct SweepEnd {
  std::string refusal;  ///< why a process had to give up: the journal cannot be written; empty if none had to
  std::string others;   ///< how processes ended that should not have; empty if all is well
};
SweepEnd carry_out(const SweepPlan&, const std::filesystem::path& file, int jobs, const Registry&, const SweepProgress&);

}  // namespace shardsim
