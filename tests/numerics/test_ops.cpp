// Every op against a plain restatement in double precision.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <limits>

#include "numerics/close.h"

using namespace shardsim;
using namespace shardsim::numerics_tests;

TEST_CASE("a matrix product is the sum of products, with either side transposed, alone or added") {
  numerics::fix_blocking();
  for (Dtype type : types)
    for (std::int64_t m : sizes)
      for (std::int64_t n : sizes)
        for (std::int64_t k : {1, 5, 33})
          for (int how = 0; how < 8; ++how) {
            const bool ta = how & 1, tb = how & 2, accumulate = how & 4;
            CAPTURE(m);
            CAPTURE(n);
            CAPTURE(k);
            CAPTURE(how);
            Workbench bench(3);
            const Tensor a = ta ? bench.matrix(k, m, type) : bench.matrix(m, k, type);
            const Tensor b = tb ? bench.matrix(n, k, type) : bench.matrix(k, n, type);
            const Tensor out = bench.matrix(m, n, type);
            const auto x = values(a), y = values(b), before = values(out);
            std::vector<double> expected;
            for (std::int64_t i = 0; i < m; ++i)
              for (std::int64_t j = 0; j < n; ++j) {
                double sum = 0;
                for (std::int64_t p = 0; p < k; ++p)
                  sum += double(ta ? x[p * m + i] : x[i * k + p]) * (tb ? y[j * k + p] : y[p * n + j]);
                expected.push_back(accumulate ? before[i * n + j] + sum : sum);
              }
            numerics::run(Matmul{a, b, out, ta, tb, accumulate});
            check_close(values(out), expected, type, std::sqrt(double(k)), accumulate);
            CHECK(bench.margins_untouched());
          }
}

TEST_CASE("a bias is added to every row") {
  for_all([](Dtype type, std::int64_t n) {
    Workbench bench(1);
    const Tensor bias = bench.vector(n, type), x = bench.matrix(3, n, type);
    const auto b = values(bias), before = values(x);
    std::vector<double> expected;
    for (std::int64_t i = 0; i < 3 * n; ++i) expected.push_back(double(before[i]) + b[i % n]);
    numerics::run(AddBias{bias, x});
    check_equal(values(x), expected, type);
    CHECK(bench.margins_untouched());
  });
}

TEST_CASE("rows are summed, alone or added to what is there") {
  for_all([](Dtype type, std::int64_t n) {
    for (bool accumulate : {false, true})
      for (std::int64_t rows : {0, 1, 7}) {
        Workbench bench(2);
        const Tensor x = bench.matrix(rows, n, type), out = bench.vector(n, type);
        const auto all = values(x), before = values(out);
        std::vector<double> expected;
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = accumulate ? before[j] : 0;
          for (std::int64_t i = 0; i < rows; ++i) sum += all[i * n + j];
          expected.push_back(sum);
        }
        numerics::run(SumRows{x, out, accumulate});
        check_close(values(out), expected, type, 1, accumulate);
        CHECK(bench.margins_untouched());
      }
  });
}

TEST_CASE("what is accumulated is what would have been stored: the same bits as storing and then adding") {
  for_all([](Dtype type, std::int64_t n) {
    Workbench bench(8);
    const Tensor a = bench.matrix(n, 9, type), b = bench.matrix(9, n, type), x = bench.matrix(7, n, type);
    const Tensor product = bench.matrix(n, n, type), stored_product = bench.matrix(n, n, type), added = bench.matrix(n, n, type);
    numerics::run(Copy{product, added});
    numerics::run(Matmul{a, b, product, false, false, true});
    numerics::run(Matmul{a, b, stored_product, false, false, false});
    numerics::run(Add{stored_product, added});
    CHECK(values(product) == values(added));
    const Tensor sum = bench.vector(n, type), stored_sum = bench.vector(n, type), sum_added = bench.vector(n, type);
    numerics::run(Copy{sum, sum_added});
    numerics::run(SumRows{x, sum, true});
    numerics::run(SumRows{x, stored_sum, false});
    numerics::run(Add{stored_sum, sum_added});
    CHECK(values(sum) == values(sum_added));
  });
}

TEST_CASE("tanh and its gradient") {
  for_all([](Dtype type, std::int64_t n) {
    Workbench bench(5);
    const Tensor x = bench.vector(n, type), y = bench.vector(n, type), dy = bench.vector(n, type);
    const auto in = values(x), slope = values(dy);
    std::vector<double> out, gradient;
    for (float v : in) out.push_back(std::tanh(double(v)));
    numerics::run(Tanh{x, y});
    check_close(values(y), out, type);
    const auto stored = values(y);
    for (std::int64_t i = 0; i < n; ++i) gradient.push_back(slope[i] * (1 - double(stored[i]) * stored[i]));
    numerics::run(TanhBackward{y, dy});
    check_close(values(dy), gradient, type);
    numerics::run(Tanh{x, x});  // in place
    CHECK(values(x) == stored);
    CHECK(bench.margins_untouched());
  });
}

TEST_CASE("the loss is the mean square over micro-batches, and its gradient does not divide by them") {
  for_all([](Dtype type, std::int64_t n) {
    Workbench bench(4);
    const Tensor pred = bench.matrix(1, n, type), target = bench.matrix(1, n, type), dpred = bench.matrix(1, n, type);
    const Tensor loss = bench.vector(std::vector<float>{0.5f});
    const auto p = values(pred), t = values(target);
    double sum = 0;
    std::vector<double> gradient;
    for (std::int64_t i = 0; i < n; ++i) {
      sum += (double(p[i]) - t[i]) * (double(p[i]) - t[i]);
      gradient.push_back(2 * (double(p[i]) - t[i]) / double(n));
    }
    numerics::run(MseLoss{pred, target, dpred, loss, {}, 3});
    check_close(values(loss), {n ? 0.5 + sum / double(n) / 3 : 0.5}, Dtype::fp32);
    check_close(values(dpred), gradient, type);
    CHECK(bench.margins_untouched());
  });
}

TEST_CASE("a copy converts to the type of its target") {
  for (Dtype from : types)
    for_all([from](Dtype to, std::int64_t n) {
      Workbench bench(7);
      const Tensor x = bench.vector(n, from), y = bench.vector(n, to);
      std::vector<double> expected;
      for (float v : values(x)) expected.push_back(v);
      numerics::run(Copy{x, y});
      check_equal(values(y), expected, to);
      CHECK(bench.margins_untouched());
    });
}

TEST_CASE("chunks go to their places in a flat buffer, multiplied and rounded, and come back as they are") {
  for (Dtype type : types) {
    Workbench bench(7);
    const Tensor whole = bench.vector(5), back = bench.vector(5), flat = bench.vector(9, type);
    const std::vector<float> before = values(flat), from = values(whole);
    const std::vector<Chunk> three{{dim(0), dim(6), dim(2)}, {dim(2), dim(1), dim(3)}, {dim(5), dim(9), dim(0)}};
    const Chunks chunks = shared(three);
    numerics::run(ChunkCopy{flat, whole, chunks, true, 0.5, false});
    std::vector<double> expected(before.begin(), before.end());
    for (const auto& [to, i] : std::vector<std::pair<int, int>>{{6, 0}, {7, 1}, {1, 2}, {2, 3}, {3, 4}})
      expected[std::size_t(to)] = 0.5 * double(from[std::size_t(i)]);
    check_equal(values(flat), expected, type);
    numerics::run(ChunkCopy{flat, back, chunks, false, 0.5, true});
    const std::vector<float> sent = values(flat);
    CHECK(values(back) == std::vector<float>{sent[6], sent[7], sent[1], sent[2], sent[3]});
    CHECK(bench.margins_untouched());
  }
}

TEST_CASE(
    "numbers are quantized to 8 bits group by group: the largest becomes 127 or -128, and none is off by more than its scale") {
  Workbench bench(3);
  const Tensor x = bench.vector({1, -0.5f, 0.25f, 0.126f, -64, 32.2f, 0.25f, 63.9f, 0, 0, 0, 0}, Dtype::fp32);
  const Tensor q = bench.vector(12, Dtype::int8), scales = bench.vector(12), back = bench.vector(12);
  numerics::run(Quantize{x, q, scales.slice(dim(0), Dim(3, 12))});
  CHECK(values(q) == std::vector<float>{127, -64, 32, 16, -128, 64, 0, 127, 0, 0, 0, 0});
  CHECK(values(scales) == std::vector<float>{1 / 128.f, 1 / 128.f, 1 / 128.f, 1 / 128.f, 0.5f, 0.5f, 0.5f, 0.5f, 1, 1, 1, 1});
  numerics::run(Dequantize{q, scales, back});
  CHECK(values(back) == std::vector<float>{127 / 128.f, -0.5f, 0.25f, 0.125f, -64, 32, 0, 63.5f, 0, 0, 0, 0});
  CHECK(bench.margins_untouched());
}

TEST_CASE("numbers of 4 bits are -8 to 7 of a group's scale, and parts are summed before they are quantized again") {
  Workbench bench(4);
  const Tensor x = bench.vector({8, -4, 1, 0.4f, -16, 5, 2.9f, 0}, Dtype::fp32);
  const Tensor q = bench.vector(8, Dtype::int8), scales = bench.vector(8);
  numerics::run(Quantize{x, q, scales.slice(dim(0), Dim(2, 8)), 4});
  CHECK(values(q) == std::vector<float>{7, -4, 1, 0, -8, 2, 1, 0});
  CHECK(values(scales) == std::vector<float>{1, 1, 1, 1, 2, 2, 2, 2});
  // 7 - 16, -4 + 4, 1 + 2, 0: the largest is 9, a scale 9 / 8.
  const Tensor sum = bench.vector(4, Dtype::int8), sum_scales = bench.vector(4);
  numerics::run(SumQuantized{q, scales, sum, sum_scales.slice(dim(0), Dim(1, 4)), 2, 4});
  CHECK(values(sum) == std::vector<float>{-8, 0, 3, 0});
  CHECK(values(sum_scales) == std::vector<float>(4, 9 / 8.f));
  CHECK(bench.margins_untouched());
}

TEST_CASE("a dropout drops its share, by its key and each element's position, and scales what is left") {
  Workbench bench(7);
  const std::int64_t n = 10000;
  const Tensor x = bench.vector(std::vector<float>(n, 3.f)), mask = bench.vector(n, Dtype::uint8), y = bench.vector(n);
  numerics::run(Dropout{x, mask, y, 0.25, 42});
  const std::vector<float> drawn = values(mask);
  const double left = std::accumulate(drawn.begin(), drawn.end(), 0.0);
  CHECK(std::abs(left - 7500) < 4 * std::sqrt(n * 0.25 * 0.75));
  for (std::int64_t i = 0; i < n; ++i) CHECK(values(y)[std::size_t(i)] == (drawn[std::size_t(i)] == 1 ? 4.f : 0.f));
  numerics::run(Dropout{x, mask, y, 0.25, 42});
  CHECK(values(mask) == drawn);
  numerics::run(Dropout{x, mask, y, 0.25, 43});
  CHECK(values(mask) != drawn);
  CHECK(bench.margins_untouched());
}

TEST_CASE("a sum of two vectors and a fill are rounded to the type") {
  for_all([](Dtype type, std::int64_t n) {
    Workbench bench(6);
    const Tensor x = bench.vector(n, type), y = bench.vector(n, type);
    const auto a = values(x), b = values(y);
    std::vector<double> expected;
    for (std::int64_t i = 0; i < n; ++i) expected.push_back(double(a[i]) + b[i]);
    numerics::run(Add{x, y});
    check_equal(values(y), expected, type);
    numerics::run(Fill{y, 0.1f});
    check_equal(values(y), std::vector<double>(std::size_t(n), double(0.1f)), type);
    CHECK(bench.margins_untouched());
  });
}

TEST_CASE("squares are summed on top of what is there") {
  for_all([](Dtype type, std::int64_t n) {
    Workbench bench(9);
    const Tensor x = bench.vector(n, type), out = bench.vector(std::vector<float>{2.f});
    double sum = 2;
    for (float v : values(x)) sum += double(v) * v;
    numerics::run(SumSquares{x, out});
    check_close(values(out), {sum}, Dtype::fp32, double(n));
  });
}

TEST_CASE("the clip factor brings the norm to its limit, and leaves smaller norms alone") {
  Workbench bench;
  const Tensor squares = bench.vector({9.f, 16.f, 0.f, 0.f}), factor = bench.vector(2);
  numerics::run(ClipFactor{squares, factor, {}, 2.5f, 1.f, LossScale{}});  // norm 5
  CHECK(values(factor) == std::vector<float>{0.5f, 0.f});
  numerics::run(ClipFactor{squares, factor, {}, 2.5f, 0.25f, LossScale{}});  // norm 1.25
  CHECK(values(factor) == std::vector<float>{1.f, 0.f});
  numerics::run(ClipFactor{squares, factor, {}, 5.f, 1.f, LossScale{}});  // exactly at the limit
  CHECK(values(factor) == std::vector<float>{1.f, 0.f});
}

TEST_CASE("the squares of a norm are summed from member 1 around to member 0, as the ring sums chunk 0") {
  Workbench bench;
  // In fp32, 2^24 + 1 + 1 = 2^24, but 1 + 1 + 2^24 = 2^24 + 2.
  const float big = 1 << 24;
  const Tensor factor = bench.vector(2);
  numerics::run(ClipFactor{bench.vector({big, 1.f, 1.f}), factor, {}, 1.f, 1.f, LossScale{}});
  CHECK(values(factor) == std::vector<float>{1.f / std::sqrt(big + 2.f), 0.f});
  numerics::run(ClipFactor{bench.vector({1.f, big, 1.f}), factor, {}, 1.f, 1.f, LossScale{}});
  CHECK(values(factor) == std::vector<float>{1.f / std::sqrt(big), 0.f});
}

TEST_CASE("Adam moves as its formula says: moments, bias correction, eps outside the root, both decays, the factor") {
  for (std::int64_t n : sizes)
    for (Dtype type : types)
      for (int how = 0; how < 8; ++how)
        for (int t : {1, 10}) {
          CAPTURE(n);
          CAPTURE(how);
          CAPTURE(t);
          AdamRule rule{1e-2f, 0.9f, 0.99f, 1e-4f, how & 1 ? 0.1f : 0.f, (how & 2) != 0};
          Workbench bench(11);
          const Tensor grad = bench.vector(n, type), master = bench.vector(n), m = bench.vector(n), v = bench.squares(n);
          const Tensor param = type == Dtype::fp32 ? master : bench.vector(n, type);
          const Tensor factor = how & 4 ? bench.vector(std::vector<float>{0.5f, 0.f}) : Tensor{};
          const auto g0 = values(grad), w0 = values(master), m0 = values(m), v0 = values(v);
          std::vector<double> w, moment, second;
          for (std::int64_t i = 0; i < n; ++i) {
            double g = g0[i] * 0.25 * (how & 4 ? 0.5 : 1.0);
            if (!rule.decoupled) g += double(rule.weight_decay) * w0[i];
            moment.push_back(rule.beta1 * double(m0[i]) + (1 - double(rule.beta1)) * g);
            second.push_back(rule.beta2 * double(v0[i]) + (1 - double(rule.beta2)) * g * g);
            double next = w0[i];
            if (rule.decoupled) next -= double(rule.lr) * rule.weight_decay * w0[i];
            const double first = moment.back() / (1 - std::pow(double(rule.beta1), t));
            const double root = std::sqrt(second.back() / (1 - std::pow(double(rule.beta2), t)));
            w.push_back(next - rule.lr * first / (root + rule.eps));
          }
          numerics::run(Adam{grad, factor, {}, master, m, v, param, rule, 0.25f, t});
          check_close(values(m), moment, Dtype::fp32);
          check_close(values(v), second, Dtype::fp32);
          check_close(values(master), w, Dtype::fp32, 4);
          const auto stored = values(master);
          check_equal(values(param), {stored.begin(), stored.end()}, type);
          CHECK(bench.margins_untouched());
        }
}

TEST_CASE("the scaler's gradient is scaled, and divided out again before the norm meets its limit") {
  Workbench bench;
  const Tensor pred = bench.vector({1.f, 3.f}), target = bench.vector({0.f, 0.f}), dpred = bench.vector(2);
  const Tensor loss = bench.vector(std::vector<float>{0.f}), scaler = bench.vector({8.f, 0.f, 0.f}), factor = bench.vector(2);
  numerics::run(MseLoss{pred, target, dpred, loss, scaler, 1});
  CHECK(values(dpred) == std::vector<float>{8.f, 24.f});  // 2 (pred - target) / 2, times 8
  CHECK(values(loss) == std::vector<float>{5.f});         // the loss itself is not scaled
  const LossScale fixed{.on = true, .dynamic = false, .initial = 8.f};
  numerics::run(ClipFactor{bench.vector({64.f * 9.f, 64.f * 16.f}), factor, scaler, 2.5f, 1.f, fixed});
  CHECK(values(factor) == std::vector<float>{0.5f / 8.f, 0.f});  // the norm is 5 without the scale
  CHECK(values(scaler) == std::vector<float>{8.f, 1.f, 1.f});
}

TEST_CASE("a dynamic scaler halves its scale and skips where a sum is not finite, and doubles after its interval") {
  Workbench bench;
  const float infinity = std::numeric_limits<float>::infinity();
  const LossScale dynamic{.on = true, .dynamic = true, .initial = 8.f, .growth_interval = 2};
  const Tensor scaler = bench.vector({8.f, 1.f, 5.f}), factor = bench.vector(2);
  numerics::run(ClipFactor{bench.vector({1.f, infinity}), factor, scaler, 0.f, 1.f, dynamic});
  CHECK(values(factor)[1] == 1.f);
  CHECK(values(scaler) == std::vector<float>{4.f, 0.f, 5.f});  // no update
  auto number = [&](float x) { return bench.vector(std::vector<float>{x}); };
  const Tensor grad = number(1), w = number(2), m = number(3), v = number(4);
  numerics::run(Adam{grad, factor, scaler, w, m, v, w, AdamRule{}, 1.f, 9});
  CHECK(values(w) == std::vector<float>{2.f});
  CHECK(values(m) == std::vector<float>{3.f});
  for (float expected : {4.f, 8.f}) {  // two good steps
    numerics::run(ClipFactor{bench.vector({1.f, 1.f}), factor, scaler, 0.f, 1.f, dynamic});
    CHECK(values(scaler)[0] == expected);
    CHECK(values(factor)[1] == 0.f);
  }
  CHECK(values(scaler)[2] == 7.f);
}

TEST_CASE("fp16 rounds to nearest even, overflows to infinity above 65504 and keeps NaN") {
  CHECK(numerics::to_fp16(65504.f) == 65504.f);
  CHECK(numerics::to_fp16(65519.f) == 65504.f);
  CHECK(std::isinf(numerics::to_fp16(65520.f)));
  CHECK(numerics::to_fp16(2049.f) == 2048.f);  // a tie: to even
  CHECK(numerics::to_fp16(2051.f) == 2052.f);
  CHECK(numerics::to_fp16(5.9604645e-8f) == 5.9604645e-8f);  // the smallest denormal
  CHECK(numerics::to_fp16(2.9e-8f) == 0.f);
  CHECK(std::isnan(numerics::to_fp16(std::numeric_limits<float>::quiet_NaN())));
}
