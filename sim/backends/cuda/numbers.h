// Numbers: an array of any of our types, read and written as floats; Pack: eight neighbours of it, which move as whole words.
//
// Numbers lie in memory at their type's own width here, unlike on the host backends. All arithmetic is in fp32.
#pragma once
#include <cstdint>
#include <cstring>

#include "core/tensor.h"
#include "numerics/both.h"
#include "numerics/real.h"
#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

namespace shardsim::cuda {

SHARDSIM_BOTH inline float float_of_bits(std::uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
SHARDSIM_BOTH inline std::uint32_t bits_of_float(float x) {
  std::uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
SHARDSIM_BOTH inline float from_bf16(std::uint16_t bits) { return float_of_bits(std::uint32_t(bits) << 16); }
/// Nearest, ties to even; NaN stays NaN.
SHARDSIM_BOTH inline std::uint16_t to_bf16(float x) {
  const std::uint32_t bits = bits_of_float(x);
  if (x != x) return std::uint16_t(bits >> 16 | 0x40u);
  return std::uint16_t((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
SHARDSIM_BOTH inline float from_fp16(std::uint16_t bits) {
#ifdef __CUDACC__
  __half_raw raw;
  raw.x = bits;
  return __half2float(__half(raw));
#else
  _Float16 half;
  memcpy(&half, &bits, sizeof half);
  return float(half);
#endif
}
SHARDSIM_BOTH inline std::uint16_t to_fp16(float x) {
#ifdef __CUDACC__
  return __half_raw(__float2half_rn(x)).x;
#else
  const _Float16 half = _Float16(x);
  std::uint16_t bits;
  memcpy(&bits, &half, sizeof bits);
  return bits;
#endif
}

/// What number `i` of a type's array at `at` is, as a float.
SHARDSIM_BOTH inline float loaded(const void* at, Dtype type, std::int64_t i) {
  switch (type) {
    case Dtype::fp32:
      return static_cast<const float*>(at)[i];
    case Dtype::bf16:
      return from_bf16(static_cast<const std::uint16_t*>(at)[i]);
    case Dtype::fp16:
      return from_fp16(static_cast<const std::uint16_t*>(at)[i]);
    case Dtype::int64:
      return float(static_cast<const std::int64_t*>(at)[i]);
    case Dtype::uint8:
      return float(static_cast<const std::uint8_t*>(at)[i]);
    default:
      return float(static_cast<const std::int8_t*>(at)[i]);
  }
}
SHARDSIM_BOTH inline void store(void* at, Dtype type, std::int64_t i, float x) {
  switch (type) {
    case Dtype::fp32:
      static_cast<float*>(at)[i] = x;
      break;
    case Dtype::bf16:
      static_cast<std::uint16_t*>(at)[i] = to_bf16(x);
      break;
    case Dtype::fp16:
      static_cast<std::uint16_t*>(at)[i] = to_fp16(x);
      break;
    case Dtype::int64:
      static_cast<std::int64_t*>(at)[i] = std::int64_t(x);
      break;
    case Dtype::uint8:
      static_cast<std::uint8_t*>(at)[i] = std::uint8_t(x);
      break;
    default:
      static_cast<std::int8_t*>(at)[i] = std::int8_t(x);
  }
}
/// What a number of the type keeps of x.
SHARDSIM_BOTH inline float rounded(Dtype type, float x) {
  return type == Dtype::bf16 ? from_bf16(to_bf16(x)) : type == Dtype::fp16 ? from_fp16(to_fp16(x)) : x;
}

/// A tensor as a kernel sees it. `at` is null where there is none.
struct Numbers {
  void* at = nullptr;
  Dtype type = Dtype::fp32;
  std::int64_t count = 0;

  SHARDSIM_BOTH float operator[](std::int64_t i) const { return loaded(at, type, i); }
  SHARDSIM_BOTH void put(std::int64_t i, float x) const { store(at, type, i, x); }
  /// A whole number, such as a token's id.
  SHARDSIM_BOTH std::int64_t whole(std::int64_t i) const {
    return type == Dtype::int64 ? static_cast<const std::int64_t*>(at)[i] : std::int64_t((*this)[i]);
  }
  /// Everything from number `begin` on.
  SHARDSIM_BOTH Numbers from(std::int64_t begin) const {
    return {static_cast<char*>(at) + begin * bytes_of(type), type, count - begin};
  }
  SHARDSIM_BOTH explicit operator bool() const { return at != nullptr; }
};

inline std::int64_t real(Dim dim) { return Real::of(dim); }
inline std::int64_t size(const Tensor& tensor) { return real(tensor.count()); }
inline Numbers numbers(const Tensor& tensor) {
  if (!tensor || !tensor.in->at) return {};
  return {static_cast<char*>(tensor.in->at) + real(tensor.offset) * bytes_of(tensor.dtype()), tensor.dtype(), size(tensor)};
}

}  // namespace shardsim::cuda
