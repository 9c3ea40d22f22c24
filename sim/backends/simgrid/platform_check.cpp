// Platform check: one function per rule, each for one element of the file.
#include "backends/simgrid/platform_check.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <vector>

#include "backends/simgrid/cluster.h"
#include "core/nearest.h"
#include "cost/facts.h"

namespace shardsim::simgrid_backend {
namespace {

using pugi::xml_node;
using Names = std::vector<std::string>;

constexpr std::int64_t most_hosts = 1 << 20;  // as many as there may be ranks

bool has(const Names& names, const std::string& name) { return std::find(names.begin(), names.end(), name) != names.end(); }

void check_settings(const PlatformText& text, xml_node node) {
  if (node.name() == std::string("config"))
    text.refuse(node, "SimGrid's settings are shardsim's own, so that all fidelities agree; remove it");
}

void check_profiles(const PlatformText& text, xml_node node) {
  const auto refuse = [&](const std::string& what) {
    text.refuse(node, what +
                          "a platform that changes with time is not modelled; remove it: a slower link has a lower bandwidth, "
                          "and GPUs that vary have the property 'jitter'");
  };
  if (const std::string kind = node.name(); kind == "trace" || kind == "trace_connect") refuse("");
  for (const pugi::xml_attribute attribute : node.attributes())
    if (const std::string name = attribute.name(); name.ends_with("_file")) refuse(name + ": ");
}

/// SimGrid would take a bare number as bytes per second or seconds, which nobody means who writes bw="5".
void check_units(const PlatformText& text, xml_node node) {
  const Names rates{"bandwidth", "bw", "bb_bw", "loopback_bw", "limiter_link", "bw_in", "bw_out"};
  const Names times{"latency", "lat", "bb_lat", "loopback_lat"};
  for (const pugi::xml_attribute attribute : node.attributes()) {
    const std::string name = attribute.name(), value = attribute.value();
    const bool is_rate = has(rates, name);
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if ((is_rate || has(times, name)) && error == std::errc() && end == value.data() + value.size() && number != 0 &&
        std::isfinite(number))
      text.refuse(node, name + ": '" + value + "' has no unit; write for example " + (is_rate ? "50GBps" : "5us"));
  }
}

/// "; do you mean 'x'?", or all names.
std::string remedy(const std::string& name, const Names& known) {
  if (const std::string meant = nearest(name, known, 1 + name.size() / 4); !meant.empty()) return "; do you mean '" + meant + "'?";
  std::string all;
  for (const std::string& each : known) all += (all.empty() ? "; known: " : ", ") + each;
  return all;
}

/// Of hosts and zones, by SimGrid's energy, frequency, file system and MPI (its manual's pages on plugins and SMPI).
bool is_simgrids(const std::string& property) {
  return has({"wattage_per_state", "watt_per_state", "wattage_off", "watt_off", "remote_disk"}, property) ||
         property.starts_with("plugin/") || property.starts_with("smpi/");
}

bool is_machine(const PlatformText& text, xml_node zone) {
  return zone == text.zone() && zone.find_child_by_attribute("prop", "id", Cluster::sign);
}

void check_properties(const PlatformText& text, xml_node node) {
  const bool is_cluster = node.name() == std::string("cluster"), is_host = is_cluster || node.name() == std::string("host");
  if (!is_host && !is_zone(node)) return;
  Names of_gpus = cost::fact_names(), of_machines = Cluster::fact_names();
  of_gpus.insert(of_gpus.begin(), {"gpu", "interconnect", "nvls", "generation"});
  Names known{"command"};
  const bool is_one = is_machine(text, node), may_be_one = node == text.zone() && !is_cluster;
  if (is_host || is_one) known.insert(known.end(), of_gpus.begin(), of_gpus.end());
  if (is_host) known.push_back("node");
  if (may_be_one) known.insert(known.end(), of_machines.begin(), of_machines.end());
  std::map<std::string, xml_node> seen;
  for (const xml_node prop : node.children("prop")) {
    const std::string id = prop.attribute("id").value(), what = "property '" + id + "': ";
    if (const auto [first, is_new] = seen.emplace(id, prop); !is_new)
      text.refuse(prop, what + "is given twice, first in line " + std::to_string(text.line_of(first->second)) + "; remove one");
    if (is_one && id == "node") text.refuse(prop, what + "is counted; remove it");
    if (!is_host && !is_one && (has(of_gpus, id) || id == "node"))
      text.refuse(prop, what + "is a GPU's; write it into its <host> or <cluster>" +
                            (may_be_one ? ", or a whole machine with '" + std::string(Cluster::sign) + "'" : ""));
    if (may_be_one && !is_one && has(of_machines, id))
      text.refuse(prop, what + "says nothing without '" + Cluster::sign + "'; add it, or spell out the hosts");
    if (has(known, id) || is_simgrids(id)) continue;
    text.refuse(prop, what + "unknown" + remedy(id, known));
  }
}

/// "0-7,9": 9; numbers that are none are SimGrid's to refuse.
std::int64_t hosts_in(const PlatformText& text, xml_node node, const std::string& radical) {
  std::int64_t count = 0;
  for (std::size_t at = 0; at < radical.size(); ++at) {
    const std::string range = radical.substr(at, radical.find(',', at) - at);
    at += range.size();
    const auto number = [&range](std::size_t from) {
      return std::clamp(std::strtoll(range.c_str() + from, nullptr, 10), 0LL, 1LL << 62);
    };
    const std::size_t dash = range.find('-');
    const std::int64_t first = number(0), last = dash == std::string::npos ? first : number(dash + 1);
    if (last < first) text.refuse(node, "radical: '" + range + "' ends before it begins; write the lower number first");
    count += last - first >= most_hosts ? most_hosts + 1 : last - first + 1;
  }
  return count;
}

void check_size(const PlatformText& text, xml_node node, std::int64_t& hosts) {
  hosts += node.name() == std::string("host");
  const std::string radical = node.attribute("radical").value();
  hosts += hosts_in(text, node, radical);
  if (hosts > most_hosts)
    text.refuse(node, (radical.empty() ? "" : "radical: '" + radical + "': ") + "a platform has at most " +
                          std::to_string(most_hosts) + " hosts; lower their number");
}

/// Beside the facts of a machine, what the file says would be overlooked.
void check_machine(const PlatformText& text, xml_node node) {
  const xml_node zone = text.zone();
  if (!is_machine(text, zone) || node == zone || node == zone.parent()) return;
  if (node.name() == std::string("prop") && node.parent() == zone) return;
  text.refuse(
      node, "would be overlooked beside '" + std::string(Cluster::sign) + "', which says the whole machine; remove one of the two");
}

/// Who can be the end of a route in the zone.
Names members_of(xml_node zone) {
  Names members;
  for (const xml_node child : zone.children())
    if (const std::string kind = child.name(); is_zone(child) || kind == "host" || kind == "router" || kind == "peer")
      members.push_back(child.attribute("id").value());
  return members;
}

using Edges = std::multimap<std::string, std::string>;

std::set<std::string> reached(const std::string& start, const Edges& edges) {
  std::set<std::string> found{start};
  for (Names next{start}; !next.empty();) {
    const auto [begin, end] = edges.equal_range(next.back());
    next.pop_back();
    for (auto edge = begin; edge != end; ++edge)
      if (found.insert(edge->second).second) next.push_back(edge->second);
  }
  return found;
}

/// SimGrid's Dijkstra crashes on a member without any route, and runs in circles after one that cannot be reached.
void check_connections(const PlatformText& text, xml_node zone, const std::string& routing) {
  Edges there, back;
  for (const xml_node route : zone.children()) {
    if (const std::string kind = route.name(); kind != "route" && kind != "zoneRoute" && kind != "ASroute") continue;
    const std::string src = route.attribute("src").value(), dst = route.attribute("dst").value();
    const std::string symmetrical = route.attribute("symmetrical").value();
    there.emplace(src, dst), back.emplace(dst, src);
    if (symmetrical != "NO" && symmetrical != "no") there.emplace(dst, src), back.emplace(src, dst);
  }
  const Names members = members_of(zone);
  if (members.size() < 2) return;
  const std::string& first = members.front();
  const auto refuse = [&](const std::string& from, const std::string& to) {
    text.refuse(zone, "routing=\"" + routing + "\": no way from '" + from + "' to '" + to + "'; add a route");
  };
  const std::set<std::string> from_first = reached(first, there), to_first = reached(first, back);
  for (const std::string& member : members) {
    if (!from_first.contains(member)) refuse(first, member);
    if (!to_first.contains(member)) refuse(member, first);
  }
}

void check_routing(const PlatformText& text, xml_node zone) {
  const std::string routing = zone.attribute("routing").value();
  std::string low = routing;
  std::transform(low.begin(), low.end(), low.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  const bool has_no_routes = low == "none" && !is_machine(text, zone) && (members_of(zone).size() > 1 || zone.child("cabinet"));
  if (has_no_routes || low == "vivaldi" || low == "wifi")
    text.refuse(zone, "routing=\"" + routing +
                          "\" is not modelled, as it has no links of its own between hosts; known: Full, "
                          "Floyd, Dijkstra, DijkstraCache, Cluster");
  if (low == "dijkstra" || low == "dijkstracache") check_connections(text, zone, routing);
}

}  // namespace

void check(const PlatformText& text) {
  std::int64_t hosts = 0;
  text.visit([&](xml_node node) {
    check_settings(text, node);
    check_profiles(text, node);
    check_units(text, node);
    check_properties(text, node);
    check_size(text, node, hosts);
    check_machine(text, node);
    if (is_zone(node)) check_routing(text, node);
  });
}

}  // namespace shardsim::simgrid_backend
