// Explain a pair: a line diff by the longest common subsequence, and a table of trials.
#include "app/explain_pair.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "app/explain_system.h"
#include "app/table.h"
#include "app/trial.h"
#include "core/formulas.h"

namespace shardsim {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string cell(const std::string& text, std::size_t columns) {
  return text + std::string(text.size() < columns ? columns - text.size() : 1, ' ');
}

struct Row {
  std::string name, formula, simulated;
};

std::vector<Row> rows_of(const SchemeChoice& choice) {
  std::vector<Row> rows;
  for (const int accumulation : {1, 2, 4}) {
    const Trial trial = try_out(choice, accumulation);
    const auto& [scenario, result, figures] = trial;
    const Precision& precision = scenario.knobs.precision;
    rows.push_back({"traffic, " + std::to_string(accumulation) + " micro-batch" + (accumulation > 1 ? "es" : ""),
                    decimal_text(formulas::traffic_units(result.shard, precision, accumulation, result.world, result.shards)),
                    decimal_text(figures.traffic_units)});
    if (accumulation > 1) continue;
    rows.push_back({"resident", decimal_text(formulas::resident_bytes(result.shard, precision, result.shards, true)),
                    decimal_text(figures.per_parameter(double(figures.resident_bytes.max)))});
    rows.push_back({"model-state peak", decimal_text(formulas::table_peak_bytes(result.shard, precision, result.shards, true)),
                    decimal_text(figures.per_parameter(double(figures.model_state_peak_bytes.max)))});
  }
  std::rotate(rows.begin() + 1, rows.begin() + 3, rows.end());  // the traffics first
  return rows;
}

}  // namespace

std::string line_diff(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::vector<int>> common(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = a.size(); i-- > 0;)
    for (std::size_t j = b.size(); j-- > 0;)
      common[i][j] = a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  std::string text;
  std::size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) text += "  " + a[i++] + "\n", ++j;
    else if (i < a.size() && (j == b.size() || common[i + 1][j] >= common[i][j + 1])) text += "- " + a[i++] + "\n";
    else text += "+ " + b[j++] + "\n";
  }
  return text;
}

std::string class_text(const SchemeEntry& entry, const Registry& registry) {
  const std::size_t begin = entry.source.find("\nclass "), end = entry.source.rfind("\n};");
  if (begin == std::string::npos || end == std::string::npos) return entry.source;
  const std::string text = entry.source.substr(begin + 1, end + 4 - begin - 1);
  if (text.find("void step()") != std::string::npos) return text;
  const std::size_t base = text.find(": public ");
  if (base == std::string::npos) return text;
  std::string name = text.substr(base + 9, text.find_first_of(" {", base + 9) - base - 9);
  if (const std::size_t scope = name.rfind("::"); scope != std::string::npos) name.erase(0, scope + 2);
  for (const SchemeEntry& other : registry.entries())
    if (other.source.find("\nclass " + name + " ") != std::string::npos) return class_text(other, registry) + "\n" + text;
  return text;
}

std::string consequences(const SchemeChoice& choice) {
  std::string text = "Consequences for " + trial_words() + ":\n" + cell("", 27) + cell("formula", 10) + "simulated\n";
  for (const Row& row : rows_of(choice)) text += "  " + cell(row.name, 25) + cell(row.formula, 10) + row.simulated + "\n";
  return text + "Traffic in units of P(N-1)/N per step; resident and peak in bytes per parameter.\n";
}

std::string explain_pair(const SchemeChoice& a, const SchemeChoice& b, const Registry& registry) {
  if (!a.make()->has_closed_forms() || !b.make()->has_closed_forms()) return explain_systems(a, b);
  std::string text = "--- " + a.label + ": " + a.entry.summary + "\n+++ " + b.label + ": " + b.entry.summary + "\n\n";
  text += line_diff(lines_of(class_text(a.entry, registry)), lines_of(class_text(b.entry, registry))) + "\n";
  const std::vector<Row> first = rows_of(a), second = rows_of(b);
  text += "Consequences for " + trial_words() + ":\n" + cell("", 27) + cell(a.label, 22) + b.label + "\n" + cell("", 27) +
          cell("formula | simulated", 22) + "formula | simulated\n";
  for (std::size_t i = 0; i < first.size(); ++i)
    text += "  " + cell(first[i].name, 25) + cell(first[i].formula + " | " + first[i].simulated, 22) + second[i].formula + " | " +
            second[i].simulated + (first[i].simulated == second[i].simulated ? "" : "   <-") + "\n";
  return text + "Traffic in units of P(N-1)/N per step; resident and peak in bytes per parameter.\n";
}

}  // namespace shardsim
