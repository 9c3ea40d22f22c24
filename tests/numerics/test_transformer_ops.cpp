// The transformer's ops against plain restatements in double precision, in fp32 and bf16.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "numerics/close.h"

using namespace shardsim;
using namespace shardsim::numerics_tests;

namespace {

using List = std::vector<double>;

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x))); }
double silu(double x) { return x / (1 + std::exp(-x)); }

/// y = f(x) for the bench's numbers times 4; check(op's y, f).
void check_map(const std::function<Op(Tensor, Tensor)>& op, const std::function<double(double)>& f) {
  for_all([&](Dtype type, std::int64_t n) {
    Workbench bench(5);
    const Tensor x = bench.vector(n, type), y = bench.vector(n, type);
    List expected;
    for (std::int64_t i = 0; i < n; ++i) {
      numerics::data(x)[i] *= 4;
      expected.push_back(f(numerics::data(x)[i]));
    }
    numerics::run(op(x, y));
    check_close(values(y), expected, type, 4);
    const auto stored = values(y);
    numerics::run(op(x, x));  // in place
    CHECK(values(x) == stored);
    CHECK(bench.margins_untouched());
  });
}

/// softmax of x over the allowed ones.
List softmax(const List& x, const std::function<bool(std::size_t)>& allowed) {
  double top = -std::numeric_limits<double>::infinity(), total = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (allowed(i)) top = std::max(top, x[i]);
  List y(x.size(), 0.0);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (allowed(i)) total += y[i] = std::exp(x[i] - top);
  for (double& share : y)
    if (total > 0) share /= total;
  return y;
}

List row_of(const std::vector<float>& all, std::int64_t row, std::int64_t cols) {
  return {all.begin() + row * cols, all.begin() + (row + 1) * cols};
}

}  // namespace

TEST_CASE("activations element by element: GELU, SiLU, cube, scale and shift") {
  check_map([](Tensor x, Tensor y) { return Gelu{x, y}; }, gelu);
  check_map([](Tensor x, Tensor y) { return Silu{x, y}; }, silu);
  check_map([](Tensor x, Tensor y) { return Cube{x, y}; }, [](double x) { return x * x * x; });
  check_map([](Tensor x, Tensor y) { return Scale{x, y, 0.7, 0.25}; }, [](double x) { return 0.7 * x + 0.25; });
}

TEST_CASE("GELU and SiLU keep their digits far out, and are 0 or x in the end") {
  Workbench bench;
  const Tensor x = bench.vector({-3e4f, -80.f, -9.f, -4.f, 9.f, 80.f, 3e4f}), y = bench.vector(7);
  numerics::run(Silu{x, y});
  for (std::size_t i = 0; i < 7; ++i) CHECK(std::abs(values(y)[i] - silu(values(x)[i])) <= 1e-6 * std::abs(silu(values(x)[i])));
  numerics::run(Gelu{x, y});
  for (std::size_t i : {0, 1, 4, 5, 6}) CHECK(values(y)[i] == doctest::Approx(std::max(0.f, values(x)[i])).epsilon(1e-7));
  CHECK(std::abs(values(y)[3] / gelu(-4) - 1) < 1e-4);  // 1 + tanh alone would keep three digits of it
}

TEST_CASE("products element by element, also in place, and a gated SiLU") {
  for_all([](Dtype type, std::int64_t n) {
    Workbench bench(6);
    const Tensor a = bench.vector(n, type), b = bench.vector(n, type), y = bench.vector(n, type);
    const auto x = values(a), z = values(b);
    List product, gated;
    for (std::int64_t i = 0; i < n; ++i) product.push_back(double(x[i]) * z[i]), gated.push_back(silu(x[i]) * z[i]);
    numerics::run(SwiGlu{a, b, y});
    check_close(values(y), gated, type);
    numerics::run(Multiply{a, b, y});
    check_equal(values(y), product, type);
    numerics::run(Multiply{a, b, b});
    check_equal(values(b), product, type);
    CHECK(bench.margins_untouched());
  });
}

TEST_CASE("a product's bias is added in its own kernel: to the sum, before it is rounded") {
  numerics::fix_blocking();
  for_all([](Dtype type, std::int64_t n) {
    for (bool accumulate : {false, true}) {
      Workbench bench(7);
      const Tensor a = bench.matrix(6, 9, type), b = bench.matrix(9, n, type), bias = bench.vector(n, type);
      const Tensor out = bench.matrix(6, n, type);
      const auto x = values(a), y = values(b), z = values(bias), before = values(out);
      List expected;
      for (std::int64_t i = 0; i < 6 * n; ++i) {
        double sum = z[i % n] + (accumulate ? before[i] : 0);
        for (std::int64_t p = 0; p < 9; ++p) sum += double(x[i / n * 9 + p]) * y[p * n + i % n];
        expected.push_back(sum);
      }
      numerics::run(Matmul{a, b, out, false, false, accumulate, bias});
      check_close(values(out), expected, type, 3, accumulate);
      CHECK(bench.margins_untouched());
    }
  });
}

TEST_CASE("a batch of products: each pair by itself, either side transposed, divided by the root") {
  for_all([](Dtype type, std::int64_t n) {
    for (int how = 0; how < 4; ++how) {
      constexpr std::int64_t batch = 3, m = 4, k = 5;
      const bool ta = how & 1, tb = how & 2;
      Workbench bench(8);
      const Tensor a = bench.matrix(batch * (ta ? k : m), ta ? m : k, type), out = bench.matrix(batch * m, n, type);
      const Tensor b = tb ? bench.matrix(batch * n, k, type) : bench.matrix(batch * k, n, type);
      const auto x = values(a), y = values(b);
      List expected;
      for (std::int64_t i = 0; i < batch * m * n; ++i) {
        const std::int64_t pair = i / (m * n), row = i / std::max<std::int64_t>(n, 1) % m, col = i % n;
        const auto *p = x.data() + pair * m * k, *q = y.data() + pair * k * n;
        double sum = 0;
        for (std::int64_t j = 0; j < k; ++j)
          sum += double(ta ? p[j * m + row] : p[row * k + j]) * (tb ? q[col * k + j] : q[j * n + col]);
        expected.push_back(sum / std::sqrt(6.0));
      }
      numerics::run(BatchedMatmul{a, b, out, dim(batch), dim(6), ta, tb});
      check_close(values(out), expected, type);
      CHECK(bench.margins_untouched());
    }
  });
}

TEST_CASE("a bias with r rows goes to every r-th row, and the sums over rows come back to it") {
  for_all([](Dtype type, std::int64_t n) {
    for (bool accumulate : {false, true}) {
      Workbench bench(9);
      const Tensor bias = bench.matrix(3, n, type), x = bench.matrix(6, n, type);
      const auto b = values(bias), before = values(x);
      List shifted, sums(b.begin(), b.end());
      for (std::int64_t i = 0; i < 6 * n; ++i) shifted.push_back(double(before[i]) + b[i % (3 * n)]);
      numerics::run(AddBias{bias, x});
      check_equal(values(x), shifted, type);
      const auto all = values(x);
      for (std::int64_t i = 0; i < 3 * n; ++i) sums[i] = (accumulate ? sums[i] : 0) + double(all[i]) + all[i + 3 * n];
      numerics::run(SumRows{x, bias, accumulate});
      check_close(values(bias), sums, type, 3, accumulate);
      CHECK(bench.margins_untouched());
    }
  });
}

TEST_CASE("an embedding takes rows of its table; its backward sums them, and writes the rows that no token has") {
  for_all([](Dtype type, std::int64_t n) {
    Workbench bench(10);
    const Tensor ids = bench.vector({3, 0, 3, 1}, Dtype::int64), table = bench.matrix(5, n, type), out = bench.matrix(4, n, type);
    const auto rows = values(table);
    numerics::run(Embed{ids, table, out});
    for (std::int64_t i = 0; i < 4 * n; ++i) CHECK(values(out)[i] == rows[std::int64_t(values(ids)[i / n]) * n + i % n]);
    const auto given = values(out);
    for (bool accumulate : {true, false}) {
      List expected;
      for (std::int64_t i = 0; i < 5 * n; ++i) {
        double sum = accumulate ? rows[i] : 0;
        for (int t = 0; t < 4; ++t) sum += std::int64_t(values(ids)[t]) == i / n ? given[t * n + i % n] : 0;
        expected.push_back(sum);
      }
      numerics::run(EmbedBackward{ids, out, table, accumulate});
      check_close(values(table), expected, type, 2, accumulate);
    }
    CHECK(bench.margins_untouched());
  });
}

TEST_CASE("LayerNorm takes the mean off and divides by the standard deviation, RMSNorm by the root of the mean square") {
  for_all([](Dtype type, std::int64_t n) {
    for (bool centred : {false, true}) {
      Workbench bench(11);
      const Tensor x = bench.matrix(3, n, type), gain = bench.vector(n, type), y = bench.matrix(3, n, type);
      const Tensor bias = centred ? bench.vector(n, type) : Tensor{}, stats = bench.matrix(3, centred ? 2 : 1);
      const auto all = values(x), g = values(gain), b = centred ? values(bias) : std::vector<float>(std::size_t(n), 0.f);
      const double eps = 1e-2f;
      numerics::run(Norm{x, gain, bias, y, stats, 1e-2f});
      List expected, expected_stats;
      for (int i = 0; i < 3; ++i) {
        double mean = 0, square = 0;
        for (double v : row_of(all, i, n)) mean += centred ? v / double(n) : 0;
        for (double v : row_of(all, i, n)) square += (v - mean) * (v - mean) / double(n);
        if (centred) expected_stats.push_back(mean);
        expected_stats.push_back(1 / std::sqrt(square + eps));
        for (std::int64_t j = 0; j < n; ++j) expected.push_back((all[i * n + j] - mean) * expected_stats.back() * g[j] + b[j]);
      }
      check_close(values(y), expected, type, 10);  // n = 1: 1 / size is 10
      if (n > 0) check_close(values(stats), expected_stats, Dtype::fp32, 10);
      CHECK(bench.margins_untouched());
    }
  });
}

TEST_CASE("a token's rotary positions turn each pair by its place in the sequence, and leave v alone") {
  for (Dtype type : types)
    for (std::int64_t sequence : {1, 3, 40}) {
      constexpr std::int64_t heads = 3, kv = 1, width = 6, row = (heads + 2 * kv) * width;
      Workbench bench(12);
      const Tensor qkv = bench.matrix(2 * sequence, row, type);
      const auto before = values(qkv);
      List expected(before.begin(), before.end());
      for (std::int64_t t = 0; t < 2 * sequence; ++t)
        for (std::int64_t head = 0; head < heads + kv; ++head)
          for (std::int64_t i = 0; i < 3; ++i) {
            const double angle = double(t % sequence) * std::pow(500.0, -2.0 * double(i) / width);
            const std::int64_t low = t * row + head * width + i, high = low + 3;
            expected[low] = before[low] * std::cos(angle) - before[high] * std::sin(angle);
            expected[high] = before[high] * std::cos(angle) + before[low] * std::sin(angle);
          }
      numerics::run(Rotate{qkv, {dim(heads), dim(kv), dim(sequence)}, 500, false});
      check_close(values(qkv), expected, type, 2);
      CHECK(bench.margins_untouched());
    }
}

TEST_CASE("attention is the causal softmax of each head's products, over its sequence, with shared key and value heads") {
  numerics::fix_blocking();
  for (Dtype type : types)
    for (std::int64_t s : {1, 2, 17, 130})
      for (std::int64_t kv : {1, 2, 4}) {
        CAPTURE(s);
        CAPTURE(kv);
        constexpr std::int64_t heads = 4, width = 5;
        const std::int64_t row = (heads + 2 * kv) * width;
        Workbench bench(13);
        const Tensor qkv = bench.matrix(2 * s, row, type), out = bench.matrix(2 * s, heads * width, type);
        const Tensor lse = bench.matrix(2 * s, heads);
        const auto x = values(qkv);
        List expected, expected_lse;
        for (std::int64_t t = 0; t < 2 * s; ++t)
          for (std::int64_t head = 0; head < heads; ++head) {
            const std::int64_t first = t / s * s, key = (heads + head / (heads / kv)) * width, value = key + kv * width;
            List scores;
            for (std::int64_t past = first; past <= t; ++past) {
              double score = 0;
              for (std::int64_t j = 0; j < width; ++j) score += double(x[t * row + head * width + j]) * x[past * row + key + j];
              scores.push_back(score / std::sqrt(double(width)));
            }
            const List share = softmax(scores, [](std::size_t) { return true; });
            expected_lse.push_back(scores[0] - std::log(share[0]));
            for (std::int64_t j = 0; j < width; ++j) {
              double sum = 0;
              for (std::int64_t past = first; past <= t; ++past) sum += share[past - first] * x[past * row + value + j];
              expected.push_back(sum);
            }
          }
        numerics::run(Attention{qkv, out, lse, {dim(heads), dim(kv), dim(s)}});
        check_close(values(out), expected, type);
        check_close(values(lse), expected_lse, Dtype::fp32, 4);
        CHECK(bench.margins_untouched());
      }
}

TEST_CASE("a masked softmax is fully defined: 0 where the mask is 0, whatever stands there, and 0 where it is 0 everywhere") {
  for_all([](Dtype type, std::int64_t s) {
    Workbench bench(14);
    const Tensor mask = bench.matrix(s, s, Dtype::uint8), x = bench.matrix(2 * s, s, type), y = bench.matrix(2 * s, s, type);
    numerics::run(CausalMask{mask});
    for (std::int64_t i = 0; i < s * s; ++i) CHECK(values(mask)[i] == (i % s <= i / s ? 1.f : 0.f));
    for (std::int64_t i = 0; i < 2 * s; ++i)
      for (std::int64_t j = i % s + 1; j < s; ++j) numerics::data(x)[i * s + j] = std::numeric_limits<float>::quiet_NaN();
    List expected;
    for (std::int64_t i = 0; i < 2 * s; ++i)
      for (double share : softmax(row_of(values(x), i, s), [&](std::size_t j) { return std::int64_t(j) <= i % s; }))
        expected.push_back(share);
    numerics::run(MaskedSoftmax{x, mask, y});
    check_close(values(y), expected, type);
    numerics::run(Fill{mask, 0.f});
    numerics::run(MaskedSoftmax{x, mask, y});
    CHECK(values(y) == std::vector<float>(std::size_t(2 * s * s), 0.f));
    CHECK(bench.margins_untouched());
  });
}

TEST_CASE("cross entropy, fused and in place, and log softmax with its own loss, are the mean over tokens") {
  for_all([](Dtype type, std::int64_t n) {
    if (n == 0) return;
    Workbench bench(15);
    constexpr std::int64_t tokens = 5;
    const Tensor x = bench.matrix(tokens, n, type), logp = bench.matrix(tokens, n, type), dlogp = bench.matrix(tokens, n, type);
    const Tensor dx = bench.matrix(tokens, n, type), targets = bench.ids(tokens, n), scaler = bench.vector({8.f, 0.f, 0.f});
    const Tensor fused = bench.vector(std::vector<float>{0.5f}), apart = bench.vector(std::vector<float>{0.5f});
    for (std::int64_t i = 0; i < n; ++i) numerics::data(x)[i] *= 64;  // e^64 thrice is beyond fp32's largest; the top is taken off
    double loss = 0, stored_loss = 0;
    List logs, gradient, minus;
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t target = std::int64_t(values(targets)[t]);
      const List row = row_of(values(x), t, n), share = softmax(row, [](std::size_t) { return true; });
      double total = 0;
      for (double v : row) total += std::exp(v - row[0]);
      for (std::int64_t j = 0; j < n; ++j) {
        logs.push_back(row[j] - row[0] - std::log(total));
        gradient.push_back(8 * (share[j] - (j == target)) / tokens);
        minus.push_back(j == target ? -8.0 / tokens : 0);
      }
      loss -= logs[t * n + target] / tokens;
    }
    numerics::run(LogSoftmax{x, logp});
    check_close(values(logp), logs, type, 64);
    for (std::int64_t t = 0; t < tokens; ++t)
      stored_loss -= double(values(logp)[t * n + std::int64_t(values(targets)[t])]) / tokens;
    numerics::run(NllLoss{logp, targets, dlogp, apart, scaler, 3});
    check_close(values(apart), {0.5 + stored_loss / 3}, Dtype::fp32);
    check_close(values(dlogp), minus, type);
    const auto given = values(dlogp), kept = values(logp);
    List back;
    for (std::int64_t i = 0; i < tokens * n; ++i) {
      double sum = 0;
      for (double v : row_of(given, i / n, n)) sum += v;
      back.push_back(given[i] - std::exp(double(kept[i])) * sum);
    }
    numerics::run(LogSoftmaxBackward{logp, dlogp, dx});
    check_close(values(dx), back, type, 2);
    numerics::run(CrossEntropy{x, targets, x, fused, scaler, 3});  // the gradient takes the logits' place
    check_close(values(fused), {0.5 + loss / 3}, Dtype::fp32, 64);
    check_close(values(x), gradient, type, 2);
    CHECK(bench.margins_untouched());
  });
}

TEST_CASE("a loss over no tokens is no loss, and ops on nothing do nothing") {
  Workbench bench(2);
  const Tensor loss = bench.vector(std::vector<float>{2.f}), none_yet = bench.matrix(0, 4), ids = bench.vector(0, Dtype::int64);
  numerics::run(CrossEntropy{none_yet, ids, none_yet, loss, {}, 1});
  numerics::run(NllLoss{none_yet, ids, none_yet, loss, {}, 1});
  CHECK(values(loss) == std::vector<float>{2.f});
  const Heads heads{dim(2), dim(1), dim(3)};
  numerics::run(Attention{bench.matrix(0, 8), bench.matrix(0, 4), bench.matrix(0, 2), heads});
  numerics::run(Rotate{bench.matrix(0, 8), heads, 1e4, false});
  const Tensor table = bench.matrix(3, 2), gain = bench.vector(4);
  numerics::run(EmbedBackward{ids, bench.matrix(0, 2), table, false});
  CHECK(values(table) == std::vector<float>(6, 0.f));
  numerics::run(NormBackward{none_yet, gain, bench.matrix(0, 1), none_yet, none_yet, gain, {}, false});
  CHECK(values(gain) == std::vector<float>(4, 0.f));
  CHECK(bench.margins_untouched());
}

TEST_CASE("Adam on 16-bit parameters without a master leaves them rounded to their type") {
  for (Dtype type : {Dtype::bf16, Dtype::fp16}) {
    Workbench bench;
    const Tensor grad = bench.vector(33, type), w = bench.vector(33, type), m = bench.vector(33), v = bench.squares(33);
    const Tensor master = bench.vector(33), master_m = bench.vector(33), master_v = bench.vector(33);
    numerics::run(Copy{w, master});
    numerics::run(Copy{m, master_m});
    numerics::run(Copy{v, master_v});
    const auto before = values(w);
    numerics::run(Adam{grad, {}, {}, w, m, v, w, AdamRule{.lr = 0.05f}, 1.f, 3});
    numerics::run(Adam{grad, {}, {}, master, master_m, master_v, master, AdamRule{.lr = 0.05f}, 1.f, 3});
    const auto exact = values(master);
    check_equal(values(w), {exact.begin(), exact.end()}, type);
    CHECK(values(w) != before);
  }
}

TEST_CASE("whole numbers are not rounded: token ids and masks") {
  for (Dtype type : {Dtype::int64, Dtype::uint8}) {
    CHECK(numerics::rounded(type, 50257.f) == 50257.f);
    Workbench bench;
    const Tensor from = bench.vector({50257.f, 3.f}, Dtype::int64), to = bench.vector(2, type);
    numerics::run(Copy{from, to});
    CHECK(values(to) == std::vector<float>{50257.f, 3.f});
  }
}
