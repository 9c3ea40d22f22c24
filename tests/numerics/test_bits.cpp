// What must not change a bit: where a tensor begins, and how it is cut. And the rounding to bf16.
#include <doctest/doctest.h>

#include <functional>
#include <limits>

#include "numerics/every_op.h"

using namespace shardsim;
using namespace shardsim::numerics_tests;

namespace {

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

}  // namespace

TEST_CASE("every op gives the same bits at every offset of its storage") {
  numerics::fix_blocking();
  for (Dtype type : {Dtype::fp32, Dtype::bf16})
    for (std::int64_t n : {0, 1, 3, 17, 64}) {
      CAPTURE(name_of(type));
      CAPTURE(n);
      Workbench first(0);
      const std::vector<Op> ops = all_ops(first, n, type);
      for (const Op& op : ops) numerics::run(op);
      for (int offset = 1; offset < 16; ++offset) {
        CAPTURE(offset);
        Workbench bench(offset);
        for (const Op& op : all_ops(bench, n, type)) numerics::run(op);
        CHECK(bench.bits() == first.bits());
        CHECK(bench.margins_untouched());
      }
    }
}

TEST_CASE("the list of ops above has one of every kind") {
  Workbench bench;
  std::vector<bool> seen(std::variant_size_v<Op>);
  for (const Op& op : all_ops(bench, 1, Dtype::fp32)) seen[op.index()] = true;
  CHECK(seen == std::vector<bool>(std::variant_size_v<Op>, true));
}

TEST_CASE("Adam on two slices gives the bits of Adam on the whole") {
  for (std::int64_t border : {0, 1, 7, 16, 39, 64}) {
    CAPTURE(border);
    Workbench whole, halves;
    auto run = [](Workbench& bench, const std::vector<std::pair<std::int64_t, std::int64_t>>& slices) {
      const Tensor grad = bench.vector(64), master = bench.vector(64), m = bench.vector(64), v = bench.squares(64);
      for (auto [begin, count] : slices) {
        auto cut = [b = dim(begin), c = dim(count)](Tensor t) { return t.slice(b, c); };
        numerics::run(Adam{cut(grad), {}, {}, cut(master), cut(m), cut(v), cut(master), AdamRule{}, 0.5f, 2});
      }
    };
    run(whole, {{0, 64}});
    run(halves, {{0, border}, {border, 64 - border}});
    CHECK(halves.bits() == whole.bits());
  }
}

TEST_CASE("bf16 rounds to the nearest, ties to even") {
  CHECK(bits_of(numerics::to_bf16(from_bits(0x3f800000))) == 0x3f800000);  // 1
  CHECK(bits_of(numerics::to_bf16(from_bits(0x3f807fff))) == 0x3f800000);  // below half a step
  CHECK(bits_of(numerics::to_bf16(from_bits(0x3f808000))) == 0x3f800000);  // half a step: down to even
  CHECK(bits_of(numerics::to_bf16(from_bits(0x3f808001))) == 0x3f810000);
  CHECK(bits_of(numerics::to_bf16(from_bits(0x3f818000))) == 0x3f820000);  // half a step: up to even
  CHECK(bits_of(numerics::to_bf16(from_bits(0xbf818000))) == 0xbf820000);  // away from zero for both signs
  CHECK(bits_of(numerics::to_bf16(from_bits(0x3fff8000))) == 0x40000000);  // carries into the exponent: 2
}

TEST_CASE("bf16 keeps zeros, infinities, NaN and denormals") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  CHECK(bits_of(numerics::to_bf16(0.f)) == 0);
  CHECK(bits_of(numerics::to_bf16(-0.f)) == 0x80000000);
  CHECK(numerics::to_bf16(infinity) == infinity);
  CHECK(numerics::to_bf16(-infinity) == -infinity);
  CHECK(numerics::to_bf16(std::numeric_limits<float>::max()) == infinity);  // nearer to 2^128 than to the largest bf16
  CHECK(bits_of(numerics::to_bf16(from_bits(0x7f7f7fff))) == 0x7f7f0000);   // the largest that is not
  for (std::uint32_t nan : {0x7fc00000u, 0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    const std::uint32_t rounded = bits_of(numerics::to_bf16(from_bits(nan)));
    CHECK((rounded & 0x7fffffffu) > 0x7f800000u);
    CHECK((rounded & 0xffffu) == 0);
    CHECK((rounded & 0x80000000u) == (nan & 0x80000000u));
  }
  CHECK(bits_of(numerics::to_bf16(from_bits(0x00018000))) == 0x00020000);  // a denormal, half a step: up to even
  CHECK(bits_of(numerics::to_bf16(from_bits(0x00008000))) == 0);           // half of the smallest: down to even
  CHECK(bits_of(numerics::to_bf16(from_bits(0x00008001))) == 0x00010000);
  CHECK(bits_of(numerics::to_bf16(from_bits(0x007fffff))) == 0x00800000);  // the largest denormal becomes normal
}

TEST_CASE("all 65536 bf16 numbers round to themselves") {
  int changed = 0;
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    const float x = from_bits(high << 16);
    if (x == x) changed += bits_of(numerics::to_bf16(x)) != bits_of(x);
  }
  CHECK(changed == 0);
}

TEST_CASE("new storage is 64-byte aligned and holds NaN; none is null") {
  for (std::int64_t n : {1, 3, 17, 64}) {
    void* at = numerics::allocate(dim(n));
    CHECK(reinterpret_cast<std::uintptr_t>(at) % 64 == 0);
    for (std::int64_t i = 0; i < n; ++i) CHECK(std::isnan(static_cast<float*>(at)[i]));
    numerics::release(at);
  }
  CHECK(numerics::allocate(none) == nullptr);
  CHECK(numerics::allocate(Dim(100, 0)) == nullptr);
}

TEST_CASE("what is staged is rounded and cut to the source, and what lies behind it is cleared") {
  Workbench bench;
  const Tensor to = bench.vector(5, Dtype::bf16);
  const std::vector<float> host = {1, 1 + 1 / 256.f, 1 + 3 / 256.f};
  CHECK(numerics::staged(to, {&host, dim(1), dim(2)}) == std::vector<float>{1, 1 + 4 / 256.f});
  CHECK(numerics::staged(to, {&host, dim(1), dim(9)}) == std::vector<float>{1, 1 + 4 / 256.f});
  CHECK(numerics::staged(to, {&host, dim(7), dim(2)}).empty());
  CHECK(numerics::staged(to, {&host, none, none}).empty());
  CHECK(numerics::staged(to.slice(dim(2), none), {&host, none, dim(3)}).empty());
  std::vector<float> there;
  numerics::copy_in(to, {1, 2, 3}), numerics::copy_out(to, there);
  CHECK(there == std::vector<float>{1, 2, 3, 0, 0});
  numerics::copy_in(to, {}), numerics::copy_out(to, there);
  CHECK(there == std::vector<float>{0, 0, 0, 0, 0});
}
