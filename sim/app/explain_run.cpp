// Explain a run: a step on the simulator, one of whose ranks keeps the words of what it is charged.
#include "app/explain_run.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "app/run.h"
#include "app/scenario.h"
#include "app/scenario_schemes.h"
#include "app/table.h"
#include "app/yaml_reader.h"
#include "core/error.h"

namespace shardsim {
namespace {

const SchemeChoice& scheme_of(const Scenario& scenario, const std::string& wanted) {
  if (wanted.empty()) return scenario.schemes.front();
  if (const SchemeChoice* found = find_choice(scenario.schemes, wanted)) return *found;
  throw ScenarioError("--scheme " + wanted + ": " + scenario.file.string() + " does not run it; it runs " +
                      labels(scenario.schemes));
}

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%5.1f%%", 100 * share);
  return text;
}

std::string line(const cost::PriceNote& note, double all) {
  char head[96];
  std::snprintf(head, sizeof head, "%s %11s = %5d x %-11s %-14s ", percent(note.seconds / all).c_str(),
                time_text(note.seconds).c_str(), note.count, time_text(note.seconds / note.count).c_str(), name_of(note.verb));
  return head + note.words + "\n";
}

/// "GPUs differ: ...", a line; empty where they do not.
std::string whose_prices(const SchemeResult& result) {
  if (result.noted_for.empty()) return {};
  const bool is_one = result.noted_for.find_first_of("-,") == std::string::npos;
  return std::string("GPUs differ: these are the prices of rank") + (is_one ? " " : "s ") + result.noted_for +
         "; --rank R prices another one.\n";
}

}  // namespace

std::string explain_run(const ExplainRunOptions& options, const Registry& registry) {
  std::vector<std::string> overrides = options.overrides;
  for (const char* ours : {"numerics=off", "steps=2", "backend=simgrid"}) overrides.push_back(ours);
  Scenario scenario = read_scenario(options.scenario, overrides, registry);
  if (options.rank < 0 || options.rank >= scenario.world)
    throw ScenarioError("--rank " + std::to_string(options.rank) + ": there is no such rank; " + scenario.file.string() +
                        " has the ranks 0 to " + std::to_string(scenario.world - 1));
  scenario.noted_rank = options.rank;
  const SchemeChoice& scheme = scheme_of(scenario, options.scheme);
  const SchemeResult result = run_scheme(scenario, TrainingSet(scenario), scheme);

  std::vector<cost::PriceNote> notes = result.notes;
  std::set<std::string> names;
  for (const cost::PriceNote& note : notes) names.insert({note.name, name_of(note.verb)});
  if (!options.only.empty() && !names.count(options.only)) {
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
    throw ScenarioError("--only " + options.only + ": this step has none; it has " + known);
  }
  if (!options.only.empty())
    std::erase_if(notes,
                  [&](const cost::PriceNote& note) { return note.name != options.only && name_of(note.verb) != options.only; });
  std::stable_sort(notes.begin(), notes.end(),
                   [](const cost::PriceNote& a, const cost::PriceNote& b) { return a.seconds > b.seconds; });
  double all = 0;
  for (const cost::PriceNote& note : notes) all += note.seconds;
  const RankResult& rank = result.of(result.noted_rank);
  const double step = rank.step_end.empty() ? 0 : rank.step_end.back() - rank.step_begin.back();
  std::string text = scenario.name + ", " + scheme.label + ": a step of " + time_text(step) + "; rank " +
                     std::to_string(options.rank) + " is charged " + time_text(all) + " in " + std::to_string(notes.size()) +
                     " kinds of operations" + (options.only.empty() ? "" : " (" + options.only + " only)") +
                     ", which overlap where they are on different streams.\n" + whose_prices(result) +
                     "Share, time = count x each, in whose name, and how:\n";
  const std::size_t shown = options.top > 0 ? std::min(notes.size(), std::size_t(options.top)) : notes.size();
  for (std::size_t i = 0; i < shown; ++i) text += line(notes[i], all);
  if (shown < notes.size()) text += "... and " + std::to_string(notes.size() - shown) + " more; --top 0 shows all.\n";
  return text;
}

}  // namespace shardsim
