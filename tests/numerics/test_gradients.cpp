// Every op's backward against central differences in double precision, over shapes that include 1.
#include <doctest/doctest.h>

#include "numerics/differences.h"

using namespace shardsim;
using namespace shardsim::numerics_tests;

namespace {

constexpr double limit = 1e-7;  // of the largest gradient

/// y = f(x) element by element, with a backward that is in place.
void check_elementwise(const std::function<Op(Tensor x, Tensor y)>& forward,
                       const std::function<Op(Tensor x, Tensor y, Tensor dy)>& backward) {
  for (std::int64_t n : {1, 2, 33}) {
    Bench bench(1);
    const Tensor x = bench.vector(n), y = bench.vector(n), dy = bench.vector(n), dx = copy_of(bench, dy);
    for (int i = 0; i < n; ++i) numerics::data<double>(x)[i] *= 3;
    compute(forward(x, y));
    compute(backward(x, y, dx));
    CHECK(worst_gradient([&] { compute(forward(x, y)); }, {{y, dy}}, {{x, dx}}) < limit);
  }
}

}  // namespace

TEST_CASE("the check itself notices a gradient that is wrong by a millionth, and one that is not a number") {
  Bench bench;
  const Tensor x = bench.vector(5), y = bench.vector(5), dy = bench.vector(5), dx = copy_of(bench, dy);
  auto forward = [&] { compute(Cube{x, y}); };
  compute(CubeBackward{x, dx});
  CHECK(worst_gradient(forward, {{y, dy}}, {{x, dx}}) < limit);
  double* gradient = numerics::data<double>(dx);
  gradient[3] += 1e-6;
  CHECK(worst_gradient(forward, {{y, dy}}, {{x, dx}}) > limit);
  gradient[3] = std::numeric_limits<double>::quiet_NaN();
  CHECK(!(worst_gradient(forward, {{y, dy}}, {{x, dx}}) < limit));
}

TEST_CASE("gradients element by element: tanh, GELU, SiLU, cube, scale") {
  check_elementwise([](Tensor x, Tensor y) { return Tanh{x, y}; }, [](Tensor, Tensor y, Tensor dy) { return TanhBackward{y, dy}; });
  check_elementwise([](Tensor x, Tensor y) { return Gelu{x, y}; }, [](Tensor x, Tensor, Tensor dy) { return GeluBackward{x, dy}; });
  check_elementwise([](Tensor x, Tensor y) { return Silu{x, y}; }, [](Tensor x, Tensor, Tensor dy) { return SiluBackward{x, dy}; });
  check_elementwise([](Tensor x, Tensor y) { return Cube{x, y}; }, [](Tensor x, Tensor, Tensor dy) { return CubeBackward{x, dy}; });
  check_elementwise(
      [](Tensor x, Tensor y) {
        return Scale{x, y, 0.3, -2.0};
      },
      [](Tensor, Tensor, Tensor dy) {
        return Scale{dy, dy, 0.3, 0.0};
      });
}

TEST_CASE("gradients of a product of two vectors, and of a gated SiLU") {
  for (std::int64_t n : {1, 19}) {
    Bench bench(2);
    const Tensor a = bench.vector(n), b = bench.vector(n), y = bench.vector(n), dy = bench.vector(n);
    const Tensor da = bench.vector(n), db = bench.vector(n);
    compute(Multiply{dy, b, da});
    compute(Multiply{dy, a, db});
    CHECK(worst_gradient([&] { compute(Multiply{a, b, y}); }, {{y, dy}}, {{a, da}, {b, db}}) < limit);
    compute(SwiGluBackward{a, b, dy, da, db});
    CHECK(worst_gradient([&] { compute(SwiGlu{a, b, y}); }, {{y, dy}}, {{a, da}, {b, db}}) < limit);
  }
}

TEST_CASE("gradients of a matrix product with a bias, with either side transposed, alone or added") {
  for (std::int64_t m : {1, 5})
    for (std::int64_t n : {1, 4})
      for (std::int64_t k : {1, 7})
        for (int how = 0; how < 8; ++how) {
          const bool ta = how & 1, tb = how & 2, accumulate = how & 4;
          CAPTURE(how);
          Bench bench(3);
          const Tensor a = ta ? bench.matrix(k, m) : bench.matrix(m, k), b = tb ? bench.matrix(n, k) : bench.matrix(k, n);
          const Tensor bias = bench.vector(n), before = bench.matrix(m, n), y = bench.matrix(m, n), dy = bench.matrix(m, n);
          const Tensor da = bench.matrix(Real::of(a.rows), Real::of(a.cols)), db = bench.matrix(Real::of(b.rows), Real::of(b.cols));
          const Tensor dbias = bench.vector(n);
          if (ta) compute(Matmul{b, dy, da, tb, true, false});  // (da)' = dy b'
          else compute(Matmul{dy, b, da, false, !tb, false});
          if (tb) compute(Matmul{dy, a, db, true, ta, false});
          else compute(Matmul{a, dy, db, !ta, false, false});
          compute(SumRows{dy, dbias, false});
          auto forward = [&] {
            compute(Copy{before, y});
            compute(Matmul{a, b, y, ta, tb, accumulate, bias});
          };
          CHECK(worst_gradient(forward, {{y, dy}}, {{a, da}, {b, db}, {bias, dbias}}) < limit);
          if (accumulate) CHECK(worst_gradient(forward, {{y, dy}}, {{before, dy}}) < limit);
        }
}

TEST_CASE("gradients of a batch of matrix products, with either side transposed, divided by a root") {
  for (std::int64_t batch : {1, 3})
    for (std::int64_t m : {1, 4})
      for (int how = 0; how < 4; ++how) {
        const bool ta = how & 1, tb = how & 2;
        constexpr std::int64_t n = 5, k = 2;
        CAPTURE(how);
        Bench bench(4);
        auto stack = [&](std::int64_t rows, std::int64_t cols) { return bench.matrix(batch * rows, cols); };
        const Tensor a = ta ? stack(k, m) : stack(m, k), b = tb ? stack(n, k) : stack(k, n);
        const Tensor y = stack(m, n), dy = stack(m, n), da = ta ? stack(k, m) : stack(m, k), db = tb ? stack(n, k) : stack(k, n);
        const Dim count = dim(batch), root = dim(7);
        if (ta) compute(BatchedMatmul{b, dy, da, count, root, tb, true});
        else compute(BatchedMatmul{dy, b, da, count, root, false, !tb});
        if (tb) compute(BatchedMatmul{dy, a, db, count, root, true, ta});
        else compute(BatchedMatmul{a, dy, db, count, root, !ta, false});
        auto forward = [&] { compute(BatchedMatmul{a, b, y, count, root, ta, tb}); };
        CHECK(worst_gradient(forward, {{y, dy}}, {{a, da}, {b, db}}) < limit);
      }
}

TEST_CASE("gradients of a bias with several rows are sums over the rows that it was added to") {
  for (std::int64_t period : {1, 2, 3})
    for (std::int64_t n : {1, 6}) {
      Bench bench(5);
      const Tensor bias = bench.matrix(period, n), x = bench.matrix(6, n), y = bench.matrix(6, n), dy = bench.matrix(6, n);
      const Tensor dbias = bench.matrix(period, n);
      compute(SumRows{dy, dbias, false});
      auto forward = [&] {
        compute(Copy{x, y});
        compute(AddBias{bias, y});
      };
      CHECK(worst_gradient(forward, {{y, dy}}, {{bias, dbias}, {x, dy}}) < limit);
    }
}

TEST_CASE("gradients of an embedding: rows that share a token are summed") {
  for (std::int64_t d : {1, 4}) {
    Bench bench(6);
    const Tensor ids = bench.vector({2, 0, 2, 2, 4}, Dtype::int64), table = bench.matrix(5, d), dtable = bench.matrix(5, d);
    const Tensor y = bench.matrix(5, d), dy = bench.matrix(5, d);
    compute(EmbedBackward{ids, dy, dtable, false});
    CHECK(worst_gradient([&] { compute(Embed{ids, table, y}); }, {{y, dy}}, {{table, dtable}}) < limit);
  }
}

TEST_CASE("gradients of both norms, through x, gain and bias") {
  for (bool centred : {false, true})
    for (std::int64_t rows : {1, 4})
      for (std::int64_t d : {1, 2, 21}) {
        CAPTURE(centred);
        CAPTURE(d);
        Bench bench(7);
        auto bias_like = [&] { return centred ? bench.vector(d) : Tensor{}; };
        const Tensor x = bench.matrix(rows, d), gain = bench.vector(d), bias = bias_like(), y = bench.matrix(rows, d);
        const Tensor stats = bench.matrix(rows, centred ? 2 : 1), dy = bench.matrix(rows, d), dx = bench.matrix(rows, d);
        const Tensor dgain = bench.vector(d), dbias = bias_like();
        auto forward = [&] { compute(Norm{x, gain, bias, y, stats, 1e-2f}); };
        forward();
        compute(NormBackward{x, gain, stats, dy, dx, dgain, dbias, false});
        std::vector<Checked> inputs{{x, dx}, {gain, dgain}};
        if (centred) inputs.push_back({bias, dbias});
        CHECK(worst_gradient(forward, {{y, dy}}, inputs) < limit);
      }
}

TEST_CASE("what a backward adds is what it would have written") {
  Bench bench(8);
  const Tensor ids = bench.vector({1, 1, 0}, Dtype::int64), x = bench.matrix(3, 4), dy = bench.matrix(3, 4),
               dx = bench.matrix(3, 4);
  const Tensor gain = bench.vector(4), stats = bench.matrix(3, 2), table = bench.matrix(2, 4), written = bench.matrix(2, 4);
  const Tensor dgain = bench.vector(4), dbias = bench.vector(4), written_gain = bench.vector(4), written_bias = bench.vector(4);
  auto check = [](const std::vector<double>& before, const Tensor& added, const Tensor& alone) {
    const auto sum = Bench::values(added), part = Bench::values(alone);
    for (std::size_t i = 0; i < sum.size(); ++i) CHECK(sum[i] == before[i] + part[i]);
  };
  const auto table_before = Bench::values(table), gain_before = Bench::values(dgain), bias_before = Bench::values(dbias);
  compute(EmbedBackward{ids, dy, table, true});
  compute(EmbedBackward{ids, dy, written, false});
  check(table_before, table, written);
  compute(NormBackward{x, gain, stats, dy, dx, dgain, dbias, true});
  compute(NormBackward{x, gain, stats, dy, dx, written_gain, written_bias, false});
  check(gain_before, dgain, written_gain);
  check(bias_before, dbias, written_bias);
}

TEST_CASE("gradients of a dropout: what was dropped has none, and the rest is scaled") {
  for (std::int64_t n : {1, 2, 33}) {
    Bench bench(12);
    const Tensor x = bench.vector(n), mask = bench.vector(n), y = bench.vector(n), dy = bench.vector(n), dx = bench.vector(n);
    auto dropout = [&] { compute(Dropout{x, mask, y, 0.4, 5}); };
    dropout();
    compute(DropoutBackward{dy, mask, dx, 0.4});
    CHECK(worst_gradient(dropout, {{y, dy}}, {{x, dx}}) < limit);
  }
}

TEST_CASE("gradients of a masked softmax and of a log softmax") {
  for (std::int64_t s : {1, 2, 18}) {
    CAPTURE(s);
    Bench bench(9);
    const Tensor mask = bench.matrix(s, s), x = bench.matrix(2 * s, s), y = bench.matrix(2 * s, s), dy = bench.matrix(2 * s, s);
    compute(CausalMask{mask});
    auto softmax = [&] { compute(MaskedSoftmax{x, mask, y}); };
    softmax();
    Tensor dx = copy_of(bench, dy);
    compute(SoftmaxBackward{y, dx});
    CHECK(worst_gradient(softmax, {{y, dy}}, {{x, dx}}) < limit);
    auto log_softmax = [&] { compute(LogSoftmax{x, y}); };
    log_softmax();
    compute(LogSoftmaxBackward{y, dy, dx});
    CHECK(worst_gradient(log_softmax, {{y, dy}}, {{x, dx}}) < limit);
  }
}

TEST_CASE("gradients of the losses: squares, fused cross entropy, and log softmax with its own loss") {
  for (std::int64_t tokens : {1, 5})
    for (std::int64_t classes : {1, 2, 19}) {
      Bench bench(10);
      const Tensor x = bench.matrix(tokens, classes), dx = bench.matrix(tokens, classes), loss = bench.vector(1);
      const Tensor above = bench.vector(std::vector<double>{1}), targets = bench.ids(tokens, classes);
      const Tensor other = bench.matrix(tokens, classes), logp = bench.matrix(tokens, classes),
                   dlogp = bench.matrix(tokens, classes);
      const Tensor unused = bench.matrix(tokens, classes);
      auto check = [&](const std::function<void(Tensor)>& run) {
        run(dx);
        auto forward = [&] {
          compute(Fill{loss, 0.f});
          run(unused);
        };
        CHECK(worst_gradient(forward, {{loss, above}}, {{x, dx}}) < limit);
      };
      check([&](Tensor gradient) { compute(MseLoss{x, other, gradient, loss, {}, 1}); });
      check([&](Tensor gradient) { compute(CrossEntropy{x, targets, gradient, loss, {}, 1}); });
      check([&](Tensor gradient) {
        compute(LogSoftmax{x, logp});
        compute(NllLoss{logp, targets, dlogp, loss, {}, 1});
        compute(LogSoftmaxBackward{logp, dlogp, gradient});
      });
    }
}
