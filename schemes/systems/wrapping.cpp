// wrapping: the policies, over the tree of modules.
#include "systems/wrapping.h"

#include <numeric>
#include <set>

namespace shardsim {
namespace {

struct BySize {
  const std::vector<ModuleNode>& tree;
  const std::vector<std::int64_t>& counts;
  std::int64_t least;
  std::vector<bool> wrapped = std::vector<bool>(tree.size(), false);

  /// What `module` contains, each tied parameter once.
  void collect(int module, std::set<int>& parameters) const {
    const ModuleNode& node = tree[std::size_t(module)];
    parameters.insert(node.parameters.begin(), node.parameters.end());
    for (int child = module + 1; child < int(tree.size()); ++child)
      if (tree[std::size_t(child)].parent == module) collect(child, parameters);
  }

  /// How many parameters units inside of `module`, or itself, have taken.
  std::int64_t visit(int module) {
    std::set<int> inside;
    collect(module, inside);
    const auto add = [this](std::int64_t sum, int p) { return sum + counts[std::size_t(p)]; };
    const std::int64_t all = std::accumulate(inside.begin(), inside.end(), std::int64_t(0), add);
    if (all < least) return 0;
    std::int64_t taken = 0;
    for (int child = module + 1; child < int(tree.size()); ++child)
      if (tree[std::size_t(child)].parent == module) taken += visit(child);
    if (module == 0 || all - taken < least) return taken;
    wrapped[std::size_t(module)] = true;
    return all;
  }
};

Wrapped listed(const std::vector<bool>& wrapped) {
  Wrapped modules;
  for (int m = 1; m < int(wrapped.size()); ++m)
    if (wrapped[std::size_t(m)]) modules.push_back(m);
  modules.push_back(0);
  return modules;
}

}  // namespace

Wrapped wrapped_by_block(const std::vector<ModuleNode>& tree) {
  std::vector<bool> contains(tree.size(), false), blocks(tree.size(), false), children(tree.size(), false);
  for (std::size_t m = 1; m < tree.size(); ++m) contains[std::size_t(tree[m].parent)] = true;
  for (std::size_t m = 1; m < tree.size(); ++m) {
    children[m] = tree[m].parent == 0;
    blocks[m] = children[m] && contains[m];
  }
  const Wrapped found = listed(blocks);
  return found.size() > 1 ? found : listed(children);
}

Wrapped wrapped_by_size(const std::vector<ModuleNode>& tree, const std::vector<std::int64_t>& counts, std::int64_t min_num_params) {
  BySize policy{tree, counts, min_num_params};
  policy.visit(0);
  return listed(policy.wrapped);
}

std::vector<int> places_of(const Wrapped& wrapped, std::size_t modules) {
  std::vector<int> places(modules, -1);
  for (std::size_t i = 0; i < wrapped.size(); ++i) places[std::size_t(wrapped[i])] = int(i);
  return places;
}

int unit_around(int module, const std::vector<ModuleNode>& tree, const std::vector<int>& places) {
  while (places[std::size_t(module)] < 0) module = tree[std::size_t(module)].parent;
  return places[std::size_t(module)];
}

}  // namespace shardsim
