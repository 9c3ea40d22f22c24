// Platform: loading a platform file and reading GPU facts. The user's root zone is wrapped in one of ours that also holds the ends
// of coupled transfers: hosts without links, whose mutual routes we define (any routing of the user's zone stays as it is).
#include "backends/simgrid/platform.h"

#include <simgrid/plugins/load.h>
#include <simgrid/s4u.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <csignal>
#include <fstream>
#include <functional>
#include <pugixml.hpp>
#include <sstream>

#include "core/error.h"

namespace shardsim::simgrid_backend {
namespace {

namespace sg = simgrid::s4u;
const std::string end_prefix = "shardsim.end.";
const std::string copy_prefix = "/proc/self/fd/";  // SimGrid reads a copy, which it calls by this and a number

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw ScenarioError(file.string() + ": cannot read the platform file");
  return text.str();
}

/// What is to be built: the text of all hosts and links, or a cluster's facts.
struct Plan {
  std::string text;
  Properties cluster;
};

/// The text with our zone around the user's. Nothing is added before a line's end, so that SimGrid's line numbers stay right.
Plan plan_of(const std::filesystem::path& file, std::size_t ends) {
  std::string text = read_text(file);
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size());
  if (!parsed) {
    const auto line = 1 + std::count(text.begin(), text.begin() + std::min<std::ptrdiff_t>(parsed.offset, text.size()), '\n');
    throw ScenarioError(file.string() + ":" + std::to_string(line) + ": not well-formed XML: " + parsed.description());
  }
  const pugi::xml_node root = document.child("platform");
  pugi::xml_node zone;
  for (const pugi::xml_node child : root.children())
    if (const std::string name = child.name(); name == "zone" || name == "cluster" || name == "AS") zone = zone ? zone : child;
  const std::size_t close = text.rfind("</platform");
  if (root.child("config"))
    throw ScenarioError(file.string() +
                        ": <config>: SimGrid's settings are shardsim's own, so that all fidelities agree; remove it");
  if (!zone || close == std::string::npos)
    throw ScenarioError(file.string() + ": no <platform> with a <zone> or <cluster> in it; see platforms/ for examples");
  Properties properties;
  for (const pugi::xml_node prop : zone.children("prop"))
    properties[prop.attribute("id").value()] = prop.attribute("value").value();
  if (Cluster::is_said_by(properties)) return {{}, properties};
  std::string tail = "<zone id=\"shardsim.ends\" routing=\"Full\">";
  for (std::size_t i = 0; i < ends; ++i) tail += "<host id=\"" + end_prefix + std::to_string(i) + "\" speed=\"1f\"/>";
  text.insert(close, tail + "</zone></zone>");
  text.insert(std::size_t(zone.offset_debug()) - 1, "<zone id=\"shardsim.root\" routing=\"Full\">");
  return {text, {}};
}

/// SimGrid's words in one line, with the user's name of the file.
std::string refusal(std::string words, const std::filesystem::path& platform) {
  words.resize(std::min(words.find('\n'), words.size()));
  if (const std::size_t copy = words.find(copy_prefix); copy != std::string::npos)
    words.replace(copy, words.find_first_not_of("0123456789", copy + copy_prefix.size()) - copy, platform.string());
  return platform.string() + ": SimGrid refuses the platform: " + words;
}

/// gpu2 before gpu10: runs of digits compare as numbers.
bool naturally_before(const std::string& a, const std::string& b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (std::isdigit((unsigned char)a[i]) && std::isdigit((unsigned char)b[j])) {
      auto number = [](const std::string& s, std::size_t& k) {
        std::string digits;
        for (; k < s.size() && std::isdigit((unsigned char)s[k]); ++k)
          if (!digits.empty() || s[k] != '0') digits += s[k];
        return digits;
      };
      const std::string x = number(a, i), y = number(b, j);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else if (a[i] != b[j]) {
      return a[i] < b[j];
    } else {
      ++i, ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

/// A property of a GPU by its name; null: not said.
using Said = std::function<const char*(const char*)>;

Gpu facts_of(const std::string& where, const Said& said, const cost::Prices& prices) {
  try {
    return cost::resolved(said("gpu"), said, prices);
  } catch (const std::invalid_argument& error) {
    throw ScenarioError(where + ": " + error.what());
  }
}

/// What SimGrid says on stderr before it ends the process is kept for whoever explains that; what it throws is returned.
template <class Body>
std::string words_of(const SimgridSettings& settings, Body body) {
  const int standard_error = dup(STDERR_FILENO);
  dup2(settings.messages, STDERR_FILENO);
  std::string words;
  try {
    body();
  } catch (const std::exception& error) {
    words = error.what();
  }
  dup2(standard_error, STDERR_FILENO);
  close(standard_error);
  return words;
}

[[noreturn]] void refuse_tracing(const SimgridSettings& settings, const std::string& words) {
  if (settings.tracing.empty()) throw std::runtime_error(words);
  throw ScenarioError("--cfg=" + settings.tracing.front() +
                      ": SimGrid's tracing refuses this: " + words.substr(0, words.find('\n')));
}

void start_engine(const SimgridSettings& settings) {
  // One engine per process; it is never destroyed (SimGrid 3.32 cannot be restarted). Actors are small, arithmetic runs outside
  // them.
  std::vector<std::string> words{"shardsim",
                                 "--log=root.thres:error",
                                 "--cfg=network/model:CM02",
                                 "--cfg=network/crosstraffic:0",
                                 "--cfg=network/TCP-gamma:1e30",
                                 "--cfg=network/latency-factor:0",
                                 "--cfg=surf/precision:1e-12",  // of a second: events that are closer are one
                                 "--cfg=contexts/stack-size:256",
                                 "--cfg=debug/verbose-exit:0"};
  for (const std::string& setting : settings.tracing) words.push_back("--cfg=" + setting);
#ifdef __SANITIZE_ADDRESS__
  // AddressSanitizer does not know the stacks that SimGrid switches between; threads have stacks that it knows.
  words.push_back("--cfg=contexts/factory:thread");
#endif
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  int count = int(arguments.size());
  arguments.push_back(nullptr);
  // SimGrid takes Ctrl-C for itself and would exit at once; whoever had it gets it back.
  struct sigaction interrupt {};
  sigaction(SIGINT, nullptr, &interrupt);
  const std::string said = words_of(settings, [&] { new sg::Engine(&count, arguments.data()); });
  sigaction(SIGINT, &interrupt, nullptr);
  if (!said.empty()) refuse_tracing(settings, said);
}

/// What SimGrid would take without a word and stumble over later.
void check_links(const std::string& file) {
  for (const sg::Link* link : sg::Engine::get_instance()->get_all_links()) {
    const std::string where = file + ": link '" + link->get_name() + "': ";
    const double bandwidth = link->get_bandwidth(), latency = link->get_latency();
    if (link->get_sharing_policy() == sg::Link::SharingPolicy::WIFI)
      throw ScenarioError(where + "sharing_policy: WIFI is not modelled; known: SHARED, SPLITDUPLEX, FATPIPE");
    if (!(bandwidth > 0 && std::isfinite(bandwidth))) throw ScenarioError(where + "bandwidth: has to be greater than 0 and finite");
    if (!(latency >= 0 && std::isfinite(latency))) throw ScenarioError(where + "latency: has to be 0 or more and finite");
  }
}

/// Has SimGrid read the text, under a name that leaves no file behind if it ends the process.
void load(const SimgridSettings& settings, const std::string& text) {
  const int copy = memfd_create("platform", 0);
  if (copy < 0 || write(copy, text.data(), text.size()) != ssize_t(text.size()))
    throw ScenarioError(settings.platform.string() + ": no memory for a copy of the platform");
  sg::Engine* engine = sg::Engine::get_instance();
  const std::string words = words_of(settings, [&] {
    engine->load_platform(copy_prefix + std::to_string(copy));
    engine->seal_platform();
    if (settings.meters_links)
      for (const sg::Link* link : engine->get_all_links()) sg_link_load_track(link);
  });
  close(copy);
  if (!words.empty() && !settings.tracing.empty()) refuse_tracing(settings, words);
  if (!words.empty()) throw ScenarioError(refusal(words, settings.platform));
}

void load_hosts(const SimgridSettings& settings, const std::string& text, Platform& platform) {
  if (settings.meters_links) sg_link_load_plugin_init();
  load(settings, text);
  check_links(platform.file);
  for (sg::Link* link : sg::Engine::get_instance()->get_all_links())
    platform.links[link] = {link->get_bandwidth(), link->get_sharing_policy() != sg::Link::SharingPolicy::FATPIPE, link};
  for (sg::Host* host : sg::Engine::get_instance()->get_all_hosts()) {
    if (host->get_name().rfind(end_prefix, 0) == 0) platform.ends.push_back(host);
    else if (host->get_property("gpu")) platform.hosts.push_back(host);
  }
  std::sort(platform.hosts.begin(), platform.hosts.end(),
            [](const sg::Host* a, const sg::Host* b) { return naturally_before(a->get_name(), b->get_name()); });
}

void build_cluster(const SimgridSettings& settings, const Properties& zone, Platform& platform) {
  const std::string instead = "; a platform in a few facts has no routes for SimGrid's own messages, choose ";
  if (settings.fidelity == Fidelity::ring) throw ScenarioError(platform.file + ": fabric: ring" + instead + "coupled or formula");
  if (!settings.tracing.empty())
    throw ScenarioError(platform.file + ": --cfg=" + settings.tracing.front() + instead + "a file that spells out its hosts");
  if (!zone.contains("gpu")) throw ScenarioError(platform.file + ": property 'gpu' of the zone: is missing");
  platform.cluster.emplace(platform.file, zone);
  platform.hosts = {platform.cluster->make_host()};
}

/// Each as its host says.
void add_gpus(const SimgridSettings& settings, int world, Platform& platform) {
  platform.hosts.resize(std::size_t(world));
  for (const sg::Host* host : platform.hosts) {
    const Said said = [host](const char* key) { return host->get_property(key); };
    const Gpu gpu = facts_of(platform.file + ": host '" + host->get_name() + "'", said, settings.prices);
    if (platform.kinds.empty() || gpu != platform.kinds.back()) platform.kinds.push_back(gpu);
    platform.gpus.push_back(&platform.kinds.back());
    const auto text_of = [&](const char* key) { return std::string(said(key) ? said(key) : ""); };
    platform.nodes.push_back(text_of("node"));
    platform.interconnects.push_back(text_of("interconnect"));
    platform.nvls.push_back(text_of("nvls"));
    platform.generations.push_back(text_of("generation"));
  }
}

/// All as the zone says.
void add_equal_gpus(const SimgridSettings& settings, const Properties& zone, int world, Platform& platform) {
  const Said said = [&zone](const char* key) -> const char* {
    const auto found = zone.find(key);
    return found == zone.end() ? nullptr : found->second.c_str();
  };
  const auto ranks = std::size_t(world);
  platform.kinds.push_back(facts_of(platform.file + ": host '" + platform.name_of(0) + "'", said, settings.prices));
  platform.gpus.assign(ranks, &platform.kinds.back());
  const auto text_of = [&](const char* key) { return std::string(said(key) ? said(key) : ""); };
  for (int rank = 0; rank < world; ++rank) platform.nodes.push_back(std::to_string(platform.cluster->node_of(rank)));
  platform.interconnects.assign(ranks, text_of("interconnect"));
  platform.nvls.assign(ranks, text_of("nvls"));
  platform.generations.assign(ranks, text_of("generation"));
}

}  // namespace

std::pair<sg::Host*, sg::Host*> Platform::next_pair() {
  const std::size_t n = ends.size(), i = pairs_ / (n - 1), j = pairs_ % (n - 1);
  if (i >= n) throw std::runtime_error("more groups of ranks than ends for their transfers");
  ++pairs_;
  return {ends[i], ends[j + (j >= i)]};
}

std::string Platform::name_of(int rank) const { return cluster ? cluster->name_of(rank) : hosts[std::size_t(rank)]->get_name(); }
std::string Platform::name_of(const Link& link) const { return cluster ? cluster->name_of(link) : link.of_simgrid->get_name(); }

void Platform::route(int from, int to, std::vector<const Link*>& way, double& latency) const {
  if (cluster) return cluster->route(from, to, way, latency);
  std::vector<sg::Link*> found;
  try {
    hosts[from]->route_to(hosts[to], found, &latency);
  } catch (const std::exception&) {  // SimGrid's way of saying that there is no route between two zones
    found.clear();
  }
  if (found.empty())
    throw ScenarioError(file + ": no links between '" + name_of(from) + "' and '" + name_of(to) + "'; add a route");
  for (const sg::Link* link : found) way.push_back(&links.at(link));
}

Platform load_platform(const SimgridSettings& settings, int world) {
  const std::filesystem::path& file = settings.platform;
  // Pairs of ends: one per 64 edges of every group; a world has fewer than 3 world + 8 groups of that size.
  const std::size_t ends = 4 + std::size_t(std::ceil(std::sqrt(3.0 * world + 8)));
  const Plan plan = plan_of(file, ends);
  start_engine(settings);
  Platform platform;
  platform.file = file.string();
  if (plan.cluster.empty()) load_hosts(settings, plan.text, platform);
  else build_cluster(settings, plan.cluster, platform);
  if (platform.hosts.empty())
    throw ScenarioError(file.string() +
                        ": no host has the property 'gpu', so there is no GPU in it; add <prop id=\"gpu\" value=\"...\"/> "
                        "and the facts that platforms/ shows");
  const int gpus = platform.cluster ? platform.cluster->gpus() : int(platform.hosts.size());
  if (gpus < world)
    throw ScenarioError("world: " + std::to_string(world) + " ranks need as many GPUs, and " + file.string() + " has " +
                        std::to_string(gpus) + "; lower world or choose a larger platform");
  if (platform.cluster) add_equal_gpus(settings, plan.cluster, world, platform);
  else add_gpus(settings, world, platform);
  return platform;
}

}  // namespace shardsim::simgrid_backend

namespace shardsim {

std::string platform_refusal(const std::string& messages, const std::filesystem::path& platform) {
  for (const char* mark : {"ERROR] ", "CRITICAL] "})
    if (const std::size_t at = messages.find(mark); at != std::string::npos)
      return simgrid_backend::refusal(messages.substr(at + std::string(mark).size()), platform);
  return {};
}

}  // namespace shardsim
