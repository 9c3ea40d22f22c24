// Ctrl-C, and what else asks a program to end: seen by all who work, and obeyed when it comes a second time.
#include <unistd.h>

#include <csignal>
#include <ctime>

#include "app/run.h"

namespace shardsim {
namespace {

// A signal handler has nowhere else to write.
volatile std::sig_atomic_t interrupt_seen = 0;
volatile double interrupted_at = 0;

}  // namespace

void catch_interrupts(bool ends_on_second) {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupt_seen = 1; };
  if (ends_on_second)
    action.sa_handler = [](int) {
      // One press may arrive twice, from the terminal and from a parent that passes it on: half a second tells two presses apart.
      timespec now{};
      clock_gettime(CLOCK_MONOTONIC, &now);
      const double seconds = double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
      if (interrupt_seen && seconds - interrupted_at > 0.5) _exit(130);
      if (!interrupt_seen) interrupted_at = seconds;
      interrupt_seen = 1;
    };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (signal == SIGHUP && before.sa_handler == SIG_IGN) continue;  // nohup: it is to outlive its terminal
    sigaction(signal, &action, nullptr);
  }
}

bool interrupted() { return interrupt_seen != 0; }

}  // namespace shardsim
