// The scenario's memory: which options there are, where they belong, and what is assumed if they are left out.
#include <doctest/doctest.h>

#include <algorithm>

#include "app/scenarios.h"

using namespace shardsim;
using memory::KiB, memory::MiB;

namespace {

memory::Settings read(const std::string& memory) {
  return test::ScenarioFolder().read(test::scenario_text("memory: " + memory + "\n")).memory;
}

std::string refusal(const std::string& memory, const std::string& more = "") {
  return test::ScenarioFolder().refusal(test::scenario_text("memory: " + memory + "\n" + more));
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("memory is exact, and nothing is outside, unless something is said") {
  const memory::Settings none = test::ScenarioFolder().read(test::scenario_text()).memory;
  for (const memory::Settings& settings : {none, read("{allocator: exact}")}) {
    CHECK_FALSE(settings.torch);
    CHECK_FALSE(settings.has_outside);
    CHECK(settings.context == 0);
    CHECK(settings.communicator == 0);
    CHECK(settings.cublas_workspaces == 0);
  }
  const memory::Settings given = read("{context: 500MiB}");
  CHECK_FALSE(given.torch);
  CHECK(given.has_outside);
  CHECK(given.context == 500 * MiB);
  CHECK(given.communicator == 0);
}

TEST_CASE("PyTorch's allocator brings workspaces, a context and communicators, and says so") {
  const Scenario scenario = test::ScenarioFolder().read(test::scenario_text("memory: {allocator: torch}\n"));
  CHECK(scenario.memory.torch);
  CHECK(scenario.memory.has_outside);
  CHECK(scenario.memory.cublas_workspace == 8 * MiB + 128 * KiB);
  CHECK(scenario.memory.cublas_workspaces == 2);
  CHECK(scenario.memory.context == 500 * MiB);
  CHECK(scenario.memory.communicator == memory::communicator_bytes(16));
  for (const char* used : {"memory.cublas_workspace: 8.125MiB", "memory.cublas_workspaces: 2", "memory.context: 500MiB",
                           "memory.communicator: {channels: 16} (294.40 MiB each)"})
    CHECK_MESSAGE(std::count(scenario.defaults_used.begin(), scenario.defaults_used.end(), used) == 1, used);
}

TEST_CASE("every option of the allocator is read by PyTorch's name") {
  const memory::Settings settings = read(
      "{allocator: torch, max_split_size_mb: 128, roundup_power2_divisions: 4, garbage_collection_threshold: 0.8, "
      "expandable_segments: on, cublas_workspace: 32MiB, cublas_workspaces: 1, context: 0B, communicator: {channels: 24}}");
  CHECK(settings.options.max_split_size_mb == 128);
  CHECK(settings.options.roundup_power2_divisions == 4);
  CHECK(settings.options.garbage_collection_threshold == 0.8);
  CHECK(settings.options.expandable_segments);
  CHECK(settings.cublas_workspace == 32 * MiB);
  CHECK(settings.cublas_workspaces == 1);
  CHECK(settings.context == 0);
  CHECK(settings.communicator == memory::communicator_bytes(24));
  CHECK(read("{allocator: torch, communicator: 1GiB}").communicator == 1024 * MiB);
}

TEST_CASE("what cannot be is refused by name") {
  CHECK(has(refusal("torch"), "memory: is 'torch', but a map is expected"));
  CHECK(has(refusal("{allocator: jemalloc}"), "memory.allocator: unknown value 'jemalloc'; known values: exact, torch"));
  CHECK(has(refusal("{max_split: 5}"), "memory.max_split: unknown key"));
  CHECK(has(refusal("{expandable_segments: on}"), "write allocator: torch beside it"));
  CHECK(has(refusal("{cublas_workspace: 8MiB}"), "write allocator: torch beside it"));
  CHECK(has(refusal("{allocator: torch, max_split_size_mb: 20}"), "out of range"));
  CHECK(has(refusal("{allocator: torch, roundup_power2_divisions: 3}"), "is no power of two"));
  CHECK(has(refusal("{allocator: torch, garbage_collection_threshold: 1}"), "out of range"));
  CHECK(has(refusal("{allocator: torch, context: 500}"), "memory.context: '500' has no unit"));
  CHECK(has(refusal("{allocator: torch, communicator: {rings: 2}}"), "memory.communicator.rings: unknown key"));
  CHECK(has(refusal("{allocator: torch}", "backend: threads\n"), "use backend: simgrid"));
}
