// Cluster: the links of ports, nodes and leaves, and the way from one GPU to another.
#include "backends/simgrid/cluster.h"

#include <simgrid/s4u.hpp>

#include <cctype>
#include <stdexcept>

#include "core/quantity.h"

namespace shardsim::simgrid_backend {
namespace {

namespace sg = simgrid::s4u;

class Facts {
 public:
  explicit Facts(const Properties& zone) : zone_(zone) {}
  bool has(const char* key) const { return zone_.contains(key); }
  int count(const char* key) const {
    const std::string& text = need(key);
    const auto digits = text.find_first_not_of("0123456789") == std::string::npos;
    const int value = digits && !text.empty() && text.size() < 9 ? std::stoi(text) : 0;
    if (value < 1 || value > 1 << 20) refuse(key, "'" + text + "' is no number from 1 to 1048576");
    return value;
  }
  const std::string& need(const char* key) const {
    if (!has(key)) refuse(key, "is missing; a machine in a few facts needs it");
    return zone_.at(key);
  }
  double bandwidth(const char* key) const {
    return quantity(key, Measure::bytes_per_second, least_link_bandwidth, 1e300, "write 1Bps or more");
  }
  double latency(const char* key) const {
    return quantity(key, Measure::seconds, 0, most_link_latency, "write one from 0 to 1000s");
  }

 private:
  [[noreturn]] void refuse(const char* key, const std::string& why) const {
    throw std::invalid_argument("property '" + std::string(key) + "': " + why);
  }
  double quantity(const char* key, Measure measure, double least, double most, const char* remedy) const {
    const std::string& text = need(key);
    double value = -1;
    try {
      value = parse_quantity(text, measure);
    } catch (const std::invalid_argument& error) {
      refuse(key, error.what());
    }
    if (value != 0 && !std::isalpha((unsigned char)text.back()))
      refuse(key, "'" + text + "' has no unit; platforms/ shows what to write");
    if (!(value >= least && value <= most)) refuse(key, "'" + text + "' is out of range; " + remedy);
    return value;
  }
  const Properties& zone_;
};

}  // namespace

std::vector<std::string> Cluster::fact_names() {
  return {"nodes",       "gpus_per_node",  "port_bandwidth", "port_latency", "nic_bandwidth",
          "nic_latency", "nodes_per_leaf", "leaf_bandwidth", "leaf_latency"};
}

Cluster::Cluster(const Properties& zone) {
  const Facts facts(zone);
  facts.need("gpu");
  nodes_ = facts.count("nodes");
  gpus_per_node_ = facts.count("gpus_per_node");
  if (std::int64_t(nodes_) * gpus_per_node_ > 1 << 20)
    throw std::invalid_argument("property 'nodes': more than 1048576 GPUs in all");
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
