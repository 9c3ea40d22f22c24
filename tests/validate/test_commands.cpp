// `shardsim validate` and `shardsim calibrate` from outside: exit codes, what is printed and written, and the shipped tables.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <nlohmann/json.hpp>

#include "app/protocols.h"
#include "validate/tables.h"

using namespace shardsim;
using test::TableFolder;

namespace {

int shell(const test::Scratch& folder, const std::string& arguments) {
  const std::string command = "cd '" + folder.path().string() + "' && " SHARDSIM_PROGRAM " " + arguments + " >out 2>err </dev/null";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
bool is_one_line(const std::string& text) { return !text.empty() && text.find('\n') == text.size() - 1; }

}  // namespace

TEST_CASE("a mean error above --max-mape is exit code 1, one below is 0, and the rows are printed either way") {
  TableFolder tables;
  const std::string text = "batch.micro,measured.step_seconds\n1,?\n2,?\n";
  auto seconds = tables.predicted(text, {});
  for (double& each : seconds) each /= 1.08;
  tables.read(TableFolder::filled(text, seconds));
  const test::Scratch& folder = tables.folder();
  CHECK(shell(folder, "validate base.csv") == 0);
  CHECK(has(folder.read("out"), "+8.0 %"));
  CHECK(shell(folder, "validate base.csv --max-mape 9%") == 0);
  CHECK(shell(folder, "validate base.csv --max-mape 7%") == 1);
  CHECK(shell(folder, "validate base.csv --max-mape 0.09") == 0);
  CHECK(shell(folder, "validate base.csv --max-mape 0.07") == 1);
  CHECK(folder.read("err") == "base.csv: the mean error is 8.0 %, more than the 7.0 % allowed\n");
  CHECK(shell(folder, "validate base.csv --json --rows 2..2") == 0);
  const auto json = nlohmann::json::parse(folder.read("out"));
  CHECK(json[0]["errors"]["n"] == 1);
  CHECK(json[0]["rows"][0]["row"] == 2);
  CHECK(double(json[0]["errors"]["mape"]) == doctest::Approx(0.08));
}

TEST_CASE("what calibrate writes is what prices read, and with it the row is reproduced") {
  TableFolder tables;
  const std::string text = "batch.micro,measured.step_seconds\n4,?\n8,?\n";
  tables.read(TableFolder::filled(text, tables.predicted(text, {"prices.gemm_efficiency=0.47"})));
  const test::Scratch& folder = tables.folder();
  REQUIRE(shell(folder, "calibrate base.csv --row 1 -o calibrated.yaml") == 0);
  CHECK(has(folder.read("calibrated.yaml"), "gemm_efficiency: 0.47"));
  CHECK(shell(folder, "validate base.csv --max-mape 0.01% --set prices.from=calibrated.yaml") == 0);
  CHECK(shell(folder, "validate base.csv --max-mape 5%") == 1);
  CHECK(shell(folder, "calibrate base.csv --row 1 --row 9 -o other.yaml") == 2);
  CHECK(!std::filesystem::exists(folder / "other.yaml"));
}

TEST_CASE("wrong input is exit code 2 and one line") {
  TableFolder tables;
  const test::Scratch& folder = tables.folder();
  tables.read("model.layerz,measured.step_seconds\n2,1\n");
  for (const char* wrong : {"validate", "validate nothing.csv", "validate base.csv", "validate base.csv --rows 5..3",
                            "validate base.csv --rows 2..9", "validate base.csv --max-mape much", "validate base.csv --fit mood",
                            "validate base.csv --calibrate-per group", "calibrate base.csv", "calibrate base.csv --row 1"}) {
    CHECK_MESSAGE(shell(folder, wrong) == 2, wrong);
    CHECK_MESSAGE(is_one_line(folder.read("err")), folder.read("err"));
    CHECK(folder.read("out").empty());
  }
}

TEST_CASE("every shipped table is read, and has the rows that its protocols calibrate from") {
  const auto shipped = read_protocols(tables_folder() / "protocols.yaml");
  CHECK(shipped.size() >= 5);
  for (const ShippedTable& each : shipped) {
    const MeasurementTable table = read_measurements(each.table);
    CHECK_MESSAGE(std::filesystem::exists(table.base), table.base.string());
    CHECK(!each.protocols.empty());
    for (const Protocol& protocol : each.protocols)
      if (protocol.calibrate_per != Protocol::Per::nothing) CHECK_MESSAGE(!marked_rows(table, protocol.fit).empty(), protocol.name);
  }
}

TEST_CASE("three rows of the shipped FSDP table are predicted within its targets") {
  const std::filesystem::path table = tables_folder() / "llm-foundry-fsdp.csv";
  TableFolder tables;
  const auto shipped = read_protocols(tables_folder() / "protocols.yaml");
  REQUIRE(shipped[0].table == table);
  const MeasurementTable measured = read_measurements(table);
  for (Protocol protocol : shipped[0].protocols) {
    protocol.first = 57, protocol.last = 60;  // 7B on eight A100s; row 59 calibrates
    const std::optional<Validation> validation = validate(measured, protocol, tables.registry());
    REQUIRE(validation);
    CHECK(validation->overall.n >= 3);
    CHECK_MESSAGE(validation->overall.mape <= *protocol.max_mape, protocol.name << ": " << validation->overall.mape);
  }
}
