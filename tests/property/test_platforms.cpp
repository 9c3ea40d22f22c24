// Platforms that cannot carry a run are refused in one line that names the file and what is wrong with it.
#include <doctest/doctest.h>

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

std::string refusal(const std::string& xml) {
  const PlatformFile file(xml);
  Scenario s = small_scenario();
  s.world = 2, s.steps = 1;
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
