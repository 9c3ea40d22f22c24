// Calibration: constants that the simulator was given are found again from its own step times, and rows that contradict each other
// are refused.
#include <doctest/doctest.h>

#include <cmath>

#include "app/calibrate.h"
#include "app/validate.h"
#include "core/error.h"
#include "validate/tables.h"

using namespace shardsim;
using test::TableFolder;
using test::value_of;

TEST_CASE("the efficiency that a step was made with is found again from the step alone") {
  TableFolder tables;
  const std::string text = "batch.micro,measured.step_seconds\n4,?\n";
  for (const double e : {0.35, 0.62, 0.9}) {
    const auto seconds = tables.predicted(text, {"prices.gemm_efficiency=" + std::to_string(e)});
    const Calibration found =
        calibrate(tables.read(TableFolder::filled(text, seconds)), {1}, {Constant::gemm_efficiency}, {}, tables.registry());
    CHECK(value_of(found, "gemm_efficiency") == doctest::Approx(e).epsilon(1e-3));
    CHECK(found.overrides()[0].starts_with("prices.calibrated.gemm_efficiency="));
  }
}

TEST_CASE("two rows of different length also say how fast attention is") {
  TableFolder tables;
  const std::string text = "batch.micro,batch.sequence,measured.step_seconds\n4,1024,?\n1,8192,?\n";
  const auto seconds = tables.predicted(text, {"prices.gemm_efficiency=0.55", "prices.attention_flops=250Tf"});
  const Calibration found = calibrate(tables.read(TableFolder::filled(text, seconds)), {1, 2},
                                      {Constant::gemm_efficiency, Constant::attention_flops}, {}, tables.registry());
  CHECK(value_of(found, "gemm_efficiency") == doctest::Approx(0.55).epsilon(1e-3));
  CHECK(value_of(found, "attention_128_flops") == doctest::Approx(250).epsilon(1e-3));
}

TEST_CASE("a small row and a large one tell the host's launches from the products") {
  TableFolder tables;
  const std::string text = "batch.micro,batch.sequence,measured.step_seconds\n1,128,?\n8,4096,?\n";
  const auto seconds = tables.predicted(text, {"prices.gemm_efficiency=0.5", "prices.launch_seconds=40us"});
  const Calibration found = calibrate(tables.read(TableFolder::filled(text, seconds)), {1, 2},
                                      {Constant::gemm_efficiency, Constant::launch_seconds}, {}, tables.registry());
  CHECK(value_of(found, "gemm_efficiency") == doctest::Approx(0.5).epsilon(1e-3));
  CHECK(value_of(found, "launch_seconds") == doctest::Approx(40).epsilon(1e-3));
}

TEST_CASE("rows that contradict each other are refused in one line that says how") {
  TableFolder tables;
  const std::string text = "batch.micro,measured.step_seconds,prices.gpu\n4,?,h100-sxm\n8,?,h100-sxm\n4,1,h200\n";
  auto seconds = tables.predicted(text, {});
  seconds[1] *= 1.6;
  const MeasurementTable table = tables.read(TableFolder::filled(text, seconds));
  const auto refused = [&](std::vector<int> rows, std::vector<Constant> fit) {
    return test::refusal_of(tables, [&] { calibrate(table, rows, fit, {}, tables.registry()); });
  };
  using enum Constant;
  CHECK(refused({1, 2}, {gemm_efficiency})
            .starts_with("base.csv: rows 2 and 1 contradict each other: alone they need a gemm_efficiency of "));
  CHECK(refused({1, 2}, {gemm_efficiency, attention_flops})
            .starts_with("base.csv: the rows contradict each other: no values in range reproduce them all"));
  CHECK(
      refused({1, 3}, {gemm_efficiency}).starts_with("base.csv: row 3: is of another GPU (prices.gpu h200) than row 1 (h100-sxm)"));
  CHECK(refused({1}, {gemm_efficiency, attention_flops}).starts_with("base.csv: 2 constants cannot follow from 1 row"));
  CHECK(refused({1, 1}, {gemm_efficiency}).starts_with("base.csv: row 1: is named twice"));
  CHECK(refused({7}, {gemm_efficiency}).starts_with("base.csv: has no row 7; its rows are 1 to 3"));
  CHECK(refused({}, {gemm_efficiency}).starts_with("base.csv: no row to calibrate from"));
}

TEST_CASE("a row that no machine could reach is refused") {
  TableFolder tables;
  const std::string text = "batch.micro,measured.step_seconds\n4,?\n";
  const double slow = tables.predicted(text, {"prices.gemm_efficiency=0.6"})[0];
  const auto refused = [&](double seconds) {
    const MeasurementTable table = tables.read(TableFolder::filled(text, {seconds}));
    return test::refusal_of(tables, [&] { calibrate(table, {1}, {Constant::gemm_efficiency}, {}, tables.registry()); });
  };
  CHECK(refused(slow / 10).find("the row is faster than the machine allows") != std::string::npos);
  CHECK(refused(slow * 100).find("the row is slower than that explains") != std::string::npos);
  CHECK(refused(slow) == "accepted");
}

TEST_CASE("two sizes of a collective say its latency and bandwidth, and a third is predicted with them") {
  TableFolder tables;
  tables.folder().write(
      "base.yaml",
      "schemes: [dp]\nplatform: {gpu: h100-sxm, gpus_per_node: 4}\nworld: 4\nmodel: {kind: mlp, widths: [1, 64]}\n"
      "units: whole\nnumerics: off\n");
  const auto seconds = [](double bytes) { return 50e-6 + 2 * 0.75 * bytes / 200e9; };
  const MeasurementTable table = tables.read(
      TableFolder::filled("model.widths,calibrates,measured.all_reduce_seconds\n\"[1, 4000000]\",yes,?\n\"[1, 16000000]\",,?\n"
                          "\"[1, 64000000]\",yes,?\n",
                          {seconds(32e6), seconds(128e6), seconds(512e6)}));
  const Calibration found = calibrate_collective(table, {1, 3}, {}, tables.registry());
  CHECK(value_of(found, "collectives.alpha.all_reduce") == doctest::Approx(50).epsilon(1e-3));
  CHECK(value_of(found, "collectives.bus.all_reduce") == doctest::Approx(200).epsilon(1e-4));
  Protocol protocol;
  protocol.calibrate_per = Protocol::Per::table;
  const std::optional<Validation> validation = validate(table, protocol, tables.registry());
  REQUIRE(validation);
  CHECK(validation->overall.n == 1);
  CHECK(validation->overall.mape < 1e-3);
}
