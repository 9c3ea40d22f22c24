// The tables' folder.
#include "validate/tables.h"

#include <limits>

#include "app/prediction.h"
#include "core/error.h"

namespace shardsim::test {

TableFolder::TableFolder() {
  folder_.write("base.yaml",
                "schemes: [zero3]\nplatform: {gpu: h100-sxm, gpus_per_node: 2}\nworld: 2\n"
                "model: {kind: gpt2, layers: 2, hidden: 1024, heads: 8, vocab: 4096, positions: 8192}\n"
                "batch: {micro: 2, sequence: 2048}\nprecision: {param: bf16}\nnumerics: off\n");
}

MeasurementTable TableFolder::read(const std::string& text) const {
  folder_.write("base.csv", text);
  return read_measurements(folder_ / "base.csv");
}

std::string TableFolder::refusal(const std::string& text) const {
  return refusal_of(*this, [&] { read(text); });
}

std::vector<double> TableFolder::predicted(const std::string& text, const std::vector<std::string>& more) const {
  const MeasurementTable table = read(filled(text, std::vector<double>(64, 1.0)));
  std::vector<double> seconds;
  for (const MeasuredRow& row : table.rows) seconds.push_back(predict(table, row, more, registry_).seconds);
  return seconds;
}

std::string TableFolder::filled(std::string text, const std::vector<double>& seconds) {
  std::size_t next = 0;
  for (std::size_t at; (at = text.find('?')) != std::string::npos;) {
    char number[32];
    std::snprintf(number, sizeof number, "%.17g", seconds.at(next++));
    text.replace(at, 1, number);
  }
  return text;
}

double value_of(const Calibration& calibration, const std::string& key) {
  for (const Calibration::Value& value : calibration.values)
    if (value.key == key) return std::stod(value.text);
  return std::numeric_limits<double>::quiet_NaN();
}

std::string refusal_of(const TableFolder& tables, const std::function<void()>& f) {
  try {
    f();
    return "accepted";
  } catch (const ScenarioError& error) {
    std::string message = error.what();
    const std::string prefix = tables.folder().path().string() + "/";
    for (std::size_t at; (at = message.find(prefix)) != std::string::npos;) message.erase(at, prefix.size());
    return message;
  }
}

}  // namespace shardsim::test
