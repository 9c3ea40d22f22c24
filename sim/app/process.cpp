// Process: fork, a pipe for the answer, an unnamed file for messages.
#include "app/process.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <new>
#include <stdexcept>

namespace shardsim {
namespace {

std::string read_all(int descriptor) {
  std::string text;
  char buffer[1 << 16];
  for (ssize_t n; (n = read(descriptor, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR);)
    if (n > 0) text.append(buffer, std::size_t(n));
  return text;
}

/// The child's answer; looks after the child while there is none.
std::string read_answer(int descriptor, pid_t child, const Watch& watch, bool& hung) {
  using Clock = std::chrono::steady_clock;
  std::string text;
  char buffer[1 << 16];
  std::uint64_t last = 0;
  Clock::time_point since = Clock::now();
  for (;;) {
    pollfd ready{descriptor, POLLIN, 0};
    const int found = poll(&ready, 1, 100);
    if (found < 0 && errno == EINTR && watch.interrupted && watch.interrupted()) kill(child, SIGINT);
    if (watch.pulse && watch.pulse->load(std::memory_order_relaxed) != last) {
      last = watch.pulse->load(std::memory_order_relaxed);
      since = Clock::now();
    }
    if (found == 0 && watch.pulse && text.empty() && std::chrono::duration<double>(Clock::now() - since).count() > watch.patience) {
      hung = true;
      kill(child, SIGKILL);
      return {};
    }
    if (found <= 0) continue;
    const ssize_t n = read(descriptor, buffer, sizeof buffer);
    if (n > 0) text.append(buffer, std::size_t(n));
    if (n == 0 || (n < 0 && errno != EINTR)) return text;
  }
}

void write_all(int descriptor, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = write(descriptor, text.data() + done, text.size() - done);
    if (n > 0) done += std::size_t(n);
    else if (errno != EINTR) return;
  }
}

}  // namespace

SharedCounter::SharedCounter() {
  void* at = mmap(nullptr, sizeof *counter_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  counter_ = new (at) std::atomic<std::uint64_t>(0);
}

SharedCounter::~SharedCounter() { munmap(counter_, sizeof *counter_); }

ProcessEnd run_in_process(const std::function<std::string(int)>& body, const Watch& watch) {
  int answer[2];
  std::FILE* messages = std::tmpfile();
  if (!messages || pipe(answer) != 0) throw std::runtime_error("cannot start a process: no temporary file or pipe to be had");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot start a process: fork failed");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int fatal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) signal(fatal, SIG_DFL);  // a crash is the parent's to report
    close(answer[0]);
    std::string text = body(fileno(messages));
    text += '.';  // told apart from a process that died in the middle
    write_all(answer[1], text);
    std::fflush(nullptr);
    _exit(0);
  }
  close(answer[1]);
  ProcessEnd end;
  end.answer = read_answer(answer[0], child, watch, end.hung);
  close(answer[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  end.answered = WIFEXITED(status) && WEXITSTATUS(status) == 0 && !end.answer.empty() && end.answer.back() == '.';
  if (end.answered) end.answer.pop_back();
  end.how = WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status)) : "exit code " + std::to_string(WEXITSTATUS(status));
  lseek(fileno(messages), 0, SEEK_SET);
  end.messages = read_all(fileno(messages));
  std::fclose(messages);
  return end;
}

}  // namespace shardsim
