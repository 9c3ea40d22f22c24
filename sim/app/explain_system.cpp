// Explain a system: lines that repeat per block are shown once.
#include "app/explain_system.h"

#include <cctype>
#include <cstdio>

#include "app/columns.h"
#include "app/explain_pair.h"
#include "app/table.h"
#include "app/trial.h"

namespace shardsim {
namespace {

constexpr std::size_t longest_period = 12;  // lines of a block
constexpr std::size_t page_width = 110, worth_folding = 3;

/// The text with # for every number.
std::string without_numbers(const std::string& text) {
  std::string kind;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!std::isdigit(static_cast<unsigned char>(text[i]))) kind += text[i];
    else if (kind.empty() || kind.back() != '#') kind += '#';
  }
  return kind;
}

std::string kind_of(const TimelineEntry& e) {
  return without_numbers(e.trigger + "|" + e.what + "|" + e.waits_for + "|" + e.frees + "|" + name_of(e.lane)) +
         (e.bytes > 0 ? "+" : "");
}

/// One line, or two where it would be wider than a page.
std::vector<std::string> lines_of(const std::string& margin, const TimelineEntry& e) {
  std::string head = e.trigger + ": " + e.what, tail;
  if (e.bytes > 0) head += ", " + bytes_text(double(e.bytes));
  head = margin + head + " [" + name_of(e.lane) + "]";
  if (!e.waits_for.empty()) tail += "; waits for " + e.waits_for;
  if (!e.frees.empty()) tail += "; frees " + e.frees;
  if (tail.empty() || head.size() + tail.size() <= page_width) return {head + tail};
  return {head, std::string(margin == "   " ? margin : " | ") + "    " + tail.substr(2)};
}

std::vector<std::string> timeline_lines(const std::vector<TimelineEntry>& timeline) {
  std::vector<std::string> lines;
  for (const TimelineRun& run : folded(timeline)) {
    for (std::size_t i = 0; i < run.lines; ++i)
      for (const std::string& line : lines_of(run.times == 1 ? "   " : i == 0 ? " / " : " | ", timeline[run.begin + i]))
        lines.push_back(line);
    if (run.times == 1) continue;
    const TimelineEntry& last = timeline[run.begin + run.lines * (run.times - 1)];
    lines.push_back(" \\ " + std::to_string(run.times) + " times in all, the last one from: " + last.trigger + ": " + last.what);
  }
  return lines;
}

double of(const Composition& parts, Band band) {
  double bytes = 0;
  for (const Part& part : parts) bytes += part.band == band ? double(part.bytes) : 0;
  return bytes;
}

std::string figures_text(const Trial& trial) {
  const formats::Figures& f = trial.figures;
  std::string text = left("", 12) + right("resident", 13) + right("at the peak", 13) + "\n";
  for (int i = 0; i < band_count; ++i) {
    const double resident = of(f.resident, Band(i)), peak = double(f.peak.of(Band(i)));
    if (resident + peak > 0)
      text += "  " + left(name_of(Band(i)), 10) + right(bytes_text(resident), 13) + right(bytes_text(peak), 13) + "\n";
  }
  text += "  " + left("all", 10) + right(bytes_text(double(f.resident_bytes.max)), 13) +
          right(bytes_text(double(f.peak_bytes.max)), 13) + "\n";
  return text + "Sent per rank and step: " + bytes_text(f.bytes_sent.max) + ", " + decimal_text(f.traffic_units) +
         " P(N-1)/N. A step: " + time_text(f.step_seconds.max) + ".\n";
}

}  // namespace

std::vector<TimelineRun> folded(const std::vector<TimelineEntry>& timeline) {
  std::vector<std::string> kinds;
  for (const TimelineEntry& entry : timeline) kinds.push_back(kind_of(entry));
  std::vector<TimelineRun> runs;
  for (std::size_t at = 0; at < kinds.size();) {
    TimelineRun best{at, 1, 1};
    for (std::size_t lines = 1; lines <= longest_period && at + 2 * lines <= kinds.size(); ++lines) {
      std::size_t end = at + lines;
      while (end < kinds.size() && kinds[end] == kinds[end - lines]) ++end;
      const std::size_t times = (end - at) / lines;
      if (times >= worth_folding && lines * times > best.lines * best.times) best = {at, lines, times};
    }
    runs.push_back(best);
    at += best.lines * best.times;
  }
  return runs;
}

std::string explain_system(const SchemeChoice& choice) {
  const Trial trial = try_out_on_gpt2({choice}).front();
  const std::vector<TimelineEntry>& timeline = trial.result.timeline;
  std::string text = "A steady step of " + gpt2_trial_words(trial) + ":\n";
  if (timeline.empty()) text += "  (the scheme tells no timeline)\n";
  else
    text += "trigger: what, bytes of the whole buffer [stream]; waits for; frees. " + std::to_string(timeline.size()) +
            " lines; what repeats is shown once.\n";
  for (const std::string& line : timeline_lines(timeline)) text += line + "\n";
  return text + "\nMemory of that run, of the rank with most:\n" + figures_text(trial);
}

std::string explain_systems(const SchemeChoice& a, const SchemeChoice& b) {
  const std::vector<Trial> trials = try_out_on_gpt2({a, b});
  const Trial &first = trials[0], &second = trials[1];
  std::string text = "--- " + a.label + ": " + a.entry.summary + "\n+++ " + b.label + ": " + b.entry.summary + "\n\n";
  const std::string words = gpt2_trial_words(first), others = gpt2_trial_words(second);
  text += "A steady step of " + words + (others == words ? "" : "; of " + b.label + ", " + others) + ":\n";
  text += line_diff(timeline_lines(first.result.timeline), timeline_lines(second.result.timeline));
  return text + "\n" + a.label + ":\n" + figures_text(first) + "\n" + b.label + ":\n" + figures_text(second);
}

}  // namespace shardsim
