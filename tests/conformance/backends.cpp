// The list of backends under test, and the process that some of them need for each run.
#include "conformance/backends.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <stdexcept>

#if SHARDSIM_CUDA
#include "backends/cuda/backend.h"
#endif
#include "backends/threads/backend.h"
#if SHARDSIM_SIMGRID
#include "backends/simgrid/backend.h"
#endif
#include "core/error.h"

namespace shardsim::conformance {
namespace {

struct Entry {
  const char* name;
  bool one_run_per_process;
  std::unique_ptr<Backend> (*make)(BackendSettings);
};

#if SHARDSIM_SIMGRID
template <Fidelity fidelity>
std::unique_ptr<Backend> simulated(BackendSettings settings) {
  SimgridSettings all;
  static_cast<BackendSettings&>(all) = settings;
  all.fidelity = fidelity;
  all.platform = SHARDSIM_SOURCE_DIR "/tests/conformance/eight_gpus.xml";
  return std::make_unique<SimgridBackend>(all);
}
#endif

std::unique_ptr<Backend> threaded(BackendSettings settings) { return std::make_unique<ThreadsBackend>(settings); }

#if SHARDSIM_CUDA
std::unique_ptr<Backend> on_one_gpu(BackendSettings settings) {
  CudaSettings all;
  static_cast<BackendSettings&>(all) = settings;
  all.fabric = CudaFabric::loopback;
  return std::make_unique<CudaBackend>(all);
}

/// Asked in a process of its own: CUDA, once begun, does not survive a fork.
bool has_gpu() {
  const pid_t child = fork();
  if (child == 0) _exit(cuda_refusal({}, 1).empty() ? 0 : 1);
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}
#endif

const Entry entries[] = {
    {"threads", false, threaded},
#if SHARDSIM_SIMGRID
    {"simgrid, ring", true, simulated<Fidelity::ring>},
    {"simgrid, coupled", true, simulated<Fidelity::coupled>},
    {"simgrid, formula", true, simulated<Fidelity::formula>},
#endif
#if SHARDSIM_CUDA
    {"cuda, loopback", true, on_one_gpu},
#endif
};

Outcome run_here(const Entry& entry, int world, const Body& body, BackendSettings settings) {
  Outcome outcome;
  outcome.ranks.resize(world);
  try {
    const auto backend = entry.make(settings);
    backend->run(world, [&](Device& device, Fabric& fabric) { body(device, fabric, outcome.ranks[device.rank()].result); });
    for (int rank = 0; rank < world; ++rank) {
      const Device& device = backend->device(rank);
      Outcome::Rank& result = outcome.ranks[rank];
      result.traffic_bytes = device.recorder().traffic_bytes(), result.control_bytes = device.recorder().control_bytes();
      result.held_bytes = device.ledger().held(), result.peak_bytes = device.ledger().peak().bytes;
    }
    return outcome;
  } catch (const IllegalStep& error) {
    return {{}, error.what(), true};
  } catch (const std::exception& error) {
    return {{}, error.what(), false};
  }
}

// ---- an outcome through a pipe: numbers and lengths as they lie in memory

template <class T>
void write_number(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}
template <class T>
T read_number(const char*& at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  at += sizeof value;
  return value;
}

std::string packed(const Outcome& outcome) {
  std::string bytes;
  write_number(bytes, outcome.illegal_step);
  write_number(bytes, outcome.error.size());
  bytes += outcome.error;
  write_number(bytes, outcome.ranks.size());
  for (const Outcome::Rank& rank : outcome.ranks) {
    for (std::int64_t value : {rank.traffic_bytes, rank.control_bytes, rank.held_bytes, rank.peak_bytes})
      write_number(bytes, value);
    write_number(bytes, rank.result.size());
    bytes.append(reinterpret_cast<const char*>(rank.result.data()), rank.result.size() * sizeof(float));
  }
  return bytes;
}

Outcome unpacked(const std::string& bytes) {
  const char* at = bytes.data();
  Outcome outcome;
  outcome.illegal_step = read_number<bool>(at);
  const auto length = read_number<std::size_t>(at);
  outcome.error.assign(at, length);
  at += length;
  outcome.ranks.resize(read_number<std::size_t>(at));
  for (Outcome::Rank& rank : outcome.ranks) {
    for (std::int64_t* value : {&rank.traffic_bytes, &rank.control_bytes, &rank.held_bytes, &rank.peak_bytes})
      *value = read_number<std::int64_t>(at);
    rank.result.resize(read_number<std::size_t>(at));
    const std::size_t size = rank.result.size() * sizeof(float);
    if (size) std::memcpy(rank.result.data(), at, size);
    at += size;
  }
  return outcome;
}

Outcome run_in_child(const Entry& entry, int world, const Body& body, BackendSettings settings) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  std::cout.flush();
  std::fflush(stdout);  // a child that ends by itself would print what is buffered again
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no child process");
  if (child == 0) {
    close(ends[0]);
    const std::string bytes = packed(run_here(entry, world, body, settings));
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = write(ends[1], bytes.data() + sent, bytes.size() - sent);
      if (n <= 0) break;
      sent += std::size_t(n);
    }
    _exit(sent == bytes.size() ? 0 : 1);
  }
  close(ends[1]);
  std::string bytes;
  char part[4096];
  for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) bytes.append(part, std::size_t(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) return {{}, "the child process ended with status " + std::to_string(status), false};
  return unpacked(bytes);
}

}  // namespace

const std::vector<std::string>& backends() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
#ifdef SHARDSIM_ONLY_BACKEND
    list.push_back(SHARDSIM_ONLY_BACKEND);
#else
    for (const Entry& entry : entries) list.push_back(entry.name);
#endif
#if SHARDSIM_CUDA
    if (!has_gpu()) {
      list.pop_back();
      std::cout << "skipped: cuda, since there is no GPU here\n";
    }
#endif
    return list;
  }();
  return names;
}

Outcome run_on(const std::string& backend, int world, const Body& body, BackendSettings settings) {
  for (const Entry& entry : entries)
    if (entry.name == backend) return (entry.one_run_per_process ? run_in_child : run_here)(entry, world, body, settings);
  throw std::invalid_argument("no backend is called " + backend);
}

Outcome run_without_numerics(const std::string& backend, int world, const Body& body) {
  BackendSettings settings;
  settings.numerics = false;
  return run_on(backend, world, body, settings);
}

Tensor make(Device& device, Lane lane, std::int64_t count, Dtype type) {
  return device.alloc(lane, Band::workspace, one, dim(count), type);
}

Tensor put(Device& device, Lane lane, const std::vector<float>& values, Dtype type) {
  const Tensor tensor = make(device, lane, std::int64_t(values.size()), type);
  device.upload(lane, tensor, {&values, none, dim(std::int64_t(values.size()))});
  return tensor;
}

std::vector<float> get(Device& device, Lane lane, Tensor tensor) {
  std::vector<float> values;
  device.download(lane, tensor, values);
  device.synchronize();
  return values;
}

void append(std::vector<float>& to, const std::vector<float>& more) { to.insert(to.end(), more.begin(), more.end()); }

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

}  // namespace shardsim::conformance
