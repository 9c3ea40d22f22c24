// Platforms that cannot carry a run are refused in one line that names the file and what is wrong with it.
#include <doctest/doctest.h>

#include <algorithm>

#include "core/error.h"
#include "runs.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

const std::string facts = R"(<prop id="gpu" value="g"/><prop id="memory" value="1GB"/><prop id="memory_bandwidth" value="1TBps"/>
<prop id="fp32_flops" value="1Tf"/><prop id="bf16_flops" value="1Tf"/>)";

std::string two_gpus(const std::string& properties, const std::string& link, const std::string& route = "<link_ctn id=\"l\"/>") {
  return R"(<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd"><platform version="4.1">
<zone id="w" routing="Full"><host id="g0" speed="1f">)" +
         properties + R"(</host><host id="g1" speed="1f">)" + properties + "</host>\n<link id=\"l\" " + link +
         "/>\n<route src=\"g0\" dst=\"g1\">" + route + "</route></zone></platform>\n";
}

const std::string fine = R"(bandwidth="1GBps" latency="1us")";

std::string refusal(const std::string& xml, Folds folds = Folds::all) {
  const PlatformFile file(xml);
  Scenario s = small_scenario();
  s.world = 2, s.steps = 1;
  s.folds = folds, s.numerics = folds == Folds::all ? s.numerics : Numerics::off;
  s.platform = file.path();
  try {
    run(s, "dp");
  } catch (const ScenarioError& error) {
    const std::string text = error.what();
    CHECK(text.find('\n') == std::string::npos);
    CHECK(text.find("platform.xml") != std::string::npos);
    return text;
  }
  return {};
}

/// A zone of two GPUs, g0 and g1, and a link, l, each with its own line.
std::string zone(const std::string& routing, const std::string& rest, const std::string& link = "/>",
                 const std::string& property = "<prop id=\"gpu\" value=\"h100-sxm\"/>") {
  const std::string gpu = "<host id=\"g0\" speed=\"1f\">\n" + property + "</host>\n";
  return R"(<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd"><platform version="4.1">
<zone id="w" routing=")" +
         routing + "\">\n" + gpu + "<host id=\"g1\" speed=\"1f\">" + property +
         "</host>\n<link id=\"l\" bandwidth=\"1GBps\" latency=\"1us\"" + link + "\n" + rest + "\n</zone>\n</platform>\n";
}

std::string cluster(const std::string& attributes, const std::string& properties = "") {
  return R"(<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd"><platform version="4.1">
<cluster id="c" prefix="g" suffix="" speed="1f" )" +
         attributes + ">\n" + facts + properties + "</cluster></platform>\n";
}

std::string machine(const std::string& properties, const std::string& rest = "") {
  return R"(<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd"><platform version="4.1">
<zone id="m" routing="None"><prop id="gpu" value="h100-sxm"/><prop id="gpus_per_node" value="8"/>)" +
         properties + "\n" + rest + "</zone></platform>\n";
}

std::string prop(const std::string& id, const std::string& value) { return "<prop id=\"" + id + "\" value=\"" + value + "\"/>"; }

std::string route(const std::string& src, const std::string& dst, const std::string& more = "") {
  return "<route src=\"" + src + "\" dst=\"" + dst + "\" " + more + "><link_ctn id=\"l\"/></route>";
}

/// "platform.xml:7: ", of the line where the text has the snippet.
std::string place(const std::string& xml, const std::string& snippet) {
  const std::size_t at = xml.find(snippet);
  REQUIRE(at != std::string::npos);
  return "platform.xml:" + std::to_string(1 + std::count(xml.begin(), xml.begin() + std::ptrdiff_t(at), '\n')) + ": ";
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) text.replace(at, what.size(), with);
  return text;
}

}  // namespace

TEST_CASE("a platform with two GPUs and a link carries a run") { CHECK(refusal(two_gpus(facts, fine)).empty()); }

TEST_CASE("each platform that cannot carry a run is refused for its own reason") {
  const std::string good = two_gpus(facts, fine);
  const std::pair<std::string, const char*> wrong[] = {
      {good.substr(0, good.size() / 2), "not well-formed XML"},
      {"", "not well-formed XML"},
      {replaced(good, "platform", "plat"), "no <platform>"},
      {replaced(good, R"(<prop id="gpu" value="g"/>)", ""), "there is no GPU in it"},
      {replaced(good, "<host id=\"g1\" speed=\"1f\">" + facts, "<host id=\"g1\" speed=\"1f\">"), "2 ranks need as many GPUs"},
      {replaced(good, R"(<prop id="memory" value="1GB"/>)", ""), "memory: missing"},
      {replaced(good, R"("1TBps")", R"("1Tapples")"), "memory_bandwidth: '1Tapples' has the unknown unit"},
      {replaced(good, R"("1TBps")", R"("1000")"), "memory_bandwidth: '1000' has no unit"},
      {replaced(good, R"("1TBps")", R"("0TBps")"), "memory_bandwidth: '0TBps' is out of range"},
      {replaced(good, R"("1GB")", R"("-1GB")"), "memory: '-1GB' is out of range"},
      {replaced(good, R"("1GB")", R"("1e30B")"), "memory: '1e30B' is out of range"},
      {two_gpus(facts, R"(bandwidth="0GBps" latency="1us")"), "link 'l': bandwidth"},
      {two_gpus(facts, R"(bandwidth="-1GBps" latency="1us")"), "link 'l': bandwidth"},
      {two_gpus(facts, R"(bandwidth="1GBps" latency="-1us")"), "link 'l': latency"},
      {two_gpus(facts, R"(bandwidth="1Gfoo" latency="1us")"), "SimGrid refuses the platform"},
      {two_gpus(facts, fine, R"(<link_ctn id="nosuch"/>)"), "SimGrid refuses the platform"},
      {replaced(good, "routing=\"Full\"", "routing=\"Fool\""), "SimGrid refuses the platform"},
      {replaced(good, "<route src=\"g0\" dst=\"g1\"><link_ctn id=\"l\"/></route>", ""), "no links between 'g0' and 'g1'"},
      {replaced(good, "<zone ", "<config><prop id=\"network/bandwidth-factor\" value=\"0.5\"/></config><zone "), "<config>"},
  };
  for (const auto& [xml, reason] : wrong) {
    INFO(reason);
    const std::string text = refusal(xml);
    INFO(text);
    CHECK(text.find(reason) != std::string::npos);
  }
}

TEST_CASE(
    "what SimGrid takes and shardsim does not model is refused in the line where it stands, whether ranks are folded or not") {
  const std::string other = "<host id=\"g2\" speed=\"1f\"/>\n<host id=\"g3\" speed=\"1f\"/>\n", fine_route = route("g0", "g1");
  const auto with = [&](const std::string& what) { return zone("Full", fine_route, "/>", prop("gpu", "h100-sxm") + what); };
  const auto of_host = [&](const std::string& attribute) {
    return replaced(zone("Full", fine_route), "<host id=\"g0\"", "<host " + attribute + "=\"x\" id=\"g0\"");
  };
  const std::string bare = replaced(zone("Full", fine_route), "1GBps", "5"), bare_latency = replaced(bare, "\"5\"", "\"1GBps\"");
  struct Wrong {
    std::string xml;
    const char *where, *reason;
  };
  const Wrong wrong[] = {
      // Routings without routes: SimGrid would crash, end the process or run in circles.
      {zone("Dijkstra", ""), "<zone", "zone 'w': routing=\"Dijkstra\": no way from 'g0' to 'g1'; add a route"},
      {zone("DijkstraCache", ""), "<zone", "zone 'w': routing=\"DijkstraCache\": no way from 'g0' to 'g1'"},
      {zone("dijkstra", other + fine_route), "<zone", "no way from 'g0' to 'g2'"},
      {zone("Dijkstra", other + fine_route + route("g2", "g3")), "<zone", "no way from 'g0' to 'g2'"},
      {zone("Dijkstra", route("g0", "g1", "symmetrical=\"NO\"")), "<zone", "no way from 'g1' to 'g0'"},
      {zone("None", ""), "<zone", "zone 'w': routing=\"None\" is not modelled"},
      {zone("Vivaldi", ""), "<zone", "zone 'w': routing=\"Vivaldi\" is not modelled"},
      {zone("WIFI", ""), "<zone", "zone 'w': routing=\"WIFI\" is not modelled"},
      // What changes with time.
      {zone("Full", fine_route, " bandwidth_file=\"x\"/>"), "<link ",
       "link 'l': bandwidth_file: a platform that changes with time"},
      {zone("Full", fine_route, " latency_file=\"x\"/>"), "<link ", "link 'l': latency_file: "},
      {zone("Full", fine_route, " state_file=\"x\"/>"), "<link ", "link 'l': state_file: "},
      {of_host("state_file"), "<host", "host 'g0': state_file: "},
      {of_host("speed_file"), "<host", "host 'g0': speed_file: "},
      {of_host("availability_file"), "<host", "host 'g0': availability_file: "},
      {zone("Full", fine_route + "\n<trace id=\"t\" periodicity=\"1\">0 1</trace>"), "<trace",
       "trace 't': a platform that changes"},
      {zone("Full", fine_route + "\n<trace_connect kind=\"SPEED\" trace=\"t\" element=\"g0\"/>"), "<trace_c",
       "<trace_connect>: a pl"},
      // Properties that would be overlooked.
      {with(prop("gemm_eficiency", "0.4")), "<prop",
       "host 'g0': property 'gemm_eficiency': unknown; do you mean 'gemm_efficiency'?"},
      {with(prop("colour", "blue")), "<prop", "host 'g0': property 'colour': unknown; known: command, gpu, "},
      {with(prop("jitter", "1%") + "\n" + prop("jitter", "2%")), "<prop id=\"jitter\" value=\"2%", "given twice, first in line 5"},
      {zone("Full", fine_route, "/>", prop("gpuu", "h100-sxm")), "<prop", "property 'gpuu': unknown; do you mean 'gpu'?"},
      {replaced(with(""), "<host id=\"g0\"", prop("memory", "1GB") + "<host id=\"g0\""), "<prop", "is a GPU's; write it into"},
      {replaced(with(""), "<host id=\"g0\"", prop("node", "1") + "<host id=\"g0\""), "<prop", "is a GPU's; write it into"},
      {cluster("radical=\"0-1\" bw=\"1GBps\" lat=\"1us\"", prop("memry", "1GB")), "memry",
       "property 'memry': unknown; do you mean 'memory'"},
      {machine(prop("nods", "2")), "nods", "zone 'm': property 'nods': unknown; do you mean 'nodes'?"},
      {replaced(machine(prop("nodes", "2")), "gpus_per_node", "gpus_per_nod"), "<prop",
       "property 'gpu': is a GPU's; write it into"},
      {zone("Full", prop("nodes", "2") + fine_route), "<prop id=\"nodes", "'nodes': says nothing without 'gpus_per_node'; add it"},
      {cluster("radical=\"0-1\" bw=\"1GBps\" lat=\"1us\"", prop("nodes", "1")), "<prop id=\"nodes", "property 'nodes': unknown"},
      {machine(prop("node", "2")), "<prop", "zone 'm': property 'node': is counted; remove it"},
      {machine(prop("nodes", "1"), "<host id=\"g0\" speed=\"1f\"/>"), "<host",
       "host 'g0': would be overlooked beside 'gpus_per_node'"},
      // Numbers.
      {bare, "<link", "link 'l': bandwidth: '5' has no unit; write for example 50GBps"},
      {replaced(bare_latency, "1us", "1e-6"), "<link", "link 'l': latency: '1e-6' has no unit; write for example 5us"},
      {cluster("radical=\"0-1\" bw=\"5\" lat=\"1us\""), "<cluster", "cluster 'c': bw: '5' has no unit"},
      {replaced(bare, "\"5\"", "\"0.1Bps\""), "<link",
       "link 'l': bandwidth: 0.1Bps is out of range; write a finite one of 1Bps or more"},
      {replaced(bare_latency, "1us", "1e300s"), "<link", "link 'l': latency: 1e+300s is out of range; write one from 0 to 1000s"},
      {cluster("radical=\"0-1\" bw=\"1GBps\" lat=\"1e4s\""), "<cluster", "latency: 10000s is out of range"},
      {cluster("radical=\"0-1\" bw=\"0Bps\" lat=\"1us\""), "<cluster", "link 'c_link_0_DOWN': bandwidth: 0Bps is out of range"},
      {cluster("radical=\"0-1\" bw=\"1GBps\" lat=\"1us\"", prop("jitter", "5")), "<cluster",
       "host 'g0': jitter: '5' is out of range"},
      {cluster("radical=\"0-99999999\" bw=\"1GBps\" lat=\"1us\""), "<cluster",
       "cluster 'c': radical: '0-99999999': a platform has at most"},
      {cluster("radical=\"0-1048575,7\" bw=\"1GBps\" lat=\"1us\""), "<cluster", "at most 1048576 hosts"},
      {cluster("radical=\"0-99999999999999999999\" bw=\"1GBps\" lat=\"1us\""), "<cluster", "at most 1048576 hosts"},
      {cluster("radical=\"5000000-99999999999999999999\" bw=\"1GBps\" lat=\"1us\""), "<cluster", "at most 1048576 hosts"},
      {cluster("radical=\"3-1\" bw=\"1GBps\" lat=\"1us\""), "<cluster", "cluster 'c': radical: '3-1' ends before it begins"},
      {machine(prop("nodes", "1") + prop("port_bandwidth", "5") + prop("port_latency", "0s")), "<zone", "'5' has no unit"},
      {machine(prop("nodes", "1") + prop("port_bandwidth", "1GBps") + prop("port_latency", "1h")), "<zone", "from 0 to 1000s"},
      {replaced(zone("Full", fine_route), "1GBps", "1Gfoo"), "<link", "SimGrid refuses the platform: unknown unit"},
      {replaced(zone("Full", fine_route), "<zone", "<config id=\"x\"/>\n<zone"), "<config",
       "config 'x': SimGrid's settings are shardsim's"},
  };
  for (const auto& [xml, where, reason] : wrong) {
    INFO(reason);
    for (const Folds folds : {Folds::all, Folds::folded}) {
      const std::string text = refusal(xml, folds);
      INFO(text);
      CHECK(text.find(place(xml, where)) != std::string::npos);
      CHECK(text.find(reason) != std::string::npos);
    }
  }
}

TEST_CASE("routings with routes, SimGrid's own properties and a latency of 0 are accepted") {
  const std::string there = route("g0", "g1");
  for (const char* routing : {"Full", "Floyd", "Dijkstra", "DijkstraCache"}) {
    INFO(routing);
    CHECK(refusal(zone(routing, there)).empty());
  }
  const std::string over_a_router = "<router id=\"r\"/>" + route("g0", "r") + route("r", "g1");
  CHECK(refusal(zone("Dijkstra", over_a_router)).empty());
  const std::string around = "<host id=\"g2\" speed=\"1f\"/>" + route("g0", "g1", "symmetrical=\"NO\"") +
                             route("g1", "g2", "symmetrical=\"NO\"") + route("g2", "g0", "symmetrical=\"NO\"");
  CHECK(refusal(zone("Dijkstra", around)).empty());
  const std::string inside = zone("Full", there);
  CHECK(
      refusal(replaced(replaced(inside, "<zone", "<zone id=\"all\" routing=\"None\"><zone"), "</zone>", "</zone></zone>")).empty());
  CHECK(refusal(zone("Full", there, "/>", prop("gpu", "h100-sxm") + prop("wattage_per_state", "100:200:200"))).empty());
  CHECK(refusal(replaced(inside, "1us", "0")).empty());
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they have words of their own for a crash
TEST_CASE("where SimGrid crashes on looking for a way, the platform is refused") {
  // SimGrid 3.32's Dijkstra cannot cross a zone that is entered at one router and left at another.
  const auto part = [](const std::string& name, const std::string& what) {
    return "<zone id=\"" + name + "\" routing=\"Full\">" + what + "</zone>";
  };
  const auto gpu = [](const std::string& name) { return "<host id=\"" + name + "\" speed=\"1f\">" + facts + "</host>"; };
  const auto hop = [](const std::string& src, const std::string& dst, const std::string& gw_src, const std::string& gw_dst) {
    return "<zoneRoute src=\"" + src + "\" dst=\"" + dst + "\" gw_src=\"" + gw_src + "\" gw_dst=\"" + gw_dst +
           "\"><link_ctn id=\"l\"/></zoneRoute>";
  };
  const std::string xml = R"(<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="w" routing="Dijkstra">)" +
                          part("a", gpu("g0")) + part("m", "<router id=\"r\"/><router id=\"s\"/>") + part("b", gpu("g1")) +
                          "<link id=\"l\" bandwidth=\"1GBps\" latency=\"1us\"/>" + hop("a", "m", "g0", "r") +
                          hop("m", "b", "s", "g1") + "</zone></platform>";
  CHECK(refusal(xml).find("SimGrid crashes on") != std::string::npos);
  CHECK(refusal(replaced(xml, "Dijkstra", "Floyd")).empty());
}
#endif

TEST_CASE("ranks follow the natural order of host names: gpu2 before gpu10") {
  // A line of twelve GPUs on unequal links would take another time in another order; here only link names are looked at.
  static const PlatformFile twelve([] {
    IdealGpus gpus;
    gpus.gpus = 12;
    return gpus;
  }());
  Scenario s = small_scenario();
  s.platform = twelve.path();
  s.world = 3;  // gpu0, gpu1, gpu2; in the alphabet gpu10 would be the third
  s.steps = 1;
  for (const LinkLoad& load : run(s, "dp").links) CHECK(load.link.find("_10") == std::string::npos);
}
