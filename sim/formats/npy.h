// NumPy's .npy files, read strictly: float32 in C order, little-endian, every number finite.
#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

namespace shardsim::formats {

struct Array {
  std::vector<std::int64_t> shape;
  std::vector<float> values;  ///< row-major
};

/// Throws ScenarioError ("path: what was found; what is expected") for a missing or truncated file, another type or order, another
/// number of dimensions, and the first NaN or Inf.
Array read_npy(const std::filesystem::path&, std::size_t dimensions);

/// Format version 1.0, the bytes that numpy.save writes. Throws ScenarioError if the file cannot be written.
void write_npy(const std::filesystem::path&, const std::vector<std::int64_t>& shape, const std::vector<float>& values);

}  // namespace shardsim::formats
