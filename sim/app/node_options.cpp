// Node options: read, completed from the launcher's variables, and checked.
#include "app/node_options.h"

#include <charconv>
#include <string_view>

#include "core/error.h"

namespace shardsim {
namespace {

constexpr int default_port = 29500;  // torchrun's

std::optional<int> number_of(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// "host:port", "[::1]:port".
void read_endpoint(const std::string& text, cuda::Nodes& nodes) {
  const std::size_t colon = text.rfind(':');
  const std::optional<int> port = number_of(colon == std::string::npos ? "" : std::string_view(text).substr(colon + 1));
  std::string host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!port || *port < 1 || *port > 65535 || host.empty() || (!bracketed && host.find(':') != std::string::npos))
    throw ScenarioError("--rdzv-endpoint: " + quoted(text) +
                        " is no address; write the first node's name or address and a free "
                        "port there, as in --rdzv-endpoint node-a:29500");
  nodes.host = host, nodes.port = *port;
}

/// The first of "gpu[03-05,9],login": "gpu03".
std::string first_host(const std::string& list) {
  const std::size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const std::size_t end = list.find_first_not_of("0123456789", bracket + 1);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

/// What a launcher tells each process that it starts.
struct Launcher {
  const char *name, *words;
  const char *count, *me, *hosts;  // variables; hosts may be null
  const char* on_a_node;           // processes on this node: "1"; of all nodes "1(x4)"
};
constexpr Launcher launchers[] = {
    {"slurm", "srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"},
    {"openmpi", "Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", nullptr, "OMPI_COMM_WORLD_LOCAL_SIZE"},
};

/// Returns which variables were used.
std::string complete(NodeOptions& options, const Environment& environment) {
  const Launcher* launcher = nullptr;
  for (const Launcher& known : launchers)
    if (options.launcher == known.name) launcher = &known;
  if (!launcher) return {};
  std::string used;
  const auto take = [&](std::optional<int>& value, const char* variable) {
    if (value) return;
    const char* text = environment(variable);
    if (text) value = number_of(text);
    if (!value)
      throw ScenarioError(std::string("--launcher ") + launcher->name + ": " + variable + " is " +
                          (text ? "no number: " + quoted(text) : "not set") + "; start this by " + launcher->words +
                          ", one process on each node, or say --nnodes, --node-rank and --rdzv-endpoint");
    used += std::string(used.empty() ? "" : ", ") + variable;
  };
  const std::string on_a_node = environment(launcher->on_a_node) ? environment(launcher->on_a_node) : "1";
  if (on_a_node != "1" && (!on_a_node.starts_with("1(x") || on_a_node.find(',') != std::string::npos))
    throw ScenarioError(std::string("--launcher ") + launcher->name + ": " + launcher->on_a_node + " is " + quoted(on_a_node) +
                        ", but one process runs all GPUs of its node; start one on each node");
  take(options.nnodes, launcher->count);
  take(options.node_rank, launcher->me);
  const char* hosts = launcher->hosts ? environment(launcher->hosts) : nullptr;
  if (options.rdzv_endpoint.empty() && hosts && *hosts) {
    options.rdzv_endpoint = first_host(hosts) + ":" + std::to_string(default_port);
    used += std::string(used.empty() ? "" : ", ") + launcher->hosts;
  }
  return used;
}

}  // namespace

std::string place_among_nodes(const NodeOptions& given, const Environment& environment, Scenario& scenario) {
  NodeOptions options = given;
  const char* several = !given.launcher.empty()         ? "--launcher"
                        : given.nnodes.value_or(2) == 1 ? nullptr
                        : given.nnodes                  ? "--nnodes"
                        : given.node_rank               ? "--node-rank"
                        : given.rdzv_endpoint.empty()   ? nullptr
                                                        : "--rdzv-endpoint";
  if (several && scenario.backend != "cuda")
    throw ScenarioError(std::string(several) + ": backend: " + scenario.backend +
                        " runs in one process; several nodes are for --backend cuda");
  const std::string used = complete(options, environment);
  if (!options.nnodes && (options.node_rank || !options.rdzv_endpoint.empty()))
    throw ScenarioError(std::string(options.node_rank ? "--node-rank" : "--rdzv-endpoint") +
                        ": says nothing without the number of nodes; add --nnodes 2");
  const int count = options.nnodes.value_or(1);
  if (count < 1) throw ScenarioError("--nnodes: " + std::to_string(count) + " is out of range; write 1 or more");
  if (!options.rdzv_endpoint.empty()) read_endpoint(options.rdzv_endpoint, scenario.nodes);
  if (count == 1 && options.node_rank.value_or(0) == 0) return {};
  if (!options.node_rank)
    throw ScenarioError("--nnodes: which of the " + std::to_string(count) + " nodes is this? Add --node-rank, from 0 on");
  if (*options.node_rank < 0 || *options.node_rank >= count)
    throw ScenarioError("--node-rank: " + std::to_string(*options.node_rank) + " is out of range; " + std::to_string(count) +
                        " nodes have the numbers 0 to " + std::to_string(count - 1));
  if (options.rdzv_endpoint.empty())
    throw ScenarioError(
        "--nnodes: where do the nodes meet? Add --rdzv-endpoint with the first node's name and a free port there, as "
        "in --rdzv-endpoint node-a:29500");
  if (scenario.loopback) throw ScenarioError("--nnodes: with fabric: loopback all ranks share one GPU; write fabric: nccl");
  if (scenario.world % count != 0)
    throw ScenarioError(scenario.file.string() + ": world: " + std::to_string(scenario.world) +
                        " ranks cannot be divided evenly among " + std::to_string(count) + " nodes; write a multiple of the nodes");
  scenario.nodes.count = count, scenario.nodes.me = *options.node_rank;
  return scenario.nodes.name_of(scenario.nodes.me) + " of " + std::to_string(count) + ", which meet at " +
         scenario.nodes.endpoint() + (used.empty() ? "" : " (" + options.launcher + ": " + used + ")");
}

}  // namespace shardsim
