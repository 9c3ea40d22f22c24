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

Cluster::Cable Cluster::cable(const std::string& name, double bandwidth, double latency) const {
  sg::NetZone* zone = sg::Engine::get_instance()->get_netzone_root();
  auto* link = zone->create_split_duplex_link(name, bandwidth);
  link->set_latency(latency)->seal();
  return {link->get_link_up(), link->get_link_down(), latency};
}

Cluster::Cluster(const std::string& file, const Properties& zone) {
  const Facts facts(file, zone);
  const int nodes = facts.count("nodes");
  gpus_per_node_ = facts.count("gpus_per_node");
  if (std::int64_t(nodes) * gpus_per_node_ > 1 << 20)
    throw ScenarioError(file + ": property 'nodes' of the zone: more than 1048576 GPUs in all");
  if (facts.has("nodes_per_leaf")) nodes_per_leaf_ = facts.count("nodes_per_leaf");
  const double port = facts.bandwidth("port_bandwidth"), port_latency = facts.latency("port_latency");
  sg::NetZone* star = sg::create_star_zone("machine");
  for (int node = 0; node < nodes; ++node)
    for (int i = 0; i < gpus_per_node_; ++i) {
      // The names that a file of <cluster> nodes would give.
      const std::string name = "node" + std::to_string(node);
      sg::Host* host = star->create_host(name + "-gpu" + std::to_string(i), 1e9);
      auto* link = star->create_split_duplex_link(name + "_link_" + std::to_string(i), port);
      link->set_latency(port_latency)->seal();
      star->add_route(host->get_netpoint(), nullptr, nullptr, nullptr, {{link, sg::LinkInRoute::Direction::UP}}, true);
      hosts_.push_back(host);
      ports_.push_back({link->get_link_up(), link->get_link_down(), port_latency});
    }
  if (nodes > 1) {
    const double nic = facts.bandwidth("nic_bandwidth"), latency = facts.latency("nic_latency");
    for (int node = 0; node < nodes; ++node) nics_.push_back(cable("node" + std::to_string(node) + "-nics", nic, latency));
  }
  if (nodes_per_leaf_ > 0) {
    const double uplink = facts.bandwidth("leaf_bandwidth"), latency = facts.latency("leaf_latency");
    for (int leaf = 0; leaf * nodes_per_leaf_ < nodes; ++leaf)
      leaves_.push_back(cable("leaf" + std::to_string(leaf) + "-up", uplink, latency));
  }
  star->seal();
}

void Cluster::route(int from, int to, std::vector<sg::Link*>& links, double& latency) const {
  links.clear();
  const int a = node_of(from), b = node_of(to);
  const int leaf_a = nodes_per_leaf_ > 0 ? a / nodes_per_leaf_ : 0, leaf_b = nodes_per_leaf_ > 0 ? b / nodes_per_leaf_ : 0;
  links.push_back(ports_[from].up), latency = ports_[from].latency;
  const auto over = [&](sg::Link* link, const Cable& cable) { links.push_back(link), latency += cable.latency; };
  if (a != b) over(nics_[a].up, nics_[a]);
  if (leaf_a != leaf_b) over(leaves_[leaf_a].up, leaves_[leaf_a]), over(leaves_[leaf_b].down, leaves_[leaf_b]);
  if (a != b) over(nics_[b].down, nics_[b]);
  over(ports_[to].down, ports_[to]);
}

}  // namespace shardsim::simgrid_backend
