// Calibrate from a run: the prices of a GPU and of its collectives from the results folder of a measured run.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "app/calibrate.h"
#include "core/registry.h"

namespace shardsim {

/// One kind of launch on the compute stream: an operation of one price, thus of one shape.
struct MeasuredOperation {
  std::string name;
  int count = 0;                    ///< per step
  double measured = 0, before = 0;  ///< seconds each, mean; before: as the scenario prices it
  double after = 0;                 ///< with what was found
};

struct RunCalibration {
  Calibration prices;  ///< gemm_efficiency, memory_efficiency, attention speeds, kernel_seconds: those that the step depends on
  std::vector<MeasuredOperation> operations;  ///< the most expensive first
  std::vector<std::string> changed_files;     ///< sentences: what the scenario names is not what was measured
};

/// Runs the measured run's own scenario on the simulator and compares launch by launch, of the lowest recorded rank. The step that
/// was measured is the mean of all but the first. Fitted to the operations that take at least a hundredth of the time.
/// `scenario`: a file in place of the folder's, whose paths may lead nowhere on another machine; `scheme`: empty: the folder's
/// first. Throws ScenarioError: no trace; the launches are not the scenario's; no value in range reproduces them.
RunCalibration calibrate_from_run(const std::filesystem::path& folder, const std::filesystem::path& scenario,
                                  const std::string& scheme, const std::vector<std::string>& overrides, const Registry&);

/// Latency and bus bandwidth of every kind of collective that the run has in two sizes or more. A collective begins when its last
/// member does, so of each the shortest time among the recorded ranks counts. Throws ScenarioError: no such collective.
Calibration calibrate_collectives_from_run(const std::filesystem::path& folder, const std::string& scheme);

/// "matmul: 96 x 0.412 ms, 2.103e+10 flop ...": a comment line each, with errors before and after.
std::string operations_text(const RunCalibration&);

}  // namespace shardsim
