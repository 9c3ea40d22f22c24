// Folded runs beside runs of all ranks.
#include "scale/folding.h"

#include <cmath>
#include <sstream>

#include "core/error.h"

namespace shardsim::test {
namespace {

/// "0-5, 7" as numbers.
std::vector<int> ranks_in(const std::string& text) {
  std::vector<int> ranks;
  std::istringstream in(text);
  for (std::string range; std::getline(in, range, ',');) {
    const std::size_t dash = range.find('-');
    const int first = std::stoi(range), last = dash == std::string::npos ? first : std::stoi(range.substr(dash + 1));
    for (int rank = first; rank <= last; ++rank) ranks.push_back(rank);
  }
  return ranks;
}

double difference(double a, double b) { return a == b ? 0 : std::abs(a - b) / std::max(std::abs(a), std::abs(b)); }

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

void set_shape(Scenario& s, int head_dim, int ffn, int vocab) {
  TransformerShape& shape = s.transformer->shape;
  shape.head_dim = head_dim, shape.hidden = 4 * head_dim, shape.ffn = ffn, shape.vocab = vocab;
}

}  // namespace

std::vector<FoldingCase> folding_cases() {
  std::vector<FoldingCase> cases;
  const Registry registry = built_in_schemes();
  for (const SchemeEntry& entry : registry.entries()) cases.push_back({entry.name, {}, entry.name == "llmc_zero1"});
  for (const char* stage : {"1", "2", "3"}) cases.push_back({"deepspeed", {{"stage", stage}}});
  cases.push_back({"deepspeed", {{"stage", "3"}, {"zero_quantized_gradients", "true"}}, true});
  cases.push_back({"fsdp1", {{"sharding_strategy", "HYBRID_SHARD"}}});
  cases.push_back({"torch_zero_redundancy_optimizer", {{"overlap_with_ddp", "true"}}});
  cases.push_back({"megatron_distributed_optimizer", {{"overlap_grad_reduce", "true"}, {"overlap_param_gather", "true"}}});
  return cases;
}

bool is_textbook(const std::string& scheme) {
  const auto& names = schemes();
  return scheme == "hsdp" || std::find(names.begin(), names.end(), scheme) != names.end();
}

MachineSpec machine(int nodes, int gpus_per_node, int nodes_per_leaf) {
  MachineSpec spec;
  spec.nodes = nodes, spec.gpu = "h100-sxm";
  if (nodes > 1) spec.nic = 50e9;
  if (nodes_per_leaf > 0) spec.has_leaves = true, spec.nodes_per_leaf = nodes_per_leaf, spec.oversubscription = 2;
  spec = completed(spec);
  spec.gpus_per_node = gpus_per_node;  // also more than a node can be said to have
  return spec;
}

std::string spelled_out(const std::string& xml, const MachineSpec& m, int node, const std::function<OwnParts(int)>& part_of) {
  const std::string name = "node" + std::to_string(node), open = "<cluster id=\"" + name + "\"", close = "</cluster>";
  const std::size_t begin = xml.find(open), end = xml.find(close, begin) + close.size();
  REQUIRE(begin != std::string::npos);
  const std::size_t props = xml.find("<prop", begin);
  const std::string facts = xml.substr(props, end - close.size() - props);
  std::string zone = "<zone id=\"" + name + "\" routing=\"Cluster\"><router id=\"" + name + "-router\"/>";
  for (int gpu = 0; gpu < m.gpus_per_node; ++gpu) {
    const std::string host = name + "-gpu" + std::to_string(gpu), port = name + "-port" + std::to_string(gpu);
    const OwnParts part = part_of(gpu);
    zone += "<host id=\"" + host + "\" speed=\"1Gf\">" + facts + part.facts + "</host><link id=\"" + port + "\" bandwidth=\"" +
            part.port + "\" latency=\"1.7us\" sharing_policy=\"SPLITDUPLEX\"/>" + "<host_link id=\"" + host + "\" up=\"" + port +
            "_UP\" down=\"" + port + "_DOWN\"/>";
  }
  return xml.substr(0, begin) + zone + "</zone>" + xml.substr(end);
}

std::string with_bandwidth(std::string xml, const std::string& link, const std::string& bandwidth) {
  const std::string key = "id=\"" + link + "\" bandwidth=\"";
  const std::size_t at = xml.find(key);
  REQUIRE(at != std::string::npos);
  const std::size_t begin = at + key.size();
  return xml.replace(begin, xml.find('"', begin) - begin, bandwidth);
}

std::string with_fault(const MachineSpec& m, Fault fault) {
  const std::string xml = platform_xml(m, "");
  if (fault == Fault::none) return xml;
  const int node = m.nodes / 2;
  const auto with = [&](const OwnParts& part) {
    return spelled_out(xml, m, node, [&](int gpu) { return gpu == m.gpus_per_node / 3 ? part : OwnParts{}; });
  };
  if (fault == Fault::slow_rank) return with({"<prop id=\"kernel_seconds\" value=\"5us\"/>"});
  if (m.nodes == 1) return with({"", "90GBps"});
  const std::string link = m.has_leaves ? "leaf1-up" : "node" + std::to_string(node) + "-nics";
  return replaced(xml, "id=\"" + link + "\" bandwidth=\"", "id=\"" + link + "\" bandwidth=\"0.");
}

Scenario cost_only(int world) {
  Scenario s = thin_gpt2();
  s.world = world, s.steps = 2, s.numerics = Numerics::off, s.recorded_ranks = 0;
  s.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::bf16};
  s.knobs.shards = world / 2;
  return s;
}

Scenario cost_only_wide(int world, bool is_even) {
  Scenario s = cost_only(world);
  if (is_even) set_shape(s, 384, 6144, 5120), s.transformer->shape.positions = 512;
  else set_shape(s, 387, 5001, 5003);
  return s;
}

FoldedRun check_folded_is_all(Scenario s, const FoldingCase& which) {
  CAPTURE(which.scheme);
  CAPTURE(s.world);
  s.knobs.precision.master = which.scheme != "torch_zero_redundancy_optimizer";  // which has none
  s.folds = Folds::all;
  SchemeResult all;
  try {
    all = train(s, which.scheme, which.words);
  } catch (const ScenarioError&) {  // some systems want one copy of the model
    s.knobs.shards = 0;
    all = train(s, which.scheme, which.words);
  }
  s.folds = Folds::folded;
  const SchemeResult folded = train(s, which.scheme, which.words);
  REQUIRE(int(all.ranks.size()) == s.world);
  FoldedRun run{folded.ranks.size(), 0};
  int counted = 0;
  for (const RankResult& one : folded.ranks)
    for (const int rank : ranks_in(one.stands_for)) {
      const RankResult& each = all.ranks[std::size_t(rank)];
      ++counted;
      CHECK(one.traffic_bytes == each.traffic_bytes);
      CHECK(one.control_bytes == each.control_bytes);
      CHECK(one.peak.bytes == each.peak.bytes);
      CHECK(one.model_state_peak.bytes == each.model_state_peak.bytes);
      REQUIRE(one.step_end.size() == each.step_end.size());
      for (std::size_t step = 0; step < one.step_end.size(); ++step)
        for (const double apart :
             {difference(one.step_begin[step], each.step_begin[step]), difference(one.step_end[step], each.step_end[step])}) {
          CHECK(apart <= 1e-9);
          run.difference = std::max(run.difference, apart);
        }
    }
  CHECK(counted == s.world);
  REQUIRE(all.links.size() == folded.links.size());
  for (std::size_t i = 0; i < all.links.size(); ++i) {
    CHECK(all.links[i].link == folded.links[i].link);
    CHECK(all.links[i].bytes == folded.links[i].bytes);
  }
  return run;
}

}  // namespace shardsim::test
