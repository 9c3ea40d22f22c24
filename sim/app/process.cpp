// Process: fork, a pipe for the answer, an unnamed file for messages.
#include "app/process.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <stdexcept>

namespace shardsim {
namespace {

std::string read_all(int descriptor, const std::function<void()>& on_signal = {}) {
  std::string text;
  char buffer[1 << 16];
  for (ssize_t n; (n = read(descriptor, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR);) {
    if (n > 0) text.append(buffer, std::size_t(n));
    else if (on_signal) on_signal();
  }
  return text;
}

void write_all(int descriptor, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = write(descriptor, text.data() + done, text.size() - done);
    if (n > 0) done += std::size_t(n);
    else if (errno != EINTR) return;
  }
}

}  // namespace

ProcessEnd run_in_process(const std::function<std::string(int)>& body, const std::function<bool()>& interrupted) {
  int answer[2];
  std::FILE* messages = std::tmpfile();
  if (!messages || pipe(answer) != 0) throw std::runtime_error("cannot start a process: no temporary file or pipe to be had");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot start a process: fork failed");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(answer[0]);
    std::string text = body(fileno(messages));
    text += '.';  // told apart from a process that died in the middle
    write_all(answer[1], text);
    std::fflush(nullptr);
    _exit(0);
  }
  close(answer[1]);
  ProcessEnd end;
  end.answer = read_all(answer[0], [&] {
    if (interrupted && interrupted()) kill(child, SIGINT);
  });
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
