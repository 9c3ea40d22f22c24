// Measuring for the benchmark: CPU seconds and memory of a process of its own, and the best time of a call.
#pragma once
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <vector>

namespace shardsim {

struct Measured {
  double cpu_seconds, mebibytes, answer;
};

/// Runs f in a forked process; its result comes back through a pipe.
inline Measured in_a_process(const std::function<double()>& f) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    int status = 1;
    try {
      const double answer = f();
      status = write(ends[1], &answer, sizeof answer) == sizeof answer ? 0 : 1;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "bench: %s\n", error.what());
    }
    _exit(status);
  }
  close(ends[1]);
  Measured measured{};
  const bool answered = read(ends[0], &measured.answer, sizeof measured.answer) == sizeof measured.answer;
  close(ends[0]);
  int status = 0;
  rusage used{};
  wait4(child, &status, 0, &used);
  if (!answered || status != 0) std::exit(1);
  auto seconds = [](const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  measured.cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
  measured.mebibytes = double(used.ru_maxrss) / 1024;
  return measured;
}

/// CPU seconds of one more repetition: the difference of a long and a short run, without set-up; the median of three.
inline Measured per_repetition(int more, const std::function<double(int)>& f) {
  std::vector<Measured> all;
  for (int i = 0; i < 3; ++i) {
    const Measured once = in_a_process([&] { return f(1); });
    Measured many = in_a_process([&] { return f(1 + more); });
    many.cpu_seconds = std::max(0.0, many.cpu_seconds - once.cpu_seconds) / more;
    many.answer = (many.answer - once.answer) / more;
    all.push_back(many);
  }
  std::sort(all.begin(), all.end(), [](const Measured& a, const Measured& b) { return a.cpu_seconds < b.cpu_seconds; });
  return all[1];
}

/// Best seconds of one call, over half a second.
inline double best_seconds(const std::function<void()>& f) {
  using Clock = std::chrono::steady_clock;
  double best = 1e30, total = 0;
  for (int i = 0; i < 3 || total < 0.5; ++i) {
    const auto begin = Clock::now();
    f();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::min(best, seconds), total += seconds;
  }
  return best;
}

}  // namespace shardsim
