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
#include <cstdio>
#include <functional>

#include "backends/simgrid/platform_check.h"
#include "backends/simgrid/platform_text.h"
#include "core/error.h"

namespace shardsim::simgrid_backend {
namespace {

namespace sg = simgrid::s4u;
const std::string end_prefix = "shardsim.end.";
const std::string copy_prefix = "/proc/self/fd/";  // SimGrid reads a copy, which it calls by this and a number

/// What SimGrid is to read: our zone around the user's. Nothing is added before a line's end, so that its line numbers stay right.
std::string with_ends(const PlatformText& platform, std::size_t ends) {
  std::string text = platform.text();
  std::string tail = "<zone id=\"shardsim.ends\" routing=\"Full\">";
  for (std::size_t i = 0; i < ends; ++i) tail += "<host id=\"" + end_prefix + std::to_string(i) + "\" speed=\"1f\"/>";
  text.insert(text.rfind("</platform"), tail + "</zone></zone>");
  text.insert(std::size_t(platform.zone().offset_debug()) - 1, "<zone id=\"shardsim.root\" routing=\"Full\">");
  return text;
}

Properties properties_of(pugi::xml_node zone) {
  Properties properties;
  for (const pugi::xml_node prop : zone.children("prop"))
    properties[prop.attribute("id").value()] = prop.attribute("value").value();
  return properties;
}

/// SimGrid's words in one line, with the user's name of the file.
std::string refusal(std::string words, const std::filesystem::path& platform) {
  words.resize(std::min(words.find('\n'), words.size()));
  std::string line;
  if (const std::string place = "Parse error at " + copy_prefix; words.starts_with(place))
    if (const std::size_t colon = words.find(':'), end = words.find(": ", colon); end != std::string::npos) {
      line = words.substr(colon, end - colon);
      words.erase(0, end + 2);
    }
  if (const std::size_t copy = words.find(copy_prefix); copy != std::string::npos)
    words.replace(copy, words.find_first_not_of("0123456789", copy + copy_prefix.size()) - copy, platform.string());
  return platform.string() + line + ": SimGrid refuses the platform: " + words;
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

template <class Place>
Gpu facts_of(const Place& place, const Said& said, const cost::Prices& prices) {
  try {
    return cost::resolved(said("gpu"), said, prices);
  } catch (const std::invalid_argument& error) {
    throw ScenarioError(place() + ": " + error.what());
  }
}

/// What SimGrid says on stderr before it ends the process is kept for whoever explains that; what it throws is returned.
template <class Body>
std::string words_of(int messages, Body body) {
  const int standard_error = dup(STDERR_FILENO);
  dup2(messages, STDERR_FILENO);
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
  const std::string said = words_of(settings.messages, [&] { new sg::Engine(&count, arguments.data()); });
  sigaction(SIGINT, &interrupt, nullptr);
  if (!said.empty()) refuse_tracing(settings, said);
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

/// What SimGrid would take without a word and stumble over later.
void check_links(const PlatformText& text) {
  for (const sg::Link* link : sg::Engine::get_instance()->get_all_links()) {
    const double bandwidth = link->get_bandwidth(), latency = link->get_latency();
    const auto refuse = [&](const std::string& what) { throw ScenarioError(text.place_of_link(link->get_name()) + ": " + what); };
    if (link->get_sharing_policy() == sg::Link::SharingPolicy::WIFI)
      refuse("sharing_policy: WIFI is not modelled; known: SHARED, SPLITDUPLEX, FATPIPE");
    if (!(bandwidth >= least_link_bandwidth && std::isfinite(bandwidth)))
      refuse("bandwidth: " + number(bandwidth) + "Bps is out of range; write a finite one of 1Bps or more");
    if (!(latency >= 0 && latency <= most_link_latency))
      refuse("latency: " + number(latency) + "s is out of range; write one from 0 to 1000s");
  }
}

/// Has SimGrid read the text, under a name that leaves no file behind if it ends the process.
void load(const SimgridSettings& settings, const std::string& text) {
  const int copy = memfd_create("platform", 0);
  if (copy < 0 || write(copy, text.data(), text.size()) != ssize_t(text.size()))
    throw ScenarioError(settings.platform.string() + ": no memory for a copy of the platform");
  sg::Engine* engine = sg::Engine::get_instance();
  const std::string words = words_of(settings.messages, [&] {
    engine->load_platform(copy_prefix + std::to_string(copy));
    engine->seal_platform();
    if (settings.meters_links)
      for (const sg::Link* link : engine->get_all_links()) sg_link_load_track(link);
  });
  close(copy);
  if (!words.empty() && !settings.tracing.empty()) refuse_tracing(settings, words);
  if (!words.empty()) throw ScenarioError(refusal(words, settings.platform));
}

void load_hosts(const SimgridSettings& settings, const PlatformText& text, int world, Platform& platform) {
  if (settings.meters_links) sg_link_load_plugin_init();
  // Pairs of ends: one per 64 edges of every group; a world has fewer than 3 world + 8 groups of that size.
  load(settings, with_ends(text, 4 + std::size_t(std::ceil(std::sqrt(3.0 * world + 8)))));
  check_links(text);
  for (sg::Link* link : sg::Engine::get_instance()->get_all_links())
    platform.links[link] = {link->get_bandwidth(), link->get_sharing_policy() != sg::Link::SharingPolicy::FATPIPE, link};
  for (sg::Host* host : sg::Engine::get_instance()->get_all_hosts()) {
    if (host->get_name().rfind(end_prefix, 0) == 0) platform.ends.push_back(host);
    else if (host->get_property("gpu")) platform.hosts.push_back(host);
  }
  std::sort(platform.hosts.begin(), platform.hosts.end(),
            [](const sg::Host* a, const sg::Host* b) { return naturally_before(a->get_name(), b->get_name()); });
}

void build_cluster(const SimgridSettings& settings, const PlatformText& text, const Properties& zone, Platform& platform) {
  const std::string instead = "; a platform in a few facts has no routes for SimGrid's own messages, choose ";
  if (settings.fidelity == Fidelity::ring) throw ScenarioError(platform.file + ": fabric: ring" + instead + "coupled or formula");
  if (!settings.tracing.empty())
    throw ScenarioError(platform.file + ": --cfg=" + settings.tracing.front() + instead + "a file that spells out its hosts");
  try {
    platform.cluster.emplace(zone);
  } catch (const std::invalid_argument& error) {
    text.refuse(text.zone(), error.what());
  }
  platform.hosts = {platform.cluster->make_host()};
}

/// Each as its host says.
void add_gpus(const SimgridSettings& settings, const PlatformText& text, int world, Platform& platform) {
  platform.hosts.resize(std::size_t(world));
  for (const sg::Host* host : platform.hosts) {
    const Said said = [host](const char* key) { return host->get_property(key); };
    const Gpu gpu = facts_of([&] { return text.place_of_host(host->get_name()); }, said, settings.prices);
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
void add_equal_gpus(const SimgridSettings& settings, const PlatformText& text, const Properties& zone, int world,
                    Platform& platform) {
  const Said said = [&zone](const char* key) -> const char* {
    const auto found = zone.find(key);
    return found == zone.end() ? nullptr : found->second.c_str();
  };
  const auto ranks = std::size_t(world);
  platform.kinds.push_back(facts_of([&] { return text.place_of(text.zone()); }, said, settings.prices));
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
  const std::string words = words_of(messages, [&] { hosts[from]->route_to(hosts[to], found, &latency); });
  if (!words.empty() || found.empty())  // an exception is SimGrid's way of saying that there is no route between two zones
    throw ScenarioError(file + ": no links between '" + name_of(from) + "' and '" + name_of(to) + "'; add a route");
  for (const sg::Link* link : found) way.push_back(&links.at(link));
}

Platform load_platform(const SimgridSettings& settings, int world) {
  const std::filesystem::path& file = settings.platform;
  const PlatformText text(file);
  check(text);
  start_engine(settings);
  Platform platform;
  platform.file = file.string(), platform.messages = settings.messages;
  const Properties zone = properties_of(text.zone());
  if (Cluster::is_said_by(zone)) build_cluster(settings, text, zone, platform);
  else load_hosts(settings, text, world, platform);
  if (platform.hosts.empty())
    throw ScenarioError(file.string() +
                        ": no host has the property 'gpu', so there is no GPU in it; add <prop id=\"gpu\" value=\"...\"/> "
                        "and the facts that platforms/ shows");
  const int gpus = platform.cluster ? platform.cluster->gpus() : int(platform.hosts.size());
  if (gpus < world)
    throw ScenarioError("world: " + std::to_string(world) + " ranks need as many GPUs, and " + file.string() + " has " +
                        std::to_string(gpus) + "; lower world or choose a larger platform");
  if (platform.cluster) add_equal_gpus(settings, text, zone, world, platform);
  else add_gpus(settings, text, world, platform);
  return platform;
}

}  // namespace shardsim::simgrid_backend

namespace shardsim {

std::string platform_refusal(const std::string& messages, const std::filesystem::path& platform) {
  for (const char* mark : {"ERROR] ", "CRITICAL] "})
    if (const std::size_t at = messages.find(mark); at != std::string::npos)
      return simgrid_backend::refusal(messages.substr(at + std::string(mark).size()), platform);
  if (messages.find("Segmentation fault") != std::string::npos)
    return platform.string() +
           ": SimGrid crashes on reading this platform or on looking for a way in it; check that there is a "
           "route between each two of a zone's hosts and zones, and write routing=\"Floyd\" for \"Dijkstra\"";
  return {};
}

}  // namespace shardsim
