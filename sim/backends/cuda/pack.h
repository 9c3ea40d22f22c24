// Pack: eight neighbours of an array in registers. A thread that moves whole words keeps enough of them under way to fill the
// memory's bandwidth; single 16-bit numbers would not.
#pragma once
#include "backends/cuda/numbers.h"

namespace shardsim::cuda {

struct Pack {
  static constexpr int size = 8;
  float x[size];
  SHARDSIM_BOTH void operator+=(const Pack& more) {
    for (int i = 0; i < size; ++i) x[i] += more.x[i];
  }
};

/// The packs of n numbers, and how many numbers pack `p` has.
SHARDSIM_BOTH inline std::int64_t packs_of(std::int64_t n) { return (n + Pack::size - 1) / Pack::size; }
SHARDSIM_BOTH inline int numbers_in(std::int64_t pack, std::int64_t n) {
  const std::int64_t left = n - pack * Pack::size;
  return left < Pack::size ? int(left) : Pack::size;
}

/// 16 bytes that are aligned as such.
struct Word {
  std::uint32_t part[4];
};
SHARDSIM_BOTH inline Word word_at(const void* at) {
#ifdef __CUDA_ARCH__
  const uint4 four = *static_cast<const uint4*>(at);
  return {{four.x, four.y, four.z, four.w}};
#else
  Word word;
  memcpy(&word, at, sizeof word);
  return word;
#endif
}
SHARDSIM_BOTH inline void put_word(void* at, const Word& word) {
#ifdef __CUDA_ARCH__
  *static_cast<uint4*>(at) = make_uint4(word.part[0], word.part[1], word.part[2], word.part[3]);
#else
  memcpy(at, &word, sizeof word);
#endif
}

/// Whether whole packs of the array are whole, aligned words.
SHARDSIM_BOTH inline bool moves_in_words(const Numbers& numbers) {
  return reinterpret_cast<std::uintptr_t>(numbers.at) % sizeof(Word) == 0 &&
         (numbers.type == Dtype::fp32 || numbers.type == Dtype::bf16 || numbers.type == Dtype::fp16);
}

/// Pack `p` of the first n numbers; zeros past the end.
SHARDSIM_BOTH inline Pack load(const Numbers& from, std::int64_t p, std::int64_t n) {
  Pack pack;
  const int count = numbers_in(p, n);
  const char* at = static_cast<const char*>(from.at) + p * Pack::size * bytes_of(from.type);
  if (count < Pack::size || !moves_in_words(from)) {
    for (int i = 0; i < Pack::size; ++i) pack.x[i] = i < count ? loaded(at, from.type, i) : 0.f;
    return pack;
  }
  const Word first = word_at(at);
  if (from.type == Dtype::fp32) {
    const Word second = word_at(at + sizeof(Word));
    for (int i = 0; i < 4; ++i) pack.x[i] = float_of_bits(first.part[i]), pack.x[4 + i] = float_of_bits(second.part[i]);
    return pack;
  }
  const bool is_bf16 = from.type == Dtype::bf16;
  for (int i = 0; i < Pack::size; ++i) {
    const std::uint16_t bits = std::uint16_t(first.part[i / 2] >> 16 * (i % 2));
    pack.x[i] = is_bf16 ? from_bf16(bits) : from_fp16(bits);
  }
  return pack;
}

/// Writes pack `p` of the first n numbers, and nothing past the end.
SHARDSIM_BOTH inline void save(const Numbers& to, std::int64_t p, std::int64_t n, const Pack& pack) {
  const int count = numbers_in(p, n);
  char* at = static_cast<char*>(to.at) + p * Pack::size * bytes_of(to.type);
  if (count < Pack::size || !moves_in_words(to)) {
    for (int i = 0; i < Pack::size; ++i)
      if (i < count) store(at, to.type, i, pack.x[i]);
    return;
  }
  Word first;
  if (to.type == Dtype::fp32) {
    Word second;
    for (int i = 0; i < 4; ++i) first.part[i] = bits_of_float(pack.x[i]), second.part[i] = bits_of_float(pack.x[4 + i]);
    put_word(at, first);
    put_word(at + sizeof(Word), second);
    return;
  }
  const bool is_bf16 = to.type == Dtype::bf16;
  for (int i = 0; i < 4; ++i) {
    const float low = pack.x[2 * i], high = pack.x[2 * i + 1];
    first.part[i] = is_bf16 ? to_bf16(low) | std::uint32_t(to_bf16(high)) << 16 : to_fp16(low) | std::uint32_t(to_fp16(high)) << 16;
  }
  put_word(at, first);
}

}  // namespace shardsim::cuda
