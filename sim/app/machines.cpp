// Machines: what `shardsim list` prints about platforms and GPUs.
#include <algorithm>
#include <cstdio>
#include <map>
#include <pugixml.hpp>
#include <sstream>

#include "app/explain.h"
#include "app/scenario_parts.h"
#include "cost/facts.h"
#include "cost/gpus.h"

namespace shardsim {
namespace {

std::string padded(const std::string& text, std::size_t columns) {
  return text + std::string(text.size() < columns ? columns - text.size() : 1, ' ');
}

/// How many hosts there are with each value of the property `gpu`.
using GpuCounts = std::map<std::string, int>;

/// How many hosts a node stands for: a cluster's radical, "0-7,9", counts them.
int hosts_in(const pugi::xml_node& node) {
  std::istringstream radical(node.attribute("radical").value());
  int count = 0;
  for (std::string range; std::getline(radical, range, ',');) {
    int first = 0, last = 0;
    const int read = std::sscanf(range.c_str(), "%d-%d", &first, &last);
    count += read == 2 ? last - first + 1 : 1;
  }
  return count > 0 ? count : 1;
}

struct Collector : pugi::xml_tree_walker {
  GpuCounts counts;
  bool for_each(pugi::xml_node& node) override {
    if (const pugi::xml_node gpu = node.find_child_by_attribute("prop", "id", "gpu"))
      counts[gpu.attribute("value").value()] += hosts_in(node);
    return true;
  }
};

struct PlatformFacts {
  std::string comment;
  GpuCounts counts;
};

PlatformFacts read_facts(const std::string& name) {
  pugi::xml_document document;
  Collector collector;
  PlatformFacts facts;
  const auto file = platforms_folder() / (name + ".xml");
  if (!document.load_file(file.c_str(), pugi::parse_default | pugi::parse_comments)) return {"is not readable XML", {}};
  document.traverse(collector);
  facts.counts = std::move(collector.counts);
  for (pugi::xml_node node : document.children())
    if (node.type() == pugi::node_comment && facts.comment.empty()) facts.comment = node.value();
  // The first sentence, up to its details, on one line.
  std::string line;
  for (char c : facts.comment)
    if (c != '\n' && (c != ' ' || (!line.empty() && line.back() != ' '))) line += c;
    else if (c == '\n' && !line.empty() && line.back() != ' ') line += ' ';
  facts.comment = line.substr(0, std::min(line.find(". "), line.find(": ")));
  while (!facts.comment.empty() && (facts.comment.back() == ' ' || facts.comment.back() == '.')) facts.comment.pop_back();
  return facts;
}

}  // namespace

std::string list_platforms() {
  std::string text;
  for (const std::string& name : shipped_platforms()) {
    const PlatformFacts facts = read_facts(name);
    std::string gpus;
    for (const auto& [gpu, count] : facts.counts) gpus += (gpus.empty() ? "" : ", ") + std::to_string(count) + " x " + gpu;
    text += padded(name, 28) + gpus + (facts.comment.empty() ? "" : "; " + facts.comment) + "\n";
  }
  return text.empty() ? "no platforms in " + platforms_folder().string() + "\n" : text;
}

std::string list_gpus() {
  std::string text =
      "GPU            memory      bandwidth   bf16 peak   e     attention  source of e, the sustained share of the peak\n";
  for (const cost::GpuRow& row : cost::gpu_table()) {
    Gpu gpu;
    cost::use(row, gpu);
    const auto fact = [&gpu](const char* name) {
      const cost::Fact& each = cost::facts()[cost::facts_named(name)[0]];
      return cost::fact_text(each, each.get(gpu));
    };
    text += padded(row.key, 15) + padded(fact("memory"), 12) + padded(fact("memory_bandwidth"), 12) +
            padded(fact("bf16_flops"), 12) + padded(fact("gemm_efficiency"), 6) + padded(gpu.attention, 11) + row.source + "\n";
  }
  return text;
}

}  // namespace shardsim
