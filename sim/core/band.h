// Band: what a byte of GPU memory is for; Dtype: how wide a number is; ShardSet: the three flags of the textbook.
#pragma once
#include <cstdint>
#include <initializer_list>

namespace shardsim {

/// What memory is held for. `opt` is m, v and, when parameters are 16-bit, the fp32 master.
enum class Band : std::uint8_t { param, grad, opt, gathered, activation, bucket, workspace };
inline constexpr int band_count = 7;
const char* name_of(Band);

/// int64 is the type of token ids, uint8 that of masks, int8 that of quantized numbers: whole numbers in every arithmetic.
enum class Dtype : std::uint8_t { fp32, bf16, fp16, int64, uint8, int8 };
inline constexpr int dtype_count = 6;
const char* name_of(Dtype);
constexpr std::int64_t bytes_of(Dtype type) {
  switch (type) {  // no table: each thread of a GPU would have its own in memory
    case Dtype::fp32:
      return 4;
    case Dtype::bf16:
    case Dtype::fp16:
      return 2;
    case Dtype::int64:
      return 8;
    default:
      return 1;
  }
}

/// The bands of which a rank keeps only the slice it owns. Flags say what a rank *keeps*; verbs say what *moves*.
class ShardSet {
 public:
  constexpr ShardSet() = default;
  constexpr ShardSet(std::initializer_list<Band> bands) {
    for (Band band : bands) bits_ |= 1u << unsigned(band);
  }
  constexpr bool has(Band band) const { return bits_ >> unsigned(band) & 1u; }
  constexpr bool empty() const { return bits_ == 0; }

 private:
  unsigned bits_ = 0;
};

/// Bytes of every band per parameter: 2 + 2 + 12 in mixed precision, 4 + 4 + 8 when the fp32 parameter is its own master.
struct Precision {
  Dtype param = Dtype::fp32;
  Dtype grad = Dtype::fp32;
  Dtype reduce = Dtype::fp32;  ///< the type in which gradients are summed over the ranks
  bool master = true;          ///< 16-bit parameters have an fp32 master; false: Adam updates the parameters themselves

  constexpr bool has_master() const { return master && param != Dtype::fp32; }
  constexpr int opt_vectors() const { return has_master() ? 3 : 2; }  ///< [master,] m, v: fp32 each
  constexpr std::int64_t bytes_per_parameter(Band band) const {
    switch (band) {
      case Band::param:
      case Band::gathered:
        return bytes_of(param);
      case Band::grad:
        return bytes_of(grad);
      case Band::opt:
        return 4 * opt_vectors();
      default:
        return 0;
    }
  }
};

}  // namespace shardsim
