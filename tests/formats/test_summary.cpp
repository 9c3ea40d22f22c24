// summary.json: names, whole numbers, null for what is not known, and extremes only where ranks differ.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <cmath>
#include <sstream>

#include "formats/summary.h"

using namespace shardsim;
using nlohmann::json;

namespace {

formats::Figures figures() {
  formats::Figures f;
  f.scheme = "zero3", f.backend = "simgrid", f.world = 2, f.steps = 2, f.units = 1, f.parameters = 100;
  f.losses = {0.5, 0.25};
  f.theta_hash = 0xabcu;
  for (int rank = 0; rank < 2; ++rank) {
    f.step_seconds.add(rank, 0.5);
    f.compute_seconds.add(rank, 0.25 + 0.125 * rank);
    f.exposed_comm_seconds.add(rank, 0);
    f.bytes_sent.add(rank, 600);
    f.control_bytes.add(rank, 0);
    f.resident_bytes.add(rank, 800);
    f.model_state_peak_bytes.add(rank, 1200);
    f.peak_bytes.add(rank, 1300);
  }
  f.peak = {
      1300,
      0.125,
      {{Band::param, Verb::bind, 0, 800}, {Band::gathered, Verb::all_gather, 0, 400}, {Band::activation, Verb::forward, -1, 100}}};
  f.model_state_peak = {1200, 0.125, {f.peak.parts[0], f.peak.parts[1]}};
  f.traffic_units = 3, f.gpu_memory = 1299, f.gpu = "tiny", f.rows_per_second = 16;
  return f;
}

json written(const formats::Figures& f) {
  std::ostringstream out;
  formats::write_summary(out, {"name", "s.yaml", "full", "ring", "platform", {}, {}}, {f});
  CHECK(formats::fault_of_summary(out.str()).empty());
  return json::parse(out.str());
}

}  // namespace

TEST_CASE("summary.json has the promised names") {
  const json result = written(figures())["results"][0];
  for (const char* name : {"scheme",
                           "backend",
                           "world",
                           "parameters",
                           "loss_first",
                           "loss_last",
                           "theta_hash",
                           "diverged",
                           "step_seconds",
                           "compute_seconds",
                           "exposed_comm_seconds",
                           "hidden_comm_seconds",
                           "first_steady_step",
                           "formula_traffic_units",
                           "formula_resident_bytes_per_param",
                           "formula_model_state_peak_bytes_per_param",
                           "bytes_sent_per_rank_per_step",
                           "control_bytes_per_rank_per_step",
                           "traffic_units",
                           "resident_bytes",
                           "model_state_peak_bytes",
                           "peak_bytes",
                           "peak_composition",
                           "host_resident_bytes",
                           "host_peak_bytes",
                           "host_peak_composition",
                           "host_link_bytes_per_rank_per_step",
                           "reserved_bytes",
                           "outside_bytes",
                           "fits",
                           "tokens_per_second"})
    CHECK_MESSAGE(result.contains(name), name);
  CHECK(written(figures())["schema_version"] == 2);
  CHECK(result["loss_last"] == 0.25);
  CHECK(result["theta_hash"] == "0000000000000abc");
  CHECK(result["bytes_sent_per_rank_per_step"].is_number_integer());
}

TEST_CASE("extremes stand beside a figure only where ranks differ") {
  const json result = written(figures())["results"][0];
  CHECK(result["compute_seconds"] == 0.375);
  CHECK(result["compute_seconds_min"] == 0.25);
  CHECK(result["compute_seconds_rank"] == 1);
  CHECK_FALSE(result.contains("step_seconds_min"));
}

TEST_CASE("the peak's composition sums to the peak, and its parts name band, unit and cause") {
  const json result = written(figures())["results"][0];
  CHECK(result["peak_composition"] == json{{"param", 800}, {"gathered", 400}, {"activation", 100}});
  CHECK(result["peak_parts"][1] == json{{"band", "gathered"}, {"unit", 0}, {"cause", "all_gather"}, {"bytes", 400}});
  CHECK(result["peak_parts"][2]["unit"].is_null());
  CHECK(result["model_state_peak_composition"] == json{{"param", 800}, {"gathered", 400}});
}

TEST_CASE("a peak of one byte more than the GPU has does not fit") {
  formats::Figures f = figures();
  CHECK(written(f)["results"][0]["fits"] == false);
  f.gpu_memory = 1300;
  CHECK(written(f)["results"][0]["fits"] == true);
  f.host_memory = 5, f.host_peak_bytes.add(0, 5);
  CHECK(written(f)["results"][0]["fits"] == true);
  CHECK(written(f)["results"][0]["host_memory_bytes"] == 5);
  f.host_peak_bytes.add(1, 6);
  CHECK(written(f)["results"][0]["fits"] == false);
  f.gpu_memory = 0;  // not known: only the host can be too small
  CHECK(written(f)["results"][0]["fits"] == false);
  f.host_memory = 6;
  CHECK(written(f)["results"][0]["fits"].is_null());
}

TEST_CASE("a loss that is not finite becomes null beside the step at which it diverged") {
  formats::Figures f = figures();
  f.losses = {0.5, NAN}, f.diverged_step = 1;
  const json result = written(f)["results"][0];
  CHECK(result["loss_last"].is_null());
  CHECK(result["diverged"] == true);
  CHECK(result["diverged_step"] == 1);
}

TEST_CASE("without numerics there is no loss and no hash") {
  formats::Figures f = figures();
  f.losses.clear(), f.theta_hash.reset();
  const json result = written(f)["results"][0];
  CHECK(result["loss_first"].is_null());
  CHECK(result["theta_hash"].is_null());
  CHECK(result["diverged"] == false);
}

TEST_CASE("only a summary of this program is taken for one, and what is wrong with another is said") {
  using formats::fault_of_summary;
  CHECK(fault_of_summary("") == "is damaged: it is empty");
  CHECK(fault_of_summary("{}") == "is damaged: the key 'schema_version' is missing");
  CHECK(fault_of_summary("[1]") == "is damaged: the key 'schema_version' is missing");
  CHECK(fault_of_summary(R"({"schema_version": 1})") == "is damaged: the key 'program' is missing");
  CHECK(fault_of_summary("not json") == "is damaged: it is no JSON from line 1 on");
  CHECK(fault_of_summary("{\n\"a\": 1,\n}\n") == "is damaged: it is no JSON from line 3 on");
  CHECK(fault_of_summary(R"({"schema_version": 1, "program": "other"})") == "was written by another program");
}

TEST_CASE("a summary that is cut anywhere ends early, in the line where it is cut") {
  std::ostringstream out;
  formats::write_summary(out, {}, {figures()});
  const std::string whole = out.str();
  int line = 1;
  for (std::size_t size = 1; size + 1 < whole.size(); ++size) {  // the last character is the file's last line end
    line += whole[size - 1] == '\n';
    REQUIRE(formats::fault_of_summary(whole.substr(0, size)) == "is damaged: it ends early, in line " + std::to_string(line));
  }
}
