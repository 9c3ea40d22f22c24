// The good scenario, and results made by hand.
#include "app/scenarios.h"

#include "formats/npy.h"

namespace shardsim::test {

Registry named_schemes() {
  Registry registry;
  for (const char* name : {"dp", "zero1", "zero3"}) registry.add({name, "a scheme", "the source", nullptr});
  return registry;
}

ScenarioFolder::ScenarioFolder() {
  folder_.write("box.xml", "<platform/>");
  formats::write_npy(folder_ / "x.npy", {6, 3}, std::vector<float>(18, 0.5f));
  formats::write_npy(folder_ / "y.npy", {6, 2}, std::vector<float>(12, 0.5f));
  formats::write_npy(folder_ / "y5.npy", {5, 2}, std::vector<float>(10, 0.5f));
  formats::write_npy(folder_ / "none.npy", {0, 3}, {});
  formats::write_npy(folder_ / "theta.npy", {8}, std::vector<float>(8, 0.5f));  // 3 * 2 + 2
  formats::write_npy(folder_ / "flat.npy", {18}, std::vector<float>(18, 0.5f));
}

Scenario ScenarioFolder::read(const std::string& text, const std::vector<std::string>& overrides) const {
  folder_.write("s.yaml", text);
  return read_scenario(folder_ / "s.yaml", overrides, named_schemes());
}

std::string ScenarioFolder::refusal(const std::string& text, const std::vector<std::string>& overrides) const {
  try {
    read(text, overrides);
    return "accepted";
  } catch (const ScenarioError& error) {
    std::string message = error.what();
    const std::string prefix = folder_.path().string() + "/";
    for (std::size_t at; (at = message.find(prefix)) != std::string::npos;) message.erase(at, prefix.size());
    return message;
  }
}

std::string scenario_text(const std::string& more) {
  return "schemes: [dp, zero3]\n"
         "platform: box.xml\n"
         "world: 2\n"
         "model: {kind: mlp, widths: [3, 2]}\n" +
         more;
}

Composition with(const Composition& parts, Part more) {
  std::vector<Part> all(parts.begin(), parts.end());
  all.push_back(more);
  return all;
}

SchemeResult made_by_hand(const std::string& scheme) {
  SchemeResult result;
  result.scheme = scheme, result.backend = "simgrid", result.world = 2, result.shards = scheme == "dp" ? 1 : 2, result.steps = 2,
  result.first_steady = 1;
  result.parameters = 100, result.unit_parameters = {100};
  for (int r = 0; r < 2; ++r) {
    RankResult rank;
    rank.rank = r;
    rank.losses = {0.5f + float(r), 0.25f + float(r)};
    rank.step_begin = rank.host_step_begin = {0, 2}, rank.step_end = {2, 4};
    for (double begin : {0.0, 2.0}) {
      rank.spans.push_back({begin, begin + 1, 0, 0, 0, Lane::compute, Verb::forward, 0, false});
      rank.spans.push_back({begin + 0.5, begin + 2, 400, 400, 0, Lane::gather, Verb::all_reduce, Span::collective, false});
    }
    rank.traffic_bytes = 800, rank.control_bytes = 16, rank.unsteady = {400, 8, {}};
    rank.resident = {{Band::param, Verb::bind, 0, 400}, {Band::grad, Verb::bind, 0, 400}, {Band::opt, Verb::bind, 0, 800}};
    rank.model_state_peak = {1600, 0, rank.resident};
    rank.peak = {1700 + r, 0.5, with(rank.resident, {Band::activation, Verb::forward, -1, 100 + r})};
    rank.entries = {{-1, 1600, Band::param, Verb::bind, 0}};
    result.ranks.push_back(rank);
  }
  result.theta.assign(100, 0.5f);
  result.links = {{"wire", 1600}};
  result.gpu.name = "tiny", result.gpu.memory_bytes = 4096;
  return result;
}

}  // namespace shardsim::test
