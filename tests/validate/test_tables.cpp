// Tables of measurements: what is read, and the one line for what is wrong.
#include <doctest/doctest.h>

#include "app/prediction.h"
#include "app/validate.h"
#include "core/error.h"
#include "validate/tables.h"

using namespace shardsim;
using test::TableFolder;

TEST_CASE("a row sets its cells on the base scenario, and an empty cell sets nothing") {
  TableFolder tables;
  const MeasurementTable table = tables.read(
      "# a comment\nmodel.layers,batch.micro,model.recompute,measured.step_seconds,group,calibrates,source\n"
      "4,,\"{every: 2, early_stop: off}\",1.5,big,yes,\"a \"\"b\"\", c\"\n\n2,8,,0.25,small,,\n");
  REQUIRE(table.rows.size() == 2);
  CHECK(table.base == tables.folder() / "base.yaml");
  CHECK(table.rows[0].overrides == std::vector<std::string>{"model.layers=4", "model.recompute={every: 2, early_stop: off}"});
  CHECK(table.rows[0].source == "a \"b\", c");
  CHECK(table.rows[0].calibrates == "yes");
  CHECK(table.rows[1].overrides == std::vector<std::string>{"model.layers=2", "batch.micro=8"});
  CHECK(table.rows[1].place == (tables.folder() / "base.csv").string() + ":5");
  CHECK(table.rows[1].number == 2);
  CHECK(table.groups() == std::vector<std::string>{"big", "small"});
}

TEST_CASE("a table that is wrong is refused with its line") {
  TableFolder tables;
  CHECK(tables.refusal("model.layers,measured.step_seconds\n2,1,3\n") == "base.csv:2: has 3 cells, but the head names 2 columns");
  CHECK(tables.refusal("model.layers\n2\n").starts_with("base.csv:1: has no column for what was measured"));
  CHECK(tables.refusal("measured.mood,world\n2,2\n").starts_with("base.csv:1: there is no column 'measured.mood'"));
  CHECK(tables.refusal("measured.step_seconds,measured.all_reduce_seconds\n1,1\n").find("has one measurand") != std::string::npos);
  CHECK(tables.refusal("world,world,measured.step_seconds\n1,1,1\n") ==
        "base.csv:1: the column 'world' stands there twice; remove one");
  for (const char* seconds : {"fast", "-1", "0", "nan", ""})
    CHECK(tables.refusal(std::string("world,measured.step_seconds\n2,") + seconds + "\n")
              .find("is not a positive number of seconds") != std::string::npos);
  CHECK(tables.refusal("world,measured.step_seconds\n\"2,1\n") == "base.csv:2: a quote is not closed; a cell ends on its line");
  CHECK(tables.refusal("world,calibrates,measured.step_seconds\n2,maybe,1\n") ==
        "base.csv:2: calibrates: 'maybe' is neither yes nor one of gemm_efficiency, attention_flops, launch_seconds");
  CHECK(tables.refusal("# nothing\n") == "base.csv: holds no rows");
}

TEST_CASE("a column that no scenario knows is refused with file and line") {
  TableFolder tables;
  const MeasurementTable table = tables.read("model.layerz,measured.step_seconds\n2,1\n");
  const std::string message = test::refusal_of(tables, [&] { predict(table, table.rows[0], {}, tables.registry()); });
  CHECK(message.starts_with("base.csv:2: column model.layerz: unknown key; known keys: "));
  const MeasurementTable wrong = tables.read("batch.micro,measured.step_seconds\n2,1\nmany,1\n");
  CHECK(test::refusal_of(tables, [&] { validate(wrong, {}, tables.registry()); }).starts_with("base.csv:3: column batch.micro: "));
}

TEST_CASE("a step of six micro-batches is what two runs of two and three say") {
  TableFolder tables;
  const std::string text = "batch.accumulation,model.layers,schemes,measured.step_seconds\n6,3,zero3,?\n6,2,dp,?\n6,2,zero2,?\n";
  const MeasurementTable table = tables.read(TableFolder::filled(text, {1, 1, 1}));
  for (const MeasuredRow& row : table.rows) {
    const double extrapolated = predict(table, row, {}, tables.registry()).seconds;
    const double run = run_whole(table, row, {}, tables.registry());
    CHECK(std::abs(extrapolated / run - 1) < 1e-9);
  }
}

TEST_CASE("several processes give the same answers in the same order") {
  TableFolder tables;
  const std::string text = "batch.micro,measured.step_seconds\n1,?\n2,?\n3,?\n4,?\n5,?\n";
  const std::vector<double> seconds = tables.predicted(text, {});
  const MeasurementTable table = tables.read(TableFolder::filled(text, seconds));
  const std::optional<Validation> validation = validate(table, {}, tables.registry());
  REQUIRE(validation);
  REQUIRE(validation->rows.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(validation->rows[i].row->number == int(i) + 1);
    CHECK(validation->rows[i].prediction.seconds == seconds[i]);
  }
  CHECK(validation->overall.mape == 0);
}
