// Workers: forked processes that take tasks from a shared counter and write answers into pipes.
#include "app/workers.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "app/process.h"
#include "app/run.h"
#include "core/error.h"

namespace shardsim {
namespace {

enum Kind : char { answer, scenario_error, illegal_step, other_error };
/// In front of each text in the pipe.
struct Header {
  int task;
  Kind kind;
  std::size_t size;
};

void send(int descriptor, int task, Kind kind, const std::string& text) {
  const Header header{task, kind, text.size()};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += text;
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = write(descriptor, bytes.data() + done, bytes.size() - done);
    if (n > 0) done += std::size_t(n);
    else if (errno != EINTR) _exit(1);
  }
}

void work(int descriptor, int n, const std::function<std::string(int)>& task, std::atomic<std::uint64_t>& next) {
  for (int i; !interrupted() && (i = int(next.fetch_add(1))) < n;) {
    try {
      send(descriptor, i, answer, task(i));
    } catch (const ScenarioError& error) {
      send(descriptor, i, scenario_error, error.what());
    } catch (const IllegalStep& error) {
      send(descriptor, i, illegal_step, error.what());
    } catch (const std::exception& error) {
      send(descriptor, i, other_error, error.what());
    }
  }
}

struct Worker {
  pid_t process;
  int descriptor;
  std::string bytes = {};  // read, and not yet a whole answer
};

struct Answers {
  std::vector<std::string> texts;
  std::vector<Kind> kinds;
  int done = 0;

  /// Moves the whole answers out of `bytes`.
  void take(std::string& bytes) {
    for (Header header; bytes.size() >= sizeof header;) {
      std::memcpy(&header, bytes.data(), sizeof header);
      if (bytes.size() < sizeof header + header.size) return;
      texts[std::size_t(header.task)] = bytes.substr(sizeof header, header.size);
      kinds[std::size_t(header.task)] = header.kind;
      bytes.erase(0, sizeof header + header.size);
      ++done;
    }
  }
  void rethrow() const {
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      if (kinds[i] == scenario_error) throw ScenarioError(texts[i]);
      if (kinds[i] == illegal_step) throw IllegalStep(texts[i]);
      if (kinds[i] == other_error) throw std::runtime_error(texts[i]);
    }
  }
};

Worker started(const std::vector<Worker>& others, const std::function<void(int)>& body) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("cannot start a process: no pipe to be had");
  std::fflush(nullptr);
  const pid_t process = fork();
  if (process < 0) throw std::runtime_error("cannot start a process: fork failed");
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    catch_interrupts(false);
    for (const Worker& other : others) close(other.descriptor);
    close(ends[0]);
    body(ends[1]);
    std::fflush(nullptr);
    _exit(0);
  }
  close(ends[1]);
  return {process, ends[0]};
}

/// Reads what there is; false at the end.
bool read_some(Worker& worker) {
  char buffer[1 << 16];
  const ssize_t n = read(worker.descriptor, buffer, sizeof buffer);
  if (n > 0) worker.bytes.append(buffer, std::size_t(n));
  return n > 0 || (n < 0 && errno == EINTR);
}

}  // namespace

std::vector<std::string> in_parallel(int n, const std::function<std::string(int)>& task, const TasksDone& tasks_done) {
  SharedCounter next;
  Answers answers{std::vector<std::string>(std::size_t(n)), std::vector<Kind>(std::size_t(n), answer)};
  std::vector<Worker> workers;
  workers.reserve(std::size_t(n));
  const int cores = std::max(1, int(std::thread::hardware_concurrency()));
  for (int i = 0; i < std::min(n, cores); ++i)
    workers.push_back(started(workers, [&](int descriptor) { work(descriptor, n, task, *next.get()); }));
  for (std::size_t open = workers.size(); open > 0;) {
    std::vector<pollfd> ready;
    ready.reserve(workers.size());
    for (const Worker& worker : workers) ready.push_back({worker.descriptor, POLLIN, 0});  // poll passes over closed ones: -1
    if (poll(ready.data(), ready.size(), -1) < 0) {
      if (errno == EINTR && interrupted())
        for (const Worker& worker : workers) kill(worker.process, SIGINT);
      continue;
    }
    for (std::size_t i = 0; i < workers.size(); ++i) {
      if (ready[i].revents == 0 || read_some(workers[i])) {
        answers.take(workers[i].bytes);
        continue;
      }
      close(workers[i].descriptor);
      workers[i].descriptor = -1;
      --open;
    }
    if (tasks_done) tasks_done(answers.done);
  }
  for (const Worker& worker : workers)
    while (waitpid(worker.process, nullptr, 0) < 0 && errno == EINTR) {}
  if (interrupted()) return std::move(answers.texts);
  answers.rethrow();
  if (answers.done < n) throw std::runtime_error("a process that predicted rows ended before it was done");
  return std::move(answers.texts);
}

}  // namespace shardsim
