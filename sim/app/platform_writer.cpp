// MachineSpec: checks, the least link of a ring, and XML by lines.
#include "app/platform_writer.h"

#include <algorithm>
#include <cstdio>

#include "core/error.h"
#include "cost/gpus.h"

namespace shardsim {
namespace {

// Half of a hop each: NCCL's own latencies per hop of a ring (src/graph/tuning.cc) are 3.4 us over NVLink, 5.7 over PCIe and 14
// over a network. Two more switches of a fat tree: 1 us together (assumed).
constexpr double nvlink_port = 1.7e-6, pcie_port = 2.85e-6, network_half_hop = 7e-6, leaf_uplink = 0.5e-6;

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string gigabytes(double bytes_per_second) { return format("%.10gGBps", bytes_per_second / 1e9); }
std::string micro(double seconds) { return format("%.10gus", seconds * 1e6); }

void refuse_unless(bool fine, const std::string& what) {
  if (!fine) throw ScenarioError("platform: " + what);
}

bool is_nvlink(const MachineSpec& m) { return m.intra == "nvlink"; }
double node_bandwidth(const MachineSpec& m) { return *m.nic * m.nic_efficiency * m.nics_per_node; }
double leaf_bandwidth(const MachineSpec& m) { return node_bandwidth(m) * m.nodes_per_leaf / m.oversubscription; }

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '&' ? "&amp;" : c == '"' ? "&quot;" : c == '<' ? "&lt;" : std::string(1, c);
  return out;
}

std::string comment(const MachineSpec& m) {
  const cost::GpuRow& row = *cost::find_gpu(m.gpu);
  std::string text = m.title + (m.title.empty() ? "" : ", ");
  text += m.nodes == 1 ? format("%d %s", m.gpus_per_node, row.name) : format("%d x %d %s", m.nodes, m.gpus_per_node, row.name);
  if (m.nodes > 1)
    text += format(", %d NIC%s of %.4g Gbit/s per node, %s", m.nics_per_node, m.nics_per_node == 1 ? "" : "s", *m.nic * 8e-9,
                   m.has_leaves ? format("a fat tree of %d nodes per leaf", m.nodes_per_leaf).c_str() : "one switch");
  text += ".\n     Facts of the GPU come from shardsim's table. Inside a node every GPU has a port of " +
          gigabytes(*m.intra_bandwidth) + " per direction to a\n     switch that never blocks: what a ring reaches, ";
  if (is_nvlink(m))
    text += format("where data sheets say %.4g GB/s of NVLink\n", row.nvlink_gbps) +
            "     (public all-gathers and reduce-scatters on eight GPUs reach 0.75 to 0.82 of it; 0.8 is the default).\n";
  else text += "where PCIe copies reach 0.87 of the link\n     (the default).\n";
  if (m.nodes > 1) {
    text += "     All NICs of a node are one link of " + gigabytes(node_bandwidth(m)) +
            format(
                ": NCCL spreads a ring's channels over them, so that its one edge between\n     two nodes uses all; %.3g of the "
                "rate on paper (0.85 to 0.95 in public measurements). A group of one GPU per node that runs\n     alone would "
                "have its own NIC only, which this file does not know; groups that run side by side share the link as they\n     "
                "should.",
                m.nic_efficiency);
    if (m.has_leaves)
      text += " A leaf's uplink has " + gigabytes(leaf_bandwidth(m)) +
              format(": that of its nodes, %.3g times oversubscribed.", m.oversubscription);
    text += "\n";
  }
  return "<!-- " + text +
         "     Latencies are half of NCCL's hops. Written by `shardsim platform`; see the property `command`. -->\n";
}

/// Facts that a GPU has whatever its node.
template <class Prop>
void gpu_facts(const MachineSpec& m, const Prop& prop) {
  // What NCCL chooses by: a switch that adds (NVLS) came with Hopper's boards.
  const cost::GpuRow& row = *cost::find_gpu(m.gpu);
  prop("interconnect", m.intra);
  if (*row.generation) prop("generation", row.generation);
  if (is_nvlink(m)) prop("nvls", row.nvlink_gbps >= 450 ? "yes" : "no");
}

std::string node(const MachineSpec& m, int index, const std::string& command) {
  const std::string name = "node" + std::to_string(index), indent = m.nodes > 1 ? "    " : "  ";
  std::string text = indent + "<cluster id=\"" + name + "\" prefix=\"" + name + "-gpu\" suffix=\"\" radical=\"0-" +
                     std::to_string(m.gpus_per_node - 1) + "\" speed=\"1Gf\" bw=\"" + gigabytes(*m.intra_bandwidth) + "\" lat=\"" +
                     micro(is_nvlink(m) ? nvlink_port : pcie_port) + "\"\n" + indent +
                     "         sharing_policy=\"SPLITDUPLEX\" router_id=\"" + name + "-router\">\n";
  const auto prop = [&](const std::string& id, const std::string& value) {
    text += indent + "  <prop id=\"" + id + "\" value=\"" + value + "\"/>\n";
  };
  prop("gpu", m.gpu), prop("node", std::to_string(index));
  gpu_facts(m, prop);
  if (m.nodes == 1) prop("command", command);
  return text + indent + "</cluster>\n";
}

/// A switch, as a zone of its own that routes can lead to.
std::string hub(const std::string& name) {
  return "    <zone id=\"" + name + "\" routing=\"Full\"><router id=\"" + name + "-switch\"/></zone>\n";
}

/// Links and routes, which SimGrid wants in this order.
struct Cables {
  std::string links, routes;
  void add(const std::string& link, double bandwidth, double latency, const std::string& from, const std::string& from_router,
           const std::string& to) {
    links += "    <link id=\"" + link + "\" bandwidth=\"" + gigabytes(bandwidth) + "\" latency=\"" + micro(latency) +
             "\" sharing_policy=\"SPLITDUPLEX\"/>\n";
    routes += "    <zoneRoute src=\"" + from + "\" dst=\"" + to + "\" gw_src=\"" + from_router + "\" gw_dst=\"" + to +
              "-switch\"><link_ctn id=\"" + link + "\" direction=\"UP\"/></zoneRoute>\n";
  }
};

/// The machine in a few facts, which the simulator expands: SimGrid reads thousands of hosts slowly.
std::string cluster(const MachineSpec& m, const std::string& command) {
  std::string text = "  <zone id=\"machine\" routing=\"None\">\n";
  const auto prop = [&](const std::string& id, const std::string& value) {
    text += "    <prop id=\"" + id + "\" value=\"" + value + "\"/>\n";
  };
  const double port = is_nvlink(m) ? nvlink_port : pcie_port;
  prop("command", command), prop("nodes", std::to_string(m.nodes)), prop("gpus_per_node", std::to_string(m.gpus_per_node));
  prop("port_bandwidth", gigabytes(*m.intra_bandwidth)), prop("port_latency", micro(port));
  prop("nic_bandwidth", gigabytes(node_bandwidth(m))), prop("nic_latency", micro(network_half_hop - port));
  if (m.has_leaves) {
    prop("nodes_per_leaf", std::to_string(m.nodes_per_leaf));
    prop("leaf_bandwidth", gigabytes(leaf_bandwidth(m))), prop("leaf_latency", micro(leaf_uplink));
  }
  prop("gpu", m.gpu);
  gpu_facts(m, prop);
  return text + "  </zone>\n";
}

}  // namespace

MachineSpec completed(MachineSpec m) {
  const auto in_range = [](const char* option, double value, double low, double high) {
    refuse_unless(value >= low && value <= high,
                  format("--%s: '%.10g' is out of range; write a number from %.10g to %.10g", option, value, low, high));
  };
  const auto at_most = [](const char* option, int value, int most) {
    refuse_unless(value >= 1 && value <= most,
                  format("--%s: '%d' is out of range; write a whole number from 1 to %d", option, value, most));
  };
  const auto rate_in_range = [](const char* option, double rate) {
    refuse_unless(rate >= 1e6 && rate <= 1e15,
                  format("--%s: '%.10gBps' is out of range; write a rate from 1MBps to 1PBps", option, rate));
  };
  refuse_unless(m.title.find("--") == std::string::npos, "--title: '--' cannot stand in a comment of XML; write it otherwise");
  at_most("nodes", m.nodes, most_nodes), at_most("gpus-per-node", m.gpus_per_node, most_gpus_per_node);
  refuse_unless(m.nodes <= (1 << 20) / m.gpus_per_node,
                format("--nodes: %d nodes of %d GPUs are more than 1048576 GPUs; write fewer", m.nodes, m.gpus_per_node));
  const cost::GpuRow* row = cost::find_gpu(m.gpu);
  refuse_unless(row, "--gpu '" + m.gpu + "' is not in the table; known GPUs: " + cost::known_gpus());
  m.gpu = row->key;
  if (m.intra.empty()) m.intra = row->nvlink_gbps > 0 ? "nvlink" : "pcie";
  refuse_unless(is_nvlink(m) || m.intra == "pcie", "--intra '" + m.intra + "' is unknown; known: nvlink, pcie");
  refuse_unless(!is_nvlink(m) || row->nvlink_gbps > 0 || m.intra_bandwidth,
                "--intra nvlink: a " + std::string(row->name) + " has no NVLink; use pcie, or say --intra-bandwidth");
  if (!m.intra_bandwidth) m.intra_bandwidth = is_nvlink(m) ? 0.8 * row->nvlink_gbps * 1e9 : 55e9 / double(1 << (5 - row->pcie));
  rate_in_range("intra-bandwidth", *m.intra_bandwidth);
  refuse_unless(m.nodes == 1 || m.nic, "--nic is missing: several nodes need a network; write for example --nic 400Gbps");
  refuse_unless(m.nodes > 1 || !m.nic, "--nic: one node has no network; leave it out, or say --nodes");
  if (m.nic) rate_in_range("nic", *m.nic);
  at_most("nics-per-node", m.nics_per_node, most_nics_per_node), in_range("nic-efficiency", m.nic_efficiency, 0.01, 1);
  refuse_unless(m.nodes > 1 || m.nics_per_node == 1, "--nics-per-node: one node has no network; leave it out, or say --nodes");
  at_most("nodes-per-leaf", m.nodes_per_leaf, most_nodes_per_leaf), in_range("oversubscription", m.oversubscription, 1, 1000);
  refuse_unless(m.has_leaves || m.oversubscription == 1, "--oversubscription is a fat tree's; say --topology fat-tree");
  refuse_unless(
      !m.has_leaves || m.nodes > m.nodes_per_leaf,
      format("--topology fat-tree: %d nodes fit under one leaf of %d; use switch, or --nodes-per-leaf", m.nodes, m.nodes_per_leaf));
  return m;
}

double ring_bandwidth(const MachineSpec& m) {
  if (m.nodes == 1) return *m.intra_bandwidth;
  const double least = std::min(*m.intra_bandwidth, node_bandwidth(m));
  return m.has_leaves ? std::min(least, leaf_bandwidth(m)) : least;
}

std::string platform_xml(const MachineSpec& m, const std::string& command) {
  std::string text = "<?xml version=\"1.0\"?>\n" + comment(m) +
                     "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n";
  if (m.nodes == 1) return text + node(m, 0, escaped(command)) + "</platform>\n";
  if (m.nodes > most_spelled_out) return text + cluster(m, escaped(command)) + "</platform>\n";
  text += "  <zone id=\"machine\" routing=\"Floyd\">\n    <prop id=\"command\" value=\"" + escaped(command) + "\"/>\n";
  for (int i = 0; i < m.nodes; ++i) text += node(m, i, {});
  const int leaves = m.has_leaves ? (m.nodes + m.nodes_per_leaf - 1) / m.nodes_per_leaf : 0;
  text += hub("spine");
  for (int i = 0; i < leaves; ++i) text += hub("leaf" + std::to_string(i));
  Cables cables;
  const double latency = network_half_hop - (is_nvlink(m) ? nvlink_port : pcie_port);
  for (int i = 0; i < m.nodes; ++i) {
    const std::string name = "node" + std::to_string(i);
    cables.add(name + "-nics", node_bandwidth(m), latency, name, name + "-router",
               leaves > 0 ? "leaf" + std::to_string(i / m.nodes_per_leaf) : "spine");
  }
  for (int i = 0; i < leaves; ++i) {
    const std::string name = "leaf" + std::to_string(i);
    cables.add(name + "-up", leaf_bandwidth(m), leaf_uplink, name, name + "-switch", "spine");
  }
  return text + cables.links + cables.routes + "  </zone>\n</platform>\n";
}

}  // namespace shardsim
