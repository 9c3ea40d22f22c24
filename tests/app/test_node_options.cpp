// Which node of a run this is: by options, by a launcher's variables, and one line for what does not fit.
#include <doctest/doctest.h>

#include <map>

#include "app/node_options.h"
#include "app/scenarios.h"
#include "core/error.h"

using namespace shardsim;

namespace {

const std::string on_gpus = "backend: cuda\nfabric: nccl\n";

/// What place_among_nodes says, or throws.
std::string place(const NodeOptions& options, const std::map<std::string, std::string>& variables = {},
                  const std::string& more = on_gpus, cuda::Nodes* nodes = nullptr) {
  const test::ScenarioFolder folder;
  Scenario scenario = folder.read(test::scenario_text(more), {"world=8"});
  const auto environment = [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  try {
    const std::string said = place_among_nodes(options, environment, scenario);
    if (nodes) *nodes = scenario.nodes;
    return said;
  } catch (const ScenarioError& error) {
    const std::string text = error.what(), file = (folder.folder() / "").string();
    return "error: " + (text.starts_with(file) ? text.substr(file.size()) : text);
  }
}

}  // namespace

TEST_CASE("torchrun's options say which of the nodes this is, how many ranks it has and where all meet") {
  cuda::Nodes nodes;
  CHECK(place({4, 1, "node-a:29500", ""}, {}, on_gpus, &nodes) == "node 1 (ranks 2-3) of 4, which meet at node-a:29500");
  CHECK(nodes.count == 4);
  CHECK(nodes.me == 1);
  CHECK(nodes.world == 8);
  CHECK(nodes.host == "node-a");
  CHECK(nodes.port == 29500);
  CHECK(place({8, 7, "[fe80::1]:1", ""}, {}, on_gpus, &nodes) == "node 7 (rank 7) of 8, which meet at [fe80::1]:1");
  CHECK(nodes.host == "fe80::1");
}

TEST_CASE("without options, or with one node, a run is on one node, on every backend") {
  for (const char* backend : {"", "backend: threads\n", "backend: cuda\nfabric: loopback\n"}) {
    cuda::Nodes nodes;
    CHECK(place({}, {{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}, backend, &nodes).empty());
    CHECK(nodes.count == 1);
    CHECK(place({1, 0, "", ""}, {}, backend).empty());
    CHECK(place({1, 0, "node-a:29500", ""}, {}, backend).empty());
    CHECK(place({1, 0, "garbage", ""}, {}, backend).starts_with("error: --rdzv-endpoint: 'garbage' is no address"));
  }
}

TEST_CASE("a launcher's variables say what the options do not, and the line says which were used") {
  const std::map<std::string, std::string> slurm = {
      {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NODELIST", "gpu[03-05,9],login"}};
  CHECK(place({{}, {}, "", "slurm"}, slurm) ==
        "node 1 (ranks 4-7) of 2, which meet at gpu03:29500 (slurm: SLURM_STEP_NUM_TASKS, SLURM_PROCID, SLURM_STEP_NODELIST)");
  CHECK(place({{}, {}, "b:7", "slurm"}, slurm) ==
        "node 1 (ranks 4-7) of 2, which meet at b:7 (slurm: SLURM_STEP_NUM_TASKS, SLURM_PROCID)");
  for (const auto& [list, host] : std::map<std::string, std::string>{{"a", "a"}, {"a-1,a-2", "a-1"}, {"r1n[7,9]", "r1n7"}})
    CHECK(place({2, 0, "", "slurm"}, {{"SLURM_STEP_NODELIST", list}}) ==
          "node 0 (ranks 0-3) of 2, which meet at " + host + ":29500 (slurm: SLURM_STEP_NODELIST)");
  CHECK(place({{}, {}, "a:1", "openmpi"}, {{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "0"}}) ==
        "node 0 (ranks 0-1) of 4, which meet at a:1 (openmpi: OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_RANK)");
}

TEST_CASE("node options that do not fit together are refused in one line with the remedy") {
  const struct {
    NodeOptions options;
    std::string more, error;
  } cases[] = {
      {{{}, 1, "", ""}, on_gpus, "--node-rank: says nothing without the number of nodes; add --nnodes 2"},
      {{{}, {}, "a:1", ""}, on_gpus, "--rdzv-endpoint: says nothing without the number of nodes; add --nnodes 2"},
      {{0, 0, "a:1", ""}, on_gpus, "--nnodes: 0 is out of range; write 1 or more"},
      {{2, {}, "a:1", ""}, on_gpus, "--nnodes: which of the 2 nodes is this? Add --node-rank, from 0 on"},
      {{2, 2, "a:1", ""}, on_gpus, "--node-rank: 2 is out of range; 2 nodes have the numbers 0 to 1"},
      {{2, -1, "a:1", ""}, on_gpus, "--node-rank: -1 is out of range; 2 nodes have the numbers 0 to 1"},
      {{1, 1, "a:1", ""}, on_gpus, "--node-rank: 1 is out of range; 1 nodes have the numbers 0 to 0"},
      {{2, 1, "", ""}, on_gpus, "--nnodes: where do the nodes meet? Add --rdzv-endpoint"},
      {{2, 1, "a", ""},
       on_gpus,
       "--rdzv-endpoint: 'a' is no address; write the first node's name or address and a free port there"},
      {{2, 1, "a:70000", ""}, on_gpus, "--rdzv-endpoint: 'a:70000' is no address"},
      {{2, 1, ":29500", ""}, on_gpus, "--rdzv-endpoint: ':29500' is no address"},
      {{2, 1, "::1:29500", ""}, on_gpus, "--rdzv-endpoint: '::1:29500' is no address"},
      {{2, 1, "a:1", ""}, "", "--nnodes: backend: simgrid runs in one process; several nodes are for --backend cuda"},
      {{2, 1, "a:1", ""}, "backend: threads\n", "--nnodes: backend: threads runs in one process"},
      {{2, {}, "", ""}, "", "--nnodes: backend: simgrid runs in one process; several nodes are for --backend cuda"},
      {{{}, 1, "", ""}, "", "--node-rank: backend: simgrid runs in one process; several nodes are for --backend cuda"},
      {{{}, {}, "a:1", ""}, "", "--rdzv-endpoint: backend: simgrid runs in one process; several nodes are for --backend cuda"},
      {{{}, {}, "", "slurm"}, "", "--launcher: backend: simgrid runs in one process; several nodes are for --backend cuda"},
      {{{}, {}, "", "openmpi"}, "backend: threads\n", "--launcher: backend: threads runs in one process; several nodes are for"},
      {{2, 1, "a:1", ""}, "backend: cuda\nfabric: loopback\n", "--nnodes: with fabric: loopback all ranks share one GPU"},
      {{3, 1, "a:1", ""}, on_gpus, "s.yaml: world: 8 ranks cannot be divided evenly among 3 nodes; write a multiple of the nodes"},
      {{{}, {}, "", "slurm"}, on_gpus, "--launcher slurm: SLURM_STEP_NUM_TASKS is not set; start this by srun"},
      {{{}, {}, "", "openmpi"}, on_gpus, "--launcher openmpi: OMPI_COMM_WORLD_SIZE is not set; start this by Open MPI's mpirun"},
  };
  for (const auto& c : cases) {
    const std::string said = place(c.options, {}, c.more);
    CHECK(said.starts_with("error: " + c.error));
    CHECK(said.find('\n') == std::string::npos);
  }
  CHECK(place({{}, {}, "", "slurm"}, {{"SLURM_STEP_NUM_TASKS", "two"}})
            .starts_with("error: --launcher slurm: SLURM_STEP_NUM_TASKS is no number: 'two'"));
  const auto crowded = [](const char* launcher, const char* variable, const char* value) {
    return place({2, 0, "node-a:29500", launcher}, {{variable, value}})
               .find(", but one process runs all GPUs of its node; start one on each node") != std::string::npos;
  };
  CHECK(crowded("openmpi", "OMPI_COMM_WORLD_LOCAL_SIZE", "2"));
  CHECK_FALSE(crowded("openmpi", "OMPI_COMM_WORLD_LOCAL_SIZE", "1"));
  for (const char* tasks : {"2", "2(x2)", "1(x2),2", "4"}) CHECK(crowded("slurm", "SLURM_STEP_TASKS_PER_NODE", tasks));
  for (const char* tasks : {"1", "1(x2)"}) CHECK_FALSE(crowded("slurm", "SLURM_STEP_TASKS_PER_NODE", tasks));
}
