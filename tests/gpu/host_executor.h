// HostExecutor: carries out the card's kernels as plain loops on the host, on numbers at their types' own width.
#pragma once
#include <algorithm>
#include <barrier>
#include <cstdint>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "backends/cuda/executor.h"

namespace shardsim::gpu_tests {

/// Memory comes in lines, aligned as the card's is for whole words.
struct alignas(16) Line {
  char bytes[16];
};

/// Where the threads of a team meet.
class TeamMeeting {
 public:
  explicit TeamMeeting(int threads) : barrier_(threads), said_(std::size_t(threads)) {}
  int threads() const { return int(said_.size()); }
  void wait() { barrier_.arrive_and_wait(); }
  /// What all of them say, joined from the first to the last. A float is a double, too.
  template <class T, class Join>
  T joined(int lane, T x, Join join) {
    said_[std::size_t(lane)] = double(x);
    wait();
    T all = T(said_[0]);
    for (std::size_t i = 1; i < said_.size(); ++i) all = join(all, T(said_[i]));
    wait();
    return all;
  }

 private:
  std::barrier<> barrier_;
  std::vector<double> said_;
};

/// `threads` is that of a team; each is a thread of the host, so that ThreadSanitizer sees what a team does without meeting.
class HostExecutor {
 public:
  struct Team {
    TeamMeeting* meeting;
    int thread;
    std::int64_t lane() const { return thread; }
    std::int64_t size() const { return meeting->threads(); }
    template <class T>
    T sum(T x) const {
      return meeting->joined(thread, x, [](T a, T b) { return a + b; });
    }
    float max(float x) const {
      return meeting->joined(thread, x, [](float a, float b) { return b > a ? b : a; });
    }
    void sync() const { meeting->wait(); }
  };
  explicit HostExecutor(int threads = 1) : threads_(threads) {}

  template <class F>
  void each(std::int64_t n, F f) {
    for (std::int64_t i = n - 1; i >= 0; --i) f(i);  // any order must do
  }
  template <class F>
  void rows(std::int64_t n, std::int64_t, F f) {
    TeamMeeting meeting(threads_);
    const auto work = [&](int thread) {
      for (std::int64_t row = n - 1; row >= 0; --row) f(Team{&meeting, thread}, row);
    };
    std::vector<std::jthread> others;
    for (int thread = 1; thread < threads_; ++thread) others.emplace_back(work, thread);
    work(0);
  }
  void copy(const cuda::Numbers& from, const cuda::Numbers& to, std::int64_t n) {
    if (n > 0) std::memmove(to.at, from.at, std::size_t(n * bytes_of(to.type)));
  }
  void product(const cuda::Product& o) {
    for (std::int64_t one = 0; one < o.batch; ++one) {
      const cuda::Numbers a = o.a.from(one * o.a_step), b = o.b.from(one * o.b_step), out = o.out.from(one * o.out_step);
      for (std::int64_t i = 0; i < o.m; ++i)
        for (std::int64_t j = 0; j < o.n; ++j) {
          double sum = 0;
          for (std::int64_t l = 0; l < o.k; ++l)
            sum += double(a[o.ta ? l * o.m + i : i * o.k + l]) * double(b[o.tb ? j * o.k + l : l * o.n + j]);
          float x = o.scale * float(sum);
          if (o.bias) x += o.bias[j];
          if (o.accumulate) x += out[i * o.n + j];
          out.put(i * o.n + j, x);
        }
    }
  }
  cuda::Numbers scratch(std::int64_t n, Dtype type) {
    scratch_.emplace_back(std::size_t(n * bytes_of(type) / std::int64_t(sizeof(Line)) + 1));
    std::memset(scratch_.back().data(), 0xff, scratch_.back().size() * sizeof(Line));  // NaN in every type
    return {scratch_.back().data(), type, n};
  }
  std::int64_t parallel() const { return 64; }

 private:
  int threads_;
  std::deque<std::vector<Line>> scratch_;
};

}  // namespace shardsim::gpu_tests
