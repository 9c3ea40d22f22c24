// Damaged results: whatever happens to a file of a run's folder, who reads it says so in one line, or reads what was there before.
#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "app/agreement.h"
#include "app/calibrate_run.h"
#include "app/comparison.h"
#include "app/report.h"
#include "app/results_folder.h"
#include "app/run_folder.h"
#include "core/error.h"
#include "scratch.h"

using namespace shardsim;
namespace fs = std::filesystem;

namespace {

/// A run of two schemes, simulated but as if it had been measured, and a copy of it to damage.
class Runs {
 public:
  Runs() {
    scratch_.write("s.yaml",
                   "schemes: [dp, zero3]\nplatform: ideal-8\nworld: 8\nmodel: {kind: mlp, widths: [8, 16, 4]}\nbatch: {micro: 4}\n"
                   "steps: 2\nfabric: formula\n");
    const std::string command = "cd '" + scratch_.path().string() +
                                "' && " SHARDSIM_PROGRAM
                                " run s.yaml -o good --quiet && sed -i 's/\"simgrid\"/\"cuda\"/' good/summary.json";
    REQUIRE(std::system(command.c_str()) == 0);
    restore();
  }
  void restore() const {
    fs::remove_all(bad());
    fs::copy(good(), bad(), fs::copy_options::recursive);
  }
  fs::path good() const { return scratch_ / "good"; }
  fs::path bad() const { return scratch_ / "bad"; }
  /// Names of all files, from the folder on.
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(good()))
      if (entry.is_regular_file()) names.insert(fs::relative(entry.path(), good()).string());
    return names;
  }
  std::string read(const std::string& name) const { return scratch_.read("good/" + name); }
  void write(const std::string& name, const std::string& text) const { scratch_.write("bad/" + name, text); }

  /// What everybody who reads results makes of the copy: its text, or the one line with which it is refused.
  struct Answer {
    std::string reader;
    std::optional<std::string> text, refusal;
  };
  std::vector<Answer> answers() const {
    const std::pair<const char*, std::function<std::string()>> readers[] = {
        {"report", [this] { return json_lines(report_data(bad())); }},
        {"compare",
         [this] {
           return json_lines(comparison({good(), bad()}));
         }},
        {"validate, predicted", [this] { return json_lines(agreement(bad(), good())); }},
        {"validate, measured", [this] { return json_lines(agreement(good(), bad())); }},
        {"calibrate",
         [this] {
           std::string text;
           for (const Calibration::Value& value : calibrate_collectives_from_run(bad(), "zero3").values) text += value.text + " ";
           return text;
         }},
        {"run", [this] {
           const ResultsFolder checks(bad());
           return std::string("taken");
         }}};
    std::vector<Answer> all;
    for (const auto& [reader, read] : readers) try {
        all.push_back({reader, read(), {}});
      } catch (const ScenarioError& error) {
        all.push_back({reader, {}, error.what()});
      }
    return all;
  }

 private:
  test::Scratch scratch_;
};

bool is_one_line_that_names(const std::string& refusal, const std::string& place) {
  return refusal.find(place) != std::string::npos && refusal.find('\n') == std::string::npos;
}

}  // namespace

TEST_CASE("a file of a run that is gone, a folder, empty, cut or full of noise is named by whoever reads it") {
  const Runs runs;
  const std::vector<Runs::Answer> before = runs.answers();
  for (const Runs::Answer& answer : before) REQUIRE_MESSAGE(answer.text, answer.reader);
  for (const std::string& name : runs.files())
    for (const char* damage : {"gone", "a folder", "empty", "cut", "noise"}) {
      runs.restore();
      if (damage == std::string("gone") || damage == std::string("a folder")) fs::remove(runs.bad() / name);
      if (damage == std::string("a folder")) fs::create_directory(runs.bad() / name);
      if (damage == std::string("empty")) runs.write(name, "");
      if (damage == std::string("cut")) runs.write(name, runs.read(name).substr(0, runs.read(name).size() / 2));
      if (damage == std::string("noise")) runs.write(name, "\x01\xff,\"\n{" + std::string(1, '\0'));
      const bool is_text = name == "scenario.yaml" || name == "table.txt";                      // shown as it is
      const bool is_told = name.ends_with("theta_final.npy") && damage == std::string("gone");  // as not compared
      INFO(name << " is " << std::string(damage));
      const std::vector<Runs::Answer> after = runs.answers();
      for (std::size_t i = 0; i < after.size(); ++i) {
        INFO(after[i].reader << ": " << after[i].refusal.value_or(""));
        if (after[i].refusal) CHECK(is_one_line_that_names(*after[i].refusal, runs.bad().string()));
        else if (!is_text && !is_told) CHECK(after[i].text == before[i].text);  // it does not read that
      }
    }
}

TEST_CASE("of a damaged summary it is said what is wrong, and what helps, and the folder that it lies in is not overwritten") {
  const Runs runs;
  const std::string whole = runs.read("summary.json"), place = (runs.bad() / "summary.json").string() + ": ";
  const auto check = [&](const std::string& text, const std::string& fault) {
    runs.write("summary.json", text);
    for (const Runs::Answer& answer : runs.answers()) {
      REQUIRE_MESSAGE(answer.refusal, answer.reader);
      CHECK_MESSAGE(answer.refusal->find(fault) != std::string::npos, *answer.refusal);
      CHECK_MESSAGE(answer.refusal->find("another folder") != std::string::npos, *answer.refusal);
      if (answer.reader != "run") CHECK_MESSAGE(answer.refusal->starts_with(place + fault), *answer.refusal);
    }
  };
  check(whole.substr(0, whole.size() / 2), "is damaged: it ends early, in line ");
  check("", "is damaged: it is empty");
  for (const char* key : {"schema_version", "program"}) {
    auto summary = nlohmann::ordered_json::parse(whole);
    summary.erase(key);
    check(summary.dump(2), std::string("is damaged: the key '") + key + "' is missing");
  }
  const auto sound = nlohmann::ordered_json::parse(whole);  // lives as long as what is taken from it
  for (const auto& [key, value] : sound["results"][0].items()) {
    auto summary = nlohmann::ordered_json::parse(whole);
    summary["results"][0].erase(key);
    runs.write("summary.json", summary.dump(2));
    const std::optional<std::string> refusal = runs.answers().front().refusal;
    if (refusal) CHECK(*refusal == place + "results[0]." + key + " is missing; run the scenario again to replace the file");
  }
}

TEST_CASE(
    "a value of another kind anywhere in a summary, a number that no run has and a scheme that stands there twice are named") {
  const Runs runs;
  const auto whole = nlohmann::ordered_json::parse(runs.read("summary.json"));
  const auto refusals = [&](const nlohmann::ordered_json& summary) {
    runs.write("summary.json", summary.dump(2));
    int refused = 0;
    for (const Runs::Answer& answer : runs.answers()) {
      if (!answer.refusal) continue;
      ++refused;
      CHECK_MESSAGE(is_one_line_that_names(*answer.refusal, runs.bad().string()), *answer.refusal);
    }
    return refused;
  };
  const nlohmann::ordered_json wrongs[] = {nullptr, nlohmann::ordered_json::array(), nlohmann::ordered_json::object(), "text", 3,
                                           true};
  const auto is_as_good = [](const nlohmann::ordered_json& there, const nlohmann::ordered_json& wrong) {
    return there.type() == wrong.type() || (there.is_number() && wrong.is_number()) || there.is_null();
  };
  for (const bool at_top : {true, false})
    for (const auto& [key, value] : (at_top ? whole : whole["results"][0]).items())
      for (const auto& wrong : wrongs) {
        auto summary = whole;
        (at_top ? summary : summary["results"][0])[key] = wrong;
        INFO(key << ": " << wrong.dump());
        const int refused = refusals(summary);
        const bool may_be_nothing = wrong.is_null() || key == "rank_classes" || key.ends_with("_rank");
        if (!is_as_good(value, wrong) && !may_be_nothing) CHECK(refused > 0);
      }
  for (const auto& wrong : wrongs) {
    auto summary = whole;
    summary["files"] = {{"platform", wrong}};
    if (!wrong.is_string()) CHECK(refusals(summary) >= 4);
  }
  const std::pair<const char*, double> impossible[] = {{"world", 1e30}, {"world", 0},          {"world", 1.5},
                                                       {"steps", 1e30}, {"step_seconds", -1},  {"compute_seconds", -1},
                                                       {"units", -1},   {"parameters", 1e300}, {"peak_bytes", -1}};
  for (const auto& [key, value] : impossible) {
    auto summary = whole;
    summary["results"][0][key] = value;
    INFO(key << ": " << value);
    CHECK(refusals(summary) >= 4);
  }
  auto twice = whole;
  twice["results"].push_back(twice["results"][0]);
  CHECK(refusals(twice) >= 4);
}

TEST_CASE("a cell of a run's tables that is no number is named with file, line and remedy, and never taken for another") {
  const Runs runs;
  const std::set<std::string> texts = {"scheme", "stream", "verb", "payload", "collective", "dtype", "group", "link", "cause"};
  const std::vector<Runs::Answer> before = runs.answers();
  for (const std::string& name : runs.files()) {
    if (!name.ends_with(".csv")) continue;
    std::istringstream lines(runs.read(name));
    std::vector<std::string> table;
    for (std::string line; std::getline(lines, line);) table.push_back(line);
    const auto columns = std::size_t(std::count(table[0].begin(), table[0].end(), ',')) + 1;
    for (std::size_t column = 0; table.size() > 1 && column < columns; ++column) {
      std::string damaged = table[0] + "\n", head = table[0];
      for (std::size_t i = 0; i < column; ++i) head.erase(0, head.find(',') + 1);
      head = head.substr(0, head.find(','));
      for (std::size_t row = 1; row < table.size(); ++row) {
        std::size_t begin = 0;
        for (std::size_t i = 0; i < column; ++i) begin = table[row].find(',', begin) + 1;
        const std::size_t end = std::min(table[row].find(',', begin), table[row].size());
        damaged += row == 1 ? table[row].substr(0, begin) + "?" + table[row].substr(end) + "\n" : table[row] + "\n";
      }
      runs.restore();
      runs.write(name, damaged);
      const std::vector<Runs::Answer> after = runs.answers();
      for (std::size_t i = 0; i < after.size(); ++i) {
        INFO(name << ", " << head << ", " << after[i].reader << ": " << after[i].refusal.value_or(""));
        if (after[i].refusal) CHECK(is_one_line_that_names(*after[i].refusal, (runs.bad() / name).string() + ":2: "));
        else if (texts.count(head) == 0) CHECK(after[i].text == before[i].text);
      }
    }
  }
}

TEST_CASE("a band and a collective that do not exist are named with file and line") {
  const Runs runs;
  const auto renamed = [&](const std::string& name, const std::string& from, const std::string& to) {
    std::string text = runs.read(name);
    text.replace(text.find(from), from.size(), to);
    runs.restore();
    runs.write(name, text);
    std::string refusals;
    for (const Runs::Answer& answer : runs.answers()) refusals += answer.refusal.value_or("") + "\n";
    return refusals;
  };
  CHECK(renamed("dp/memory.csv", ",param,", ",hat,").find("bad/dp/memory.csv:2: there is no band 'hat'; run the scenario again") !=
        std::string::npos);
  CHECK(renamed("zero3/collectives.csv", ",all_gather,fp32,", ",hat,fp32,")
            .find("bad/zero3/collectives.csv:2: there is no collective 'hat'; run the scenario again") != std::string::npos);
}
