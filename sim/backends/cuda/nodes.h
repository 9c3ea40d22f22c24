// Nodes: the machines of a run, one process on each, and where they meet.
#pragma once
#include <string>

namespace shardsim::cuda {

/// Node n runs as many ranks as every other, those from first(n) on, each on a GPU of its own. Node 0 listens at the endpoint.
struct Nodes {
  int count = 1, me = 0;
  int world = 1;  ///< ranks of all nodes together
  std::string host = {};
  int port = 0;

  int each() const { return world / count; }
  int first(int node) const { return node * each(); }
  /// "node 1 (ranks 4-7)".
  std::string name_of(int node) const {
    const std::string begin = std::to_string(first(node)), end = std::to_string(first(node + 1) - 1);
    return "node " + std::to_string(node) + (each() > 1 ? " (ranks " + begin + "-" + end + ")" : " (rank " + begin + ")");
  }
  /// "node-a:29500".
  std::string endpoint() const {
    return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
  }
};

}  // namespace shardsim::cuda
