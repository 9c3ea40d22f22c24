// Repeats a racing program until ThreadSanitizer has seen its race: other waits of a run may happen to order what races.
#pragma once
#include <atomic>

inline std::atomic<bool> reported = false;

/// ThreadSanitizer calls this with each of its reports.
extern "C" [[gnu::used]] inline void __tsan_on_report(void*) { reported = true; }

/// Runs a program that should be silent once, and one that misses an edge up to 1000 times.
template <class Program>
void until_reported(bool missing, const Program& program) {
  for (int i = 0; i < (missing ? 1000 : 1) && !reported; ++i) program();
}
