// Report: the folder's CSV files become what a screen can show, and the page carries it as JSON.
#include "app/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/metrics.h"
#include "app/run_folder.h"
#include "app/yaml_reader.h"
#include "core/band.h"
#include "core/error.h"

namespace shardsim {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t most_steps = 4000, most_ranks = 16, most_slices = 20'000, most_samples = 3000, most_links = 48;

/// The page counts in nanoseconds from the begin of what it shows: whole numbers are shorter.
std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

Json or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

struct Steps {
  std::vector<double> loss, begin, end;
};

std::map<std::string, Steps> read_steps(const fs::path& folder) {
  std::map<std::string, Steps> all;
  for_each_row(folder / "steps.csv", {"scheme", "loss", "begin_seconds", "end_seconds"}, [&](const CsvRow& row) {
    Steps& steps = all[row.text(0)];
    steps.loss.push_back(row.loss(1)), steps.begin.push_back(row.number(2)), steps.end.push_back(row.number(3));
  });
  return all;
}

/// Every k-th step, and the last one.
Json steps_data(const Steps& steps) {
  const std::size_t count = steps.end.size(), stride = (count + most_steps - 1) / most_steps;
  Json data = {{"stride", stride}, {"step", Json::array()}, {"loss", Json::array()}, {"seconds", Json::array()}};
  for (std::size_t i = 0; i < count; ++i) {
    if (i % stride != 0 && i + 1 != count) continue;
    data["step"].push_back(i);
    data["loss"].push_back(or_null(steps.loss[i]));
    data["seconds"].push_back(steps.end[i] - steps.begin[i]);
  }
  return data;
}

struct Slice {
  std::string stream, verb, payload;
  std::int64_t unit, ops, sent;
  double begin, end;
};

/// A verb that moves data also computes here and there (a cast, a division): that is told apart.
std::string name_of(const Slice& slice) {
  const bool moves = std::any_of(std::begin(collective_verbs), std::end(collective_verbs),
                                 [&](Verb verb) { return slice.verb == shardsim::name_of(verb); });
  return slice.verb + (slice.payload == "control" ? " (control)" : slice.payload == "compute" && moves ? " (operations)" : "");
}

/// What a rank did in the last step: it computes; a collective runs and nothing is computed; both.
Json rank_times(int rank, const std::vector<Slice>& slices) {
  std::vector<Interval> compute, collectives, all;
  for (const Slice& slice : slices) {
    (slice.payload == "compute" ? compute : collectives).push_back({slice.begin, slice.end});
    all.push_back({slice.begin, slice.end});
  }
  const double computing = covered(std::move(compute)), exposed = covered(std::move(all)) - computing;
  double begin = slices.empty() ? 0 : slices.front().begin, end = begin;
  for (const Slice& slice : slices) begin = std::min(begin, slice.begin), end = std::max(end, slice.end);
  return {rank, nanoseconds(end - begin), nanoseconds(computing), nanoseconds(std::max(0.0, exposed)),
          nanoseconds(std::max(0.0, covered(std::move(collectives)) - exposed))};
}

/// The ranks whose slices the page carries: all if they are few, or the slowest, the fastest and some between.
std::vector<int> shown_ranks(const std::map<int, std::vector<Slice>>& ranks) {
  std::vector<std::pair<double, int>> by_end;
  std::size_t most = 1;
  for (const auto& [rank, slices] : ranks) {
    double end = 0;
    for (const Slice& slice : slices) end = std::max(end, slice.end);
    by_end.push_back({end, rank});
    most = std::max(most, slices.size());
  }
  const std::size_t room = std::clamp<std::size_t>(most_slices / most, 1, most_ranks), count = std::min(room, by_end.size());
  std::stable_sort(by_end.begin(), by_end.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<int> shown;
  for (std::size_t i = 0; i < count; ++i) shown.push_back(by_end[count == 1 ? 0 : i * (by_end.size() - 1) / (count - 1)].second);
  std::sort(shown.begin(), shown.end());
  return shown;
}

Json timeline_data(const fs::path& folder, const Steps& steps) {
  std::map<int, std::vector<Slice>> ranks;
  for_each_row(folder / "timeline.csv",
               {"rank", "stream", "verb", "payload", "unit", "ops", "sent_bytes", "begin_seconds", "end_seconds"},
               [&](const CsvRow& row) {
                 ranks[int(row.whole(0))].push_back({row.text(1), row.text(2), row.text(3), row.whole(4), row.whole(5),
                                                     row.whole(6), row.number(7), row.number(8)});
               });
  const double begin = steps.begin.empty() ? 0 : steps.begin.back(), end = steps.end.empty() ? 0 : steps.end.back();
  Json data = {{"step", steps.end.empty() ? 0 : steps.end.size() - 1}, {"length", nanoseconds(end - begin)}};
  std::vector<std::string> names;  // by first appearance
  for (const auto& [rank, slices] : ranks) data["times"].push_back(rank_times(rank, slices));
  data["ranks"] = data["payloads"] = Json::array();
  for (const int rank : shown_ranks(ranks)) {
    Json streams = Json::object();
    for (const Slice& slice : ranks[rank]) {
      const std::string name = name_of(slice);
      const auto found = std::find(names.begin(), names.end(), name);
      const auto kind = found - names.begin();
      if (found == names.end()) names.push_back(name), data["payloads"].push_back(slice.payload);
      const std::int64_t from = nanoseconds(slice.begin - begin);
      streams[slice.stream].push_back({from, nanoseconds(slice.end - begin) - from, kind, slice.unit, slice.ops, slice.sent});
    }
    data["ranks"].push_back({{"rank", rank}, {"streams", streams}});
  }
  data["names"] = names;
  return data;
}

using ByBand = std::array<std::int64_t, band_count>;

struct Sample {
  std::int64_t at;
  ByBand held;
  std::int64_t total() const {
    std::int64_t sum = 0;
    for (const std::int64_t bytes : held) sum += bytes;
    return sum;
  }
};

/// Of each stretch of time the sample with the largest total and the last one: no peak is lost.
std::vector<Sample> thinned(const std::vector<Sample>& samples) {
  if (samples.size() <= most_samples) return samples;
  const std::int64_t first = samples.front().at,
                     stretch = std::max<std::int64_t>(1, (samples.back().at - first) * 2 / most_samples);
  std::vector<Sample> kept;
  for (std::size_t i = 0; i < samples.size();) {
    const std::int64_t until = first + ((samples[i].at - first) / stretch + 1) * stretch;
    std::size_t largest = i, last = i;
    for (; i < samples.size() && samples[i].at < until; last = i++)
      if (samples[i].total() > samples[largest].total()) largest = i;
    kept.push_back(samples[largest]);
    if (last != largest) kept.push_back(samples[last]);
  }
  return kept;
}

int band_in(const CsvRow& row, std::size_t column) {
  for (int band = 0; band < band_count; ++band)
    if (row.text(column) == name_of(Band(band))) return band;
  row.refuse("there is no band " + quoted(row.text(column)));
}

/// What a rank held in the step of its peak: the rank with the largest peak, or the first one if that was not recorded.
Json memory_data(const fs::path& folder, const Json& figures, const Steps& steps) {
  const double peak = figures["peak_seconds"].is_number() ? figures["peak_seconds"].get<double>() : 0;
  std::size_t step = 0;
  while (step + 1 < steps.end.size() && steps.end[step] < peak) ++step;
  const double begin = steps.begin.empty() ? 0 : steps.begin[step], end = steps.end.empty() ? 0 : steps.end[step];
  const int wanted = figures.value("peak_bytes_rank", 0);
  std::map<int, std::vector<Sample>> ranks;  // the first rank, and the wanted one
  std::map<int, ByBand> held;
  int first = -1;
  for_each_row(folder / "memory.csv", {"rank", "seconds", "band", "held_in_band_bytes"}, [&](const CsvRow& row) {
    const int rank = int(row.whole(0));
    if (first < 0) first = rank;
    if (rank != first && rank != wanted) return;
    held[rank][std::size_t(band_in(row, 2))] = row.whole(3);
    const double seconds = row.number(1);
    if (seconds > end) return;
    std::vector<Sample>& samples = ranks[rank];
    const std::int64_t at = nanoseconds(std::max(0.0, seconds - begin));  // what was held before is held at the begin
    if (!samples.empty() && samples.back().at == at && (at == 0 || samples.back().total() <= Sample{at, held[rank]}.total()))
      samples.back().held = held[rank];
    else if (samples.empty() || samples.back().at != at) samples.push_back({at, held[rank]});
  });
  const int rank = ranks.count(wanted) ? wanted : std::max(first, 0);
  Json data = {{"rank", rank},
               {"has_peak", rank == wanted},
               {"step", step},
               {"length", nanoseconds(end - begin)},
               {"peak_at", nanoseconds(peak - begin)},
               {"at", Json::array()},
               {"bands", Json::object()}};
  const std::vector<Sample> samples = thinned(ranks[rank]);
  data["thinned_from"] = ranks[rank].size();
  for (const Sample& sample : samples) data["at"].push_back(sample.at);
  for (std::size_t band = 0; band < band_count; ++band) {
    Json bytes = Json::array();
    std::int64_t most = 0;
    for (const Sample& sample : samples) bytes.push_back(sample.held[band]), most = std::max(most, sample.held[band]);
    if (most > 0) data["bands"][name_of(Band(band))] = std::move(bytes);
  }
  return data;
}

/// Per verb and payload: collectives, buffer and sent bytes, seconds, each of the first recorded rank and per step.
Json collectives_data(const fs::path& folder, std::size_t steps) {
  struct Sum {
    double count = 0, buffer = 0, sent = 0, seconds = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  std::optional<std::int64_t> first;
  for_each_row(folder / "collectives.csv",
               {"rank", "verb", "payload", "buffer_bytes", "sent_bytes", "begin_seconds", "end_seconds"}, [&](const CsvRow& row) {
                 if (!first) first = row.whole(0);
                 if (row.whole(0) != first) return;
                 Sum& sum = sums[{row.text(1), row.text(2)}];
                 ++sum.count, sum.buffer += row.number(3), sum.sent += row.number(4), sum.seconds += row.number(6) - row.number(5);
               });
  const double n = double(std::max<std::size_t>(1, steps));
  Json data = {{"rank", first ? Json(*first) : Json(nullptr)}, {"rows", Json::array()}};
  for (const auto& [key, sum] : sums)
    data["rows"].push_back({{"verb", key.first},
                            {"payload", key.second},
                            {"count", sum.count / n},
                            {"buffer_bytes", sum.buffer / n},
                            {"sent_bytes", sum.sent / n},
                            {"seconds", sum.seconds / n}});
  return data;
}

Json links_data(const fs::path& folder) {
  std::vector<std::pair<double, std::string>> links;
  for_each_row(folder / "links.csv", {"link", "bytes"}, [&](const CsvRow& row) { links.push_back({row.number(1), row.text(0)}); });
  std::stable_sort(links.begin(), links.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  Json data = {{"count", links.size()}, {"shown", Json::array()}};
  double rest = 0;
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (i < most_links) data["shown"].push_back({links[i].second, links[i].first});
    else rest += links[i].first;
  }
  data["rest_bytes"] = rest;
  return data;
}

}  // namespace

Json report_data(const fs::path& folder) {
  Json data = {{"summary", read_summary(folder)},
               {"scenario", text_of_file(folder / "scenario.yaml")},
               {"table", text_of_file(folder / "table.txt")},
               {"schemes", Json::array()}};
  const std::map<std::string, Steps> all_steps = read_steps(folder);
  for (const Json& figures : data["summary"]["results"]) {
    const std::string scheme = figures["scheme"];
    const auto found = all_steps.find(scheme);
    const Steps steps = found == all_steps.end() ? Steps{} : found->second;
    data["schemes"].push_back({{"scheme", scheme},
                               {"steps", steps_data(steps)},
                               {"timeline", timeline_data(folder / scheme, steps)},
                               {"memory", memory_data(folder / scheme, figures, steps)},
                               {"collectives", collectives_data(folder / scheme, steps.end.size())},
                               {"links", links_data(folder / scheme)}});
  }
  return data;
}

std::string page_with(const Json& data) {
  std::string page = report_template;
  const std::string marker = "\"the run's data\"";
  const std::size_t at = page.find(marker);
  if (at == std::string::npos) return {};
  std::string text = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  // "</script>" in a name would end the script that the data stand in.
  for (std::size_t i = 0; (i = text.find('<', i)) != std::string::npos; i += 6) text.replace(i, 1, "\\u003c");
  return page.replace(at, marker.size(), text);
}

std::string report_page(const fs::path& folder) { return *report_template ? page_with(report_data(folder)) : std::string(); }

}  // namespace shardsim
