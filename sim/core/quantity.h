// Quantity: a number with a unit, as people write it in scenarios and platforms: 25MB, 1.2GiB, 400Gbps, 5us, 989Tf.
#pragma once
#include <string>
#include <string_view>

namespace shardsim {

enum class Measure { bytes, bytes_per_second, seconds, flops_per_second, number };

/// The value in the measure's base unit; a bare number is in the base unit already. Throws std::invalid_argument that says what is
/// wrong and which units are known. B is a byte, b a bit; k, M, G, T, P are powers of 1000; Ki, Mi, Gi, Ti of 1024.
double parse_quantity(std::string_view text, Measure);

}  // namespace shardsim
