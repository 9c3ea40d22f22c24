// How a simulated collective becomes time.
#pragma once

namespace shardsim {

/// ring: real messages, chunk by chunk; coupled: one transfer over every link of the ring; formula: the closed form, no contention.
enum class Fidelity { ring, coupled, formula };
/// Whose latency is paid: that of the platform's links, or NCCL's own constants.
enum class Latency { platform, nccl };

}  // namespace shardsim
