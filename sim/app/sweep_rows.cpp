// The rows of a sweep: figures, cells, ranks and the Pareto front.
#include "app/sweep_rows.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "app/fields.h"
#include "app/measurement_table.h"
#include "app/table.h"
#include "core/error.h"
#include "formats/csv.h"

namespace shardsim {
namespace {

using formats::Figures;

constexpr int most_reasons = 5;  // printed

double utilisation(const Figures& f) {
  return f.model_flops > 0 && f.peak_flops > 0 && f.step_seconds.max > 0 ? f.model_flops / f.step_seconds.max / f.peak_flops : NAN;
}

struct Row {
  const SweepRun* run;
  std::string status, reason;
  std::vector<double> figures;
};

Row row_of(const SweepRun& run, const std::string& outcome) {
  const std::vector<std::string> cells = csv_cells(outcome, "sweep");
  Row row{&run, cells.at(0), cells.at(1), {}};
  for (std::size_t i = 0; i < sweep_figures().size(); ++i)
    row.figures.push_back(i + 2 < cells.size() ? number_in(cells[i + 2]).value_or(NAN) : NAN);
  return row;
}

std::size_t index_of(const std::string& name) {
  const std::vector<SweepFigure>& all = sweep_figures();
  return std::size_t(std::find_if(all.begin(), all.end(), [&](const SweepFigure& f) { return f.name == name; }) - all.begin());
}

using Lines = std::vector<std::vector<std::string>>;

/// Columns as wide as their widest cell.
std::string aligned(const Lines& lines) {
  std::vector<std::size_t> widths(lines[0].size());
  for (const auto& line : lines)
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], line[c].size());
  std::string text;
  for (const auto& line : lines) {
    std::string row;
    for (std::size_t c = 0; c < line.size(); ++c) row += line[c] + std::string(widths[c] - line[c].size() + 2, ' ');
    text += "  " + row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

/// Rows in order, at most `top`: rank, the grid's values, scheme, the figures and the status.
std::string rows_text(const SweepPlan& plan, const std::vector<const Row*>& rows, const std::vector<std::size_t>& figures,
                      int top) {
  const std::vector<std::string> keys = plan.grid.keys();
  Lines lines(1, {"#"});
  for (const std::string& key : keys)
    if (key != "schemes") lines[0].push_back(key);
  lines[0].push_back("scheme");
  for (const std::size_t figure : figures) lines[0].push_back(sweep_figures()[figure].name);
  lines[0].push_back("status");
  for (const Row* row : rows) {
    if (int(lines.size()) > top) break;
    std::vector<std::string>& line = lines.emplace_back(1, std::to_string(lines.size()));
    const std::vector<std::string> cells = plan.grid.cells(row->run->point);
    for (std::size_t k = 0; k < keys.size(); ++k)
      if (keys[k] != "schemes") line.push_back(cells[k]);
    line.push_back(row->run->scheme);
    for (const std::size_t figure : figures) line.push_back(figure_text(sweep_figures()[figure].name, row->figures[figure]));
    line.push_back(row->status);
  }
  const std::size_t more = rows.size() + 1 - lines.size();
  return aligned(lines) + (more > 0 ? "  and " + std::to_string(more) + " more\n" : "");
}

std::string counts_text(const SweepPlan& plan, const std::vector<Row>& rows) {
  std::map<std::string, int> counts, reasons;
  for (const Row& row : rows) {
    ++counts[row.status];
    if (!row.reason.empty()) ++reasons[row.status + ": " + row.reason];
  }
  std::string text = std::to_string(rows.size()) + (rows.size() == 1 ? " run of " : " runs of ") + plan.file.string() + ":";
  const char* separator = " ";
  for (const char* status : {"ok", "does_not_fit", "refused", "failed"})
    if (counts[status] > 0) text += separator + std::to_string(counts[status]) + " " + status, separator = ", ";
  text += "\n";
  int shown = 0;
  for (const auto& [reason, times] : reasons)
    if (++shown <= most_reasons) text += "  " + std::to_string(times) + " " + reason + "\n";
  if (shown > most_reasons) text += "  and " + std::to_string(shown - most_reasons) + " more reasons, in sweep.csv\n";
  return text;
}

/// The best first; equal ones stay as they are.
void sort_by(std::size_t figure, std::vector<const Row*>& rows) {
  const bool lowest = sweep_figures()[figure].best == SweepFigure::Best::lowest;
  std::stable_sort(rows.begin(), rows.end(), [&](const Row* a, const Row* b) {
    return lowest ? a->figures[figure] < b->figures[figure] : a->figures[figure] > b->figures[figure];
  });
}

/// Of those that do not fit, what is nearest to fitting; nothing where there is no such run.
std::string why_none(const SweepPlan& plan, const std::vector<Row>& rows) {
  const std::size_t needed = index_of("gpu_needed_bytes");
  const Row* nearest = nullptr;
  for (const Row& row : rows)
    if (row.status == "does_not_fit" && (!nearest || row.figures[needed] < nearest->figures[needed])) nearest = &row;
  if (!nearest) return "; no run has such a figure";
  std::string point = nearest->run->scheme;
  const std::vector<std::string> keys = plan.grid.keys(), cells = plan.grid.cells(nearest->run->point);
  for (std::size_t k = 0; k < keys.size(); ++k)
    if (keys[k] != "schemes") point += ", " + keys[k] + " " + cells[k];
  const bool lacks_host = nearest->figures[needed] <= nearest->figures[index_of("gpu_memory_bytes")];
  const std::string needs = lacks_host ? "host_peak_bytes" : "gpu_needed_bytes",
                    has = lacks_host ? "host_memory_bytes" : "gpu_memory_bytes";
  return "; the nearest (" + point + ") needs " + bytes_text(nearest->figures[index_of(needs)]) + " of the " +
         (lacks_host ? "host's " : "GPU's ") + bytes_text(nearest->figures[index_of(has)]) +
         ". 'shardsim run' at that point says which knob helps; without --fits all are ranked.";
}

bool have_unequal_steps(const std::vector<const Row*>& rows) {
  const auto samples = [](const Row* row) {
    return row->figures[index_of("step_seconds")] * row->figures[index_of("samples_per_second")];
  };
  return std::any_of(rows.begin(), rows.end(),
                     [&](const Row* row) { return std::abs(samples(row) / samples(rows[0]) - 1) > 1e-6; });
}

/// Of the rows that fit, what no other one beats in the figure or in memory without being beaten in the other, the best by the
/// figure first; equal ones are all told.
std::string front_text(const SweepPlan& plan, std::vector<const Row*> rows, std::size_t figure, int top) {
  const std::size_t memory = index_of("gpu_needed_bytes");
  std::erase_if(rows, [](const Row* row) { return row->status != "ok"; });
  sort_by(memory, rows);
  sort_by(figure, rows);
  std::vector<const Row*> front;
  const auto is_equal = [&](const Row* a, const Row* b) {
    return a->figures[figure] == b->figures[figure] && a->figures[memory] == b->figures[memory];
  };
  for (const Row* row : rows)
    if (front.empty() || row->figures[memory] < front.back()->figures[memory] || is_equal(row, front.back())) front.push_back(row);
  const std::string head = std::string("Pareto front of ") + sweep_figures()[figure].name + " against gpu_needed_bytes";
  if (front.empty()) return head + ": none of these runs fits.\n";
  return head + ", of the " + (rows.size() == 1 ? "run that fits" : std::to_string(rows.size()) + " runs that fit") + ":\n" +
         rows_text(plan, front, {figure, memory}, top);
}

}  // namespace

const std::vector<SweepFigure>& sweep_figures() {
  using Best = SweepFigure::Best;
  static const std::vector<SweepFigure> all = {
      {"parameters", Best::neither, [](const Figures& f) { return double(f.parameters); }},
      {"step_seconds", Best::lowest, [](const Figures& f) { return f.step_seconds.max; }},
      {"compute_seconds", Best::lowest, [](const Figures& f) { return f.compute_seconds.max; }},
      {"exposed_comm_seconds", Best::lowest, [](const Figures& f) { return f.exposed_comm_seconds.max; }},
      {"samples_per_second", Best::highest, [](const Figures& f) { return f.rows_per_second; }},
      {"tokens_per_second", Best::highest, [](const Figures& f) { return f.rows_per_second * double(f.tokens_per_row); }},
      {"model_flops_utilisation", Best::highest, utilisation},
      {"bytes_sent_per_rank_per_step", Best::lowest, [](const Figures& f) { return f.bytes_sent.max; }},
      {"resident_bytes", Best::lowest, [](const Figures& f) { return double(f.resident_bytes.max); }},
      {"model_state_peak_bytes", Best::lowest, [](const Figures& f) { return double(f.model_state_peak_bytes.max); }},
      {"peak_bytes", Best::lowest, [](const Figures& f) { return double(f.peak_bytes.max); }},
      {"gpu_needed_bytes", Best::lowest, [](const Figures& f) { return double(f.needed_bytes()); }},
      {"gpu_memory_bytes", Best::neither, [](const Figures& f) { return double(f.gpu_memory); }},
      {"host_peak_bytes", Best::lowest, [](const Figures& f) { return double(f.host_peak_bytes.max); }},
      {"host_memory_bytes", Best::neither, [](const Figures& f) { return f.host_memory > 0 ? double(f.host_memory) : NAN; }},
      {"loss_last", Best::lowest, [](const Figures& f) { return f.losses.empty() ? NAN : f.losses.back(); }},
  };
  return all;
}

std::size_t rankable_figure(const std::string& name) {
  const std::size_t found = index_of(name);
  if (found < sweep_figures().size() && sweep_figures()[found].best != SweepFigure::Best::neither) return found;
  std::vector<std::string> known;
  for (const SweepFigure& figure : sweep_figures())
    if (figure.best != SweepFigure::Best::neither) known.push_back(figure.name);
  throw ScenarioError("--best " + quoted(name) + ": there is no such figure to rank by; known figures: " + joined(known));
}

std::string outcome_of(const Figures& figures) {
  // A real system has no closed forms.
  const bool is_first_step = figures.steps == 1 && std::isnan(figures.formula_resident);
  std::string text = figures.fits()       ? is_first_step ? "ok,its first step; say steps: 3 for a later one" : "ok,"
                     : figures.fits_gpu() ? "does_not_fit,the host's memory is too small"
                                          : "does_not_fit,";
  for (const SweepFigure& figure : sweep_figures()) {
    const double value = figure.of(figures);
    text += "," + (std::isnan(value) ? "" : formats::number_text(value));
  }
  return text;
}

std::string outcome_without_figures(const std::string& status, const std::string& reason) {
  std::string line = reason;
  std::replace(line.begin(), line.end(), '\n', ' ');
  return status + "," + formats::field(line) + std::string(sweep_figures().size(), ',');
}

std::string sweep_csv(const SweepPlan& plan, const std::vector<std::string>& outcomes) {
  std::string text;
  for (const std::string& key : plan.grid.keys()) text += formats::field(key) + ",";
  text += "scheme,status,reason";
  for (const SweepFigure& figure : sweep_figures()) text += std::string(",") + figure.name;
  text += "\n";
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    for (const std::string& cell : plan.grid.cells(plan.runs[i].point)) text += formats::field(cell) + ",";
    text += formats::field(plan.runs[i].scheme) + "," + outcomes[i] + "\n";
  }
  return text;
}

std::string ranking_text(const SweepPlan& plan, const std::vector<std::string>& outcomes, const Ranking& ranking) {
  const std::size_t best = rankable_figure(ranking.best);
  std::vector<Row> all;
  for (std::size_t i = 0; i < plan.runs.size(); ++i) all.push_back(row_of(plan.runs[i], outcomes[i]));
  std::vector<const Row*> rows;
  for (const Row& row : all)
    if (!std::isnan(row.figures[best]) && (row.status == "ok" || !ranking.only_fitting)) rows.push_back(&row);
  sort_by(best, rows);
  std::string text =
      counts_text(plan, all) + "\nBest by " + ranking.best + (ranking.only_fitting ? ", of those that fit:\n" : ":\n");
  if (rows.empty()) return text + wrapped("  none" + why_none(plan, all), 6);
  std::vector<std::size_t> shown = {best};
  for (const char* name : {"step_seconds", "samples_per_second", "gpu_needed_bytes"})
    if (index_of(name) != best) shown.push_back(index_of(name));
  text += rows_text(plan, rows, shown, ranking.top);
  if (ranking.best.ends_with("_seconds") && have_unequal_steps(rows))
    text += "  Steps differ in how much they train on; --best samples_per_second compares that.\n";
  return text + "\n" + front_text(plan, rows, ranking.best == "gpu_needed_bytes" ? index_of("step_seconds") : best, ranking.top);
}

}  // namespace shardsim
