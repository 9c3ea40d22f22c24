// Nodes: the machines of a run, one process on each, where they meet and what connects them.
#pragma once
#include <memory>
#include <string>
#include <vector>

namespace shardsim::cuda {

class Socket;

/// Node n runs as many ranks as every other, those from first(n) on, each on a GPU of its own. Node 0 listens at the endpoint.
struct Nodes {
  int count = 1, me = 0;
  int world = 1;  ///< ranks of all nodes together
  std::string host = {};
  int port = 0;
  /// Once they have met: node 0's connections to nodes 1, 2, ..., or another node's to node 0. They last as long as the run, and
  /// the processes of its schemes use them one after the other: a node that ends is noticed by all, whenever it does.
  std::shared_ptr<std::vector<Socket>> met = {};

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
