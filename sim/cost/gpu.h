// Gpu: the facts of one GPU, and of the software that runs on it, that prices are made of. Read from the GPU table, the platform's
// host properties and the scenario's `prices`, in this order (cost/facts.h); printed with their origin.
#pragma once
#include <array>
#include <cstdint>
#include <string>

namespace shardsim {

/// How fast a fused attention kernel is: forward and backward together run at flops x s / (s + half_sequence) for sequences of s
/// tokens, counted with causal floating-point operations (forward 2 b s^2 a h, backward 2.5 times that).
struct AttentionSpeed {
  double flops = 0;  ///< per second, of long sequences; 0: as a matrix product
  double half_sequence = 0;
  double forward_share = 0.26;  ///< of the time of both
  bool operator==(const AttentionSpeed&) const = default;
};

/// Who said a fact; later ones win.
enum class Origin : std::uint8_t { nobody, table, platform, calibrated, scenario };

struct Gpu {
  std::string name = "ideal";
  double fp32_flops = 0, bf16_flops = 0;       ///< per second, dense tensor peak
  double memory_bandwidth = 0;                 ///< bytes per second
  std::int64_t memory_bytes = 0;               ///< capacity
  double gemm_efficiency = 1;                  ///< sustained share of the peak
  double memory_efficiency = 1;                ///< sustained share of the bandwidth
  double kernel_seconds = 0;                   ///< fixed time of a kernel on the device
  double launch_seconds = 0;                   ///< time that a launch costs the host
  double step_host_seconds = 0;                ///< what the host does as every step begins: loads data, logs, reads the loss
  int multiprocessors = 0;                     ///< SMs, for wave quantisation; 0: none
  double output_write = 1;                     ///< share of a product's output write that is not hidden (kappa)
  AttentionSpeed attention_64, attention_128;  ///< for heads of at most 64, and of more

  // Bytes per element that an elementwise kernel of the software stack moves in a forward pass; its backward moves twice as much.
  // 0: what the op's tensors say.
  double norm_bytes = 0, residual_bytes = 0, rotate_bytes = 0, activation_bytes = 0;

  std::int64_t host_memory =
      0;  ///< the GPU's share of its node's; 0: not known, and then nothing is said about whether it suffices
  // The same of the host's speed: bytes per second; 0: not known, and refused where an op needs it.
  double host_memory_bandwidth = 0;  ///< of the CPU's memory, sustained
  double host_link_bandwidth = 0;    ///< between that and the GPU's, each way

  /// Compute time that a collective takes from what it overlaps, in units of (bytes sent / memory_bandwidth).
  double contention = 0;
  /// Mean of the exponentially distributed slow-down of a node in a step, as a share of the step.
  double jitter = 0;

  std::string attention, stack = "natural";  ///< names of the attention kernel and the software stack that the facts were taken of
  std::array<Origin, 32> origins{};          ///< of each fact, by its position in facts()

  bool operator==(const Gpu&) const = default;
};

}  // namespace shardsim
