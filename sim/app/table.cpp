// Table: two blocks of columns, then the notes.
#include "app/table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "app/columns.h"
#include "app/metrics.h"
#include "app/remedy.h"
#include "app/scenario_model.h"
#include "app/prices.h"

namespace shardsim {
namespace {

using formats::Figures;

constexpr std::size_t width = 100;

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  std::string out = text;
  if (const std::size_t at = out.find("-nan"); at != std::string::npos) out.erase(at, 1);  // printf tells -nan from nan
  return out;
}

/// The two sides of the bar, the bar in a fixed column.
std::string pair(double formula, double simulated) {
  return right(std::isnan(formula) ? "-" : decimal_text(formula), 10) + " | " + left(decimal_text(simulated), 9);
}

std::string units_text(const std::set<int>& units, int all) {
  if (units.size() > 4 || (int(units.size()) == all && all > 1)) return format("%d of %d units", int(units.size()), all);
  std::string text = units.size() == 1 ? "unit" : "units";
  const char* separator = " ";
  for (int unit : units) text += separator + std::to_string(unit), separator = ", ";
  return text;
}

/// "2 param + 0.25 grad + 1.5 opt + 2 gathered of unit 0 (all_gather)": what has been held since bind, then the loans.
std::string composition(const Figures& f, const Composition& parts) {
  struct Sum {
    std::int64_t bytes = 0;
    std::set<int> units;
  };
  std::map<std::tuple<bool, Band, Verb>, Sum> sums;
  for (const Part& part : parts) {
    Sum& sum = sums[{part.cause != Verb::bind, part.band, part.cause}];
    sum.bytes += part.bytes;
    if (part.unit >= 0) sum.units.insert(part.unit);
  }
  std::string text;
  for (const auto& [key, sum] : sums) {
    const auto& [loan, band, cause] = key;
    text += (text.empty() ? "" : " + ") + decimal_text(f.per_parameter(double(sum.bytes))) + " " + name_of(band);
    if (loan && !sum.units.empty()) text += " of " + units_text(sum.units, f.units);
    if (loan) text += std::string(" (") + name_of(cause) + ")";
  }
  return text;
}

/// Beyond what the padding adds, of which one note tells for all.
bool differ(const Figures& f, double formula, double simulated) {
  const double unpadded = simulated * double(f.parameters) / double(f.parameters + f.padding);
  return std::abs(formula - unpadded) > 1e-4 && decimal_text(formula) != decimal_text(simulated);
}

std::string head(const Scenario& scenario, const SchemeResult& first, const Figures& f) {
  const Precision& p = scenario.knobs.precision;
  std::string text = scenario.name + ": " + std::to_string(f.world) + (f.world == 1 ? " rank" : " ranks") + " (" + f.gpu + "), " +
                     std::to_string(f.parameters) + " parameters of " + std::to_string(p.bytes_per_parameter(Band::param)) + " + " +
                     std::to_string(p.bytes_per_parameter(Band::grad)) + " + " + std::to_string(p.bytes_per_parameter(Band::opt)) +
                     " bytes in " + std::to_string(f.units) + (f.units == 1 ? " unit, " : " units, ") +
                     std::to_string(scenario.steps) + (scenario.steps == 1 ? " step, " : " steps, ") + first.backend;
  if (first.backend == "simgrid") text += std::string(" (") + name_of(scenario.fabric) + ")";
  return wrapped(text, 2);
}

std::string memory_block(const std::vector<Figures>& all, std::size_t name) {
  std::string text = left("", name) + "   traffic, P(N-1)/N       resident, B/param      model-state peak, B/param\n" +
                     left("scheme", name) +
                     "    formula | simulated     formula | simulated     formula | simulated   total peak\n";
  for (const Figures& f : all)
    text += left(f.scheme, name) + " " + pair(f.formula_traffic_units, f.traffic_units) + "  " +
            pair(f.formula_resident, f.per_parameter(double(f.resident_bytes.max))) + "  " +
            pair(f.formula_model_state_peak, f.per_parameter(double(f.model_state_peak_bytes.max))) +
            right(bytes_text(double(f.peak_bytes.max)), 13) + "\n";
  return text;
}

/// What the GPUs reach of their peak, by the model's operations.
std::string utilisation_note(const std::vector<Figures>& all) {
  std::string text;
  for (const Figures& f : all) {
    if (f.model_flops == 0 || f.peak_flops == 0 || f.step_seconds.max == 0) continue;
    const double rate = f.model_flops / f.step_seconds.max;
    text += (text.empty() ? "Model FLOPs per GPU (6 per weight and token, and attention): " : "; ") + f.scheme +
            format(" %.4g TFLOP/s, %.1f %% of the peak", rate / 1e12, 100 * rate / f.peak_flops);
  }
  return text.empty() ? "" : wrapped(text + ".", 2);
}

/// How near the losses have come to the entropy of the language; schemes of equal losses together.
std::string entropy_notes(const std::vector<Figures>& all) {
  std::string text;
  std::vector<std::pair<double, std::string>> tails;
  for (const Figures& f : all) {
    if (!f.entropy || f.losses.size() < 10) continue;
    const auto same = std::find_if(tails.begin(), tails.end(), [&](const auto& tail) { return tail.first == f.loss_last_tenth(); });
    if (same != tails.end()) same->second += ", " + f.scheme;
    else tails.push_back({f.loss_last_tenth(), f.scheme});
  }
  for (const auto& [tail, schemes] : tails) {
    const Figures& f = all.front();
    text +=
        wrapped(format("The language has %.4f nats per token; the mean loss of the last %d steps is %.4f (", *f.entropy,
                       int(f.losses.size() / 10), tail) +
                    schemes + format("), %+.1f standard errors of %.2g.", (tail - *f.entropy) / f.loss_deviation, f.loss_deviation),
                2);
  }
  return text;
}

std::string time_block(const Scenario& scenario, const std::vector<Figures>& all, std::size_t name) {
  std::string text = left("scheme", name) + "         step     compute   exposed communication   first loss    last loss   theta\n";
  const auto loss = [](const Figures& f, double value) { return f.losses.empty() ? std::string("-") : format("%.6g", value); };
  for (const Figures& f : all)
    text += left(f.scheme, name) + " " + right(time_text(f.step_seconds.max), 12) + right(time_text(f.compute_seconds.max), 12) +
            right(time_text(f.exposed_comm_seconds.max), 24) + right(loss(f, f.losses.empty() ? 0 : f.losses.front()), 13) +
            right(loss(f, f.losses.empty() ? 0 : f.losses.back()), 13) + "   " +
            (f.theta_hash ? formats::hash_text(*f.theta_hash).substr(0, 8) : "-") + "\n";
  if (scenario.numerics == Numerics::twin && scenario.transformer) {
    const TransformerShape real = real_shape(scenario);
    text += wrapped(
        format("Loss and theta are the twin's: as deep, hidden %lld, %lld heads, a vocabulary of %lld, sequences of %lld tokens.",
               (long long)real.hidden, (long long)real.heads, (long long)real.vocab, (long long)real.positions),
        2);
  } else if (scenario.numerics == Numerics::twin) {
    text += format("Loss and theta are the twin's (widths of at most %lld).\n", (long long)scenario.twin_width);
  }
  return text + utilisation_note(all) + entropy_notes(all);
}

/// PyTorch's three numbers, and what is outside of them; only where its allocator was emulated.
std::string allocator_block(const std::vector<Figures>& all, std::size_t name) {
  if (!all.front().allocator.emulated) return {};
  std::string text =
      left("scheme", name) + "    requested   allocated    reserved     outside   fits   (peaks, PyTorch's allocator)\n";
  for (const Figures& f : all) {
    text += left(f.scheme, name) + " " + right(bytes_text(double(f.requested_peak_bytes.max)), 12) +
            right(bytes_text(double(f.allocated_peak_bytes.max)), 12) + right(bytes_text(double(f.reserved_bytes.max)), 12) +
            right(bytes_text(double(f.outside_bytes.max)), 12) + "   " +
            (f.gpu_memory == 0 ? "-"
             : f.fits()        ? "yes"
                               : "no");
    if (f.allocator.retries > 0)
      text += format("    cache given back %lld time%s", (long long)f.allocator.retries, f.allocator.retries == 1 ? "" : "s");
    text += "\n";
  }
  return text + "\n";
}

/// What the scenario tells of a real run; empty if it tells nothing of these schemes.
std::string measured_block(const Scenario& scenario, const std::vector<Figures>& all, std::size_t name) {
  std::string text;
  for (const Figures& f : all)
    for (const Figures::Measured& each : f.measured)
      text += left(f.scheme, name) + " " + left(each.figure, 33) + right(figure_text(each.figure, each.here), 12) +
              right(figure_text(each.figure, each.measured), 12) + right(change_text(each.here, each.measured), 9) + "\n";
  if (text.empty()) return {};
  const char* here = all.front().backend == "simgrid" ? "simulated" : "here";
  return left("scheme", name) + " " + left("figure", 33) + right(here, 12) + right("measured", 12) + right("error", 9) + "\n" +
         text + wrapped("Measured: " + scenario.measured_source, 2) + "\n";
}

/// "1.00 MiB param + 12 B workspace".
std::string by_band(const Peak& peak) {
  std::string parts;
  for (int band = 0; band < band_count; ++band)
    if (const std::int64_t bytes = peak.of(Band(band)); bytes > 0)
      parts += (parts.empty() ? "" : " + ") + bytes_text(double(bytes)) + " " + name_of(Band(band));
  return parts;
}

/// The reasons for what differs from the closed forms; of a real system, which has none, all of it.
std::string gap_notes(const Scenario& scenario, const SchemeResult& result, const Figures& f) {
  const auto beside = [](double formula) { return std::isnan(formula) ? std::string() : ", formula " + decimal_text(formula); };
  std::string text;
  if (std::isnan(f.formula_traffic_units) || differ(f, f.formula_traffic_units, f.traffic_units)) {
    std::string moved;
    for (const Movement& movement : movements(scenario, result))
      moved += (moved.empty() ? "" : ", ") + std::string(name_of(movement.verb)) + " " + decimal_text(movement.units);
    const std::string repeated = std::isnan(f.formula_traffic_units) ? "" : repeated_gathers(scenario, result);
    text += wrapped("  " + f.scheme + " traffic " + decimal_text(f.traffic_units) + beside(f.formula_traffic_units) +
                        ": buffers moved per step, in units of the model: " + (moved.empty() ? "none recorded" : moved) +
                        (repeated.empty() ? "" : "; " + repeated),
                    6);
  }
  const double resident = f.per_parameter(double(f.resident_bytes.max));
  if (std::isnan(f.formula_resident) || differ(f, f.formula_resident, resident))
    text += wrapped("  " + f.scheme + " resident " + decimal_text(resident) + beside(f.formula_resident) + ": " +
                        decimal_text(resident) + " = " + composition(f, f.resident),
                    6);
  if (std::isnan(f.formula_resident))
    text += wrapped("  " + f.scheme + " peak " + bytes_text(double(f.peak.bytes)) + " = " + by_band(f.peak), 6);
  if (f.host_peak.bytes > 0)
    text +=
        wrapped("  " + f.scheme + " on the host " + bytes_text(double(f.host_resident_bytes.max)) + " per rank, peak " +
                    bytes_text(double(f.host_peak.bytes)) + (f.host_memory > 0 ? " of " + bytes_text(double(f.host_memory)) : "") +
                    " = " + by_band(f.host_peak) + "; between host and GPU " + bytes_text(f.host_link_bytes.max) +
                    " per step, of which to the GPU " + bytes_text(f.host_to_device_bytes.max),
                6);
  if (f.over_single_gpu_seconds)
    text +=
        wrapped("  " + f.scheme + " last step " + time_text(f.last_step_seconds) + ": " + time_text(*f.over_single_gpu_seconds) +
                    " over the measured step on one GPU, of which " + time_text(f.exposed_comm_seconds.max) +
                    " is communication that nothing hides; the rest is optimizer, copies and the host",
                6);
  return text;
}

/// The largest difference of a parameter, as a share of the largest parameter.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    most = std::max(most, std::abs(double(a[i]) - double(b[i])));
    largest = std::max(largest, std::abs(double(a[i])));
  }
  return largest > 0 ? most / largest : most;
}

std::string theta_note(const Scenario& scenario, const std::vector<SchemeResult>& results, const std::vector<Figures>& all) {
  std::vector<std::size_t> firsts;  // of each group of equal bits
  std::map<std::uint64_t, std::string> groups;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].theta_hash) continue;
    std::string& names = groups[*all[i].theta_hash];
    if (names.empty()) firsts.push_back(i);
    names += (names.empty() ? "" : ", ") + all[i].scheme;
  }
  if (groups.empty())
    return scenario.records_theta ? "theta: none, numerics are off.\n" : "theta: not recorded (record: {theta: off}).\n";
  if (groups.size() == 1)
    return wrapped("theta: " + formats::hash_text(groups.begin()->first) +
                       (all.size() > 1 ? ", the same bits in " + groups.begin()->second : "") + ".",
                   2);
  std::string text = "theta differs:";
  double largest = 0;
  bool has_replicas = false;
  for (const std::size_t i : firsts) {
    text += " " + formats::hash_text(*all[i].theta_hash) + " in " + groups[*all[i].theta_hash] + ";";
    largest = std::max(largest, distance(results[firsts[0]].theta, results[i].theta));
  }
  for (const SchemeResult& result : results) has_replicas |= !result.shard.empty() && result.shards < result.world;
  text.back() = '.';
  text += format(" The largest difference of a parameter is %.2g of the largest parameter.", largest);
  if (scenario.knobs.accumulation > 1)
    text +=
        " Under accumulation a rank that keeps all gradients adds its micro-batches first and reduces once; one that keeps its "
        "slice only reduces every micro-batch and adds the sums: another order of the same additions, rounded otherwise.";
  if (has_replicas)
    text += " With several replicas, sums run over the shards first and over the replicas then: another order, too.";
  return wrapped(text, 2);
}

}  // namespace

std::string wrapped(const std::string& text, std::size_t indent) {
  std::string out, line;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t space = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, space - at);
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      out += line + '\n';
      line = std::string(indent, ' ') + word;
    } else {
      line += (at == 0 ? "" : " ") + word;
    }
    at = space + 1;
  }
  return out + line + '\n';
}

std::string decimal_text(double value) {
  std::string text = format("%.4f", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string precise_text(double value) { return format("%.12g", value); }

std::string figure_text(const std::string& name, double value) {
  if (std::isnan(value)) return "-";
  if (name.ends_with("_seconds")) return time_text(value);
  return name.find("bytes") != std::string::npos && !name.ends_with("_per_param") ? bytes_text(value) : decimal_text(value);
}

std::string share_text(double share) {
  if (!std::isfinite(share)) return "";
  if (std::abs(share) < 1e-9) return "=";  // sums that were added up in another order
  return format(std::abs(share) < 0.0005 ? "%+.1g %%" : "%+.1f %%", 100 * share);
}

std::string change_text(double value, double from) { return value == from ? "=" : share_text((value - from) / std::abs(from)); }

std::string bytes_text(double bytes) {
  if (bytes < 1024) return format("%.0f B", bytes);
  int power = -1;
  for (; bytes >= 1024 && power < 3; bytes /= 1024) ++power;
  return format("%.2f %ciB", bytes, "KMGT"[power]);
}

std::string time_text(double seconds) {
  if (seconds == 0) return "0 s";
  if (seconds >= 1) return format("%.3f s", seconds);
  if (seconds >= 1e-3) return format("%.3f ms", seconds * 1e3);
  return seconds >= 1e-6 ? format("%.3f us", seconds * 1e6) : format("%.3g ns", seconds * 1e9);
}

std::vector<std::string> run_notes(const Scenario& scenario, const std::vector<SchemeResult>& results,
                                   const std::vector<Figures>& all) {
  std::vector<std::string> notes;
  if (all.empty()) return notes;
  std::string only_first;
  for (const Figures& f : all) {
    if (f.diverged_step)
      notes.push_back(f.scheme + " diverged: its loss is not finite from step " + std::to_string(*f.diverged_step) + " on.");
    if (!f.fits()) notes.push_back(misfit_text(scenario, results[&f - all.data()], f));
    const SchemeResult& result = results[std::size_t(&f - all.data())];
    if (result.first_steady > 0 && std::abs(f.first_step_seconds - f.step_seconds.max) > 0.01 * f.step_seconds.max)
      notes.push_back(f.scheme + ": the first step takes " + time_text(f.first_step_seconds) +
                      "; the table shows what a later one does, the mean of " +
                      (f.steps > 2 ? "steps 2 to " + std::to_string(f.steps) : "step 2") + ".");
    if (f.steps == 1 && !result.has_closed_forms) only_first += (only_first.empty() ? "" : ", ") + f.scheme;
    if (f.interrupted) notes.push_back(f.scheme + " was interrupted after " + std::to_string(f.steps) + " steps.");
  }
  if (!only_first.empty())
    notes.push_back(
        "One step is the first one, in which real systems learn orders, fill buckets and have gathered nothing yet: say steps: 3 "
        "for "
        "what later ones of " +
        only_first + " take, send and hold.");
  if (all.front().padding > 0)
    notes.push_back(format(
        "Padding: %lld parameter%s (%.3g %%), so that %d ranks cut every unit into equal slices; counted in all simulated figures.",
        (long long)all.front().padding, all.front().padding == 1 ? "" : "s",
        100.0 * double(all.front().padding) / double(all.front().parameters), all.front().world));
  for (const SchemeResult& result : results)
    if (!result.folding.empty()) notes.push_back(result.scheme + ": " + result.folding);
  notes.insert(notes.end(), scenario.notes.begin(), scenario.notes.end());
  std::string defaults;
  const bool is_simulated = scenario.backend == "simgrid";
  for (const std::string& used : scenario.defaults_used)
    if (is_simulated || (!used.starts_with("fabric") && !used.starts_with("latency")))
      defaults += (defaults.empty() ? "" : "; ") + used;
  if (!defaults.empty()) notes.push_back("Defaults used: " + defaults + ".");
  return notes;
}

std::string table_text(const Scenario& scenario, const std::vector<SchemeResult>& results, const std::vector<Figures>& all,
                       const std::vector<std::string>& notes, bool colour) {
  if (all.empty()) return "No scheme has finished a step.\n";
  const std::string bold = colour ? "\033[1m" : "", plain = colour ? "\033[0m" : "";
  std::size_t name = 7;
  for (const Figures& f : all) name = std::max(name, f.scheme.size());
  std::string text = bold + head(scenario, results.front(), all.front()) + plain + "\n" + memory_block(all, name) + "\n" +
                     time_block(scenario, all, name) + "\n" + allocator_block(all, name) + measured_block(scenario, all, name) +
                     bold + "Held at the model-state peak, in bytes per parameter:" + plain + "\n";
  std::string gaps, systems;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Figures& f = all[i];
    const double peak = f.per_parameter(double(f.model_state_peak_bytes.max)), formula = f.formula_model_state_peak;
    text += wrapped("  " + left(f.scheme, name) + " " + decimal_text(peak) + " = " + composition(f, f.model_state_peak.parts) +
                        (differ(f, formula, peak) ? "; the formula says " + decimal_text(formula) : ""),
                    std::min<std::size_t>(name + 5, 40));
    (results[i].has_closed_forms ? gaps : systems) += gap_notes(scenario, results[i], f);
  }
  if (!gaps.empty()) text += "\n" + bold + "Where simulated differs from formula:" + plain + "\n" + gaps;
  if (!systems.empty()) text += "\n" + bold + "Real systems, from their buffers and messages:" + plain + "\n" + systems;
  const std::string prices = prices_note(results.front().gpu);
  text += "\n" + theta_note(scenario, results, all) + (prices.empty() ? "" : wrapped(prices, 2));
  for (const std::string& note : notes) text += wrapped(note, 2);
  return text;
}

}  // namespace shardsim
