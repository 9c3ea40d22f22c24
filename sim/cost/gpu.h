// Gpu: the facts of one GPU that prices are made of. Read from the platform's host properties, printed with their origin.
#pragma once
#include <cstdint>
#include <string>

namespace shardsim {

struct Gpu {
  std::string name = "ideal";
  double fp32_flops = 0, bf16_flops = 0;  ///< per second, dense tensor peak
  double memory_bandwidth = 0;            ///< bytes per second
  std::int64_t memory_bytes = 0;          ///< capacity
  double gemm_efficiency = 1;             ///< sustained share of the peak
  double memory_efficiency = 1;           ///< sustained share of the bandwidth
  double kernel_seconds = 0;              ///< fixed time of a kernel on the device
  double launch_seconds = 0;              ///< time that a launch costs the host
};

}  // namespace shardsim
