// How long the ops of a thin GPT-2 block take on the host, forward and backward, and how long bare Eigen takes for its products.
#include "block_arithmetic.h"

#include <cstdio>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "measuring.h"
#include "numerics/host.h"

namespace shardsim {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// One block of width `hidden` on `tokens` tokens in sequences of `sequence`, then a head over 256 tokens: forward, then backward.
class Block {
 public:
  Block(std::int64_t hidden, std::int64_t tokens, std::int64_t sequence, Dtype type) : type_(type) {
    const std::int64_t d = hidden, t = tokens, vocab = 256;
    const Heads heads{dim(4), dim(4), dim(sequence)};
    const Tensor x = make(t, d), normed = make(t, d), qkv = make(t, 3 * d), seen = make(t, d), ffn = make(t, 4 * d);
    const Tensor active = make(t, 4 * d), gain = make(1, d), bias = make(1, d), dgain = make(1, d), dbias = make(1, d);
    const Tensor stats = make(t, 2, Dtype::fp32), lse = make(t, 4, Dtype::fp32), dx = make(t, d), dseen = make(t, d);
    const Tensor dqkv = make(t, 3 * d), dffn = make(t, 4 * d), logits = make(t, vocab), loss = make(1, 1, Dtype::fp32);
    const Tensor targets = make(1, t, Dtype::int64);
    std::fill_n(numerics::data(targets), t, 3.f);
    struct Linear {
      Tensor w, b, dw, db, in, out, din, dout;
    };
    auto linear = [&](Tensor in, Tensor out, Tensor din, Tensor dout, std::int64_t n, std::int64_t m) {
      return Linear{make(n, m), make(1, m), make(n, m), make(1, m), in, out, din, dout};
    };
    const Linear all[] = {linear(normed, qkv, dx, dqkv, d, 3 * d), linear(seen, normed, dseen, dx, d, d),
                          linear(normed, ffn, dx, dffn, d, 4 * d), linear(active, normed, dffn, dx, 4 * d, d)};
    auto forward = [&](const Linear& l) { ops.push_back(Matmul{l.in, l.w, l.out, false, false, false, l.b}); };
    auto backward = [&](const Linear& l) {
      ops.push_back(Matmul{l.in, l.dout, l.dw, true, false, false});
      ops.push_back(SumRows{l.dout, l.db, false});
      ops.push_back(Matmul{l.dout, l.w, l.din, false, true, false});
    };
    const Norm norm{x, gain, bias, normed, stats, 1e-5f};
    const NormBackward norm_backward{x, gain, stats, dseen, dx, dgain, dbias, false};
    ops.push_back(norm);
    forward(all[0]);
    ops.push_back(Attention{qkv, seen, lse, heads});
    forward(all[1]);
    ops.push_back(Add{normed, seen});
    ops.push_back(norm);
    forward(all[2]);
    ops.push_back(Gelu{ffn, active});
    forward(all[3]);
    ops.push_back(Add{normed, seen});
    const Tensor embedding = make(vocab, d), dembedding = make(vocab, d);
    ops.push_back(Matmul{normed, embedding, logits, false, true, false});
    ops.push_back(CrossEntropy{logits, targets, logits, loss, {}, 1});
    ops.push_back(Matmul{logits, normed, dembedding, true, false, false});
    ops.push_back(Matmul{logits, embedding, dx, false, false, false});
    backward(all[3]);
    ops.push_back(GeluBackward{ffn, dffn});
    backward(all[2]);
    ops.push_back(norm_backward);
    ops.push_back(Add{dx, dseen});
    backward(all[1]);
    ops.push_back(AttentionBackward{qkv, seen, lse, dseen, dqkv, heads});
    backward(all[0]);
    ops.push_back(norm_backward);
    ops.push_back(Add{dx, dseen});
  }
  ~Block() {
    for (Storage& storage : storages_) numerics::release(storage.at);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::vector<Op> ops;

 private:
  static Dim dim(std::int64_t n) { return {n, n}; }
  Tensor make(std::int64_t rows, std::int64_t cols) { return make(rows, cols, type_); }
  Tensor make(std::int64_t rows, std::int64_t cols, Dtype type) {
    Storage& storage = storages_.emplace_back();
    storage.count = dim(rows * cols);
    storage.dtype = type;
    storage.at = numerics::allocate(storage.count);
    const Tensor tensor{&storage, 0, none, dim(rows), dim(cols)};
    for (std::int64_t i = 0; i < rows * cols; ++i)
      numerics::data(tensor)[i] = numerics::rounded(type, float(int(random_() % 2001) - 1000) / 8000);
    return tensor;
  }
  Dtype type_;
  std::minstd_rand random_;
  std::deque<Storage> storages_;
};

/// The best time of every part, over passes through all of them: each finds the caches as the ones before left them.
template <class Parts, class Run>
std::vector<double> best_of_each(Parts& parts, Run run) {
  std::vector<double> best(parts.size(), 1e30);
  const Clock::time_point begin = Clock::now();
  for (int pass = 0; pass < 5 || since(begin) < 1; ++pass)
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Clock::time_point start = Clock::now();
      run(parts[i]);
      best[i] = std::min(best[i], since(start));
    }
  return best;
}

void measure(std::int64_t hidden, std::int64_t tokens, std::int64_t sequence, Dtype type, bool in_detail,
             const BareProduct& bare_product) {
  numerics::fix_blocking();
  Block block(hidden, tokens, sequence, type);
  std::vector<std::function<void()>> bare;
  for (const Op& op : block.ops)
    if (const Matmul* product = std::get_if<Matmul>(&op)) bare.push_back(bare_product(*product));
  double eigen = 0, total = 0;
  for (double seconds : best_of_each(bare, [](const auto& product) { product(); })) eigen += seconds;
  const std::vector<double> seconds = best_of_each(block.ops, [](const Op& op) { numerics::run(op); });
  std::map<std::string, double> by_name;
  for (std::size_t i = 0; i < seconds.size(); ++i) by_name[name_of(block.ops[i])] += seconds[i], total += seconds[i];
  const double products = by_name["matmul"], attention = by_name["attention"] + by_name["attention_backward"];
  std::printf("%6ld %6ld %8ld %-5s %10.0f %12.0f %12.2f %12.0f %10.0f %10.0f\n", long(hidden), long(tokens), long(sequence),
              name_of(type), 1e6 * eigen, 1e6 * products, eigen / products, 1e6 * attention, 1e6 * (total - products - attention),
              1e6 * total);
  if (!in_detail) return;
  for (const auto& [name, all] : by_name) std::printf("    %-20s %10.1f us\n", name.c_str(), 1e6 * all);
}

}  // namespace

void block_arithmetic(const BareProduct& bare_product) {
  std::printf(
      "\nhost arithmetic of a GPT-2 block and its head, forward and backward, one thread: 4 heads, 256 tokens; microseconds\n");
  std::printf("%6s %6s %8s %-5s %10s %12s %12s %12s %10s %10s\n", "hidden", "tokens", "sequence", "type", "Eigen", "products",
              "Eigen / ops", "attention", "rest", "block");
  for (Dtype type : {Dtype::fp32, Dtype::bf16})
    for (std::int64_t hidden : {32, 64, 128})
      for (std::int64_t tokens : {128, 512}) measure(hidden, tokens, 128, type, hidden == 64 && tokens == 512, bare_product);
}

}  // namespace shardsim
