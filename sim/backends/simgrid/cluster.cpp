// Cluster: the links of ports, nodes and leaves, and the way from one GPU to another.
#include "backends/simgrid/cluster.h"

#include <simgrid/s4u.hpp>

#include "core/error.h"
#include "core/quantity.h"

namespace shardsim::simgrid_backend {
namespace {

namespace sg = simgrid::s4u;

class Facts {
 public:
  Facts(const std::string& file, const Properties& zone) : file_(file), zone_(zone) {}
  bool has(const char* key) const { return zone_.contains(key); }
  int count(const char* key) const {
    const std::string& text = need(key);
    const auto digits = text.find_first_not_of("0123456789") == std::string::npos;
    const int value = digits && !text.empty() && text.size() < 9 ? std::stoi(text) : 0;
    if (value < 1 || value > 1 << 20) refuse(key, "'" + text + "' is no number from 1 to 1048576");
    return value;
  }
  double bandwidth(const char* key) const { return quantity(key, Measure::bytes_per_second, 1e-300); }
  double latency(const char* key) const { return quantity(key, Measure::seconds, 0); }

 private:
  [[noreturn]] void refuse(const char* key, const std::string& why) const {
    throw ScenarioError(file_ + ": property '" + key + "' of the zone: " + why);
  }
  const std::string& need(const char* key) const {
    if (!has(key)) refuse(key, "is missing; a cluster in a few facts needs it");
    return zone_.at(key);
  }
  double quantity(const char* key, Measure measure, double least) const {
    double value = -1;
    try {
      value = parse_quantity(need(key), measure);
    } catch (const std::invalid_argument& error) {
      refuse(key, error.what());
    }
    if (!(value >= least && value <= 1e300)) refuse(key, "'" + need(key) + "' is out of range");
    return value;
  }
  const std::string& file_;
  const Properties& zone_;
};

}  // namespace

Cluster::Cluster(const std::string& file, const Properties& zone) {
  const Facts facts(file, zone);
  nodes_ = facts.count("nodes");
  gpus_per_node_ = facts.count("gpus_per_node");
  if (std::int64_t(nodes_) * gpus_per_node_ > 1 << 20)
    throw ScenarioError(file + ": property 'nodes' of the zone: more than 1048576 GPUs in all");
  if (facts.has("nodes_per_leaf")) nodes_per_leaf_ = facts.count("nodes_per_leaf");
  ports_.lay(gpus(), facts.bandwidth("port_bandwidth")), ports_.latency = facts.latency("port_latency");
  if (nodes_ > 1) nics_.lay(nodes_, facts.bandwidth("nic_bandwidth")), nics_.latency = facts.latency("nic_latency");
  if (nodes_per_leaf_ == 0) return;
  leaves_.lay((nodes_ + nodes_per_leaf_ - 1) / nodes_per_leaf_, facts.bandwidth("leaf_bandwidth"));
  leaves_.latency = facts.latency("leaf_latency");
}

sg::Host* Cluster::make_host() const {
  sg::NetZone* star = sg::create_star_zone("machine");
  sg::Host* host = star->create_host("gpus", 1e9);
  star->seal();
  return host;
}

std::string Cluster::name_of(int gpu) const {
  return "node" + std::to_string(node_of(gpu)) + "-gpu" + std::to_string(gpu % gpus_per_node_);
}

std::string Cluster::name_of(const Link& link) const {
  const auto named = [&link](const Cables& cables, const auto& cable) {
    const std::ptrdiff_t way = &link - cables.ways.data();
    return cable(int(way / 2)) + (way % 2 == 0 ? "_UP" : "_DOWN");
  };
  const auto numbered = [](const char* kind, int i) { return kind + std::to_string(i); };
  if (nics_.has(link)) return named(nics_, [&](int node) { return numbered("node", node) + "-nics"; });
  if (leaves_.has(link)) return named(leaves_, [&](int leaf) { return numbered("leaf", leaf) + "-up"; });
  return named(ports_, [&](int gpu) { return numbered("node", node_of(gpu)) + numbered("_link_", gpu % gpus_per_node_); });
}

void Cluster::route(int from, int to, std::vector<const Link*>& links, double& latency) const {
  const int a = node_of(from), b = node_of(to);
  const int leaf_a = nodes_per_leaf_ > 0 ? a / nodes_per_leaf_ : 0, leaf_b = nodes_per_leaf_ > 0 ? b / nodes_per_leaf_ : 0;
  latency = 0;
  const auto over = [&](const Link* link, const Cables& cables) { links.push_back(link), latency += cables.latency; };
  over(ports_.up(from), ports_);
  if (a != b) over(nics_.up(a), nics_);
  if (leaf_a != leaf_b) over(leaves_.up(leaf_a), leaves_), over(leaves_.down(leaf_b), leaves_);
  if (a != b) over(nics_.down(b), nics_);
  over(ports_.down(to), ports_);
}

}  // namespace shardsim::simgrid_backend
