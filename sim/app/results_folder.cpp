// ResultsFolder: a temporary sibling, filled and renamed.
#include "app/results_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "app/fingerprint.h"
#include "app/report.h"
#include "app/run_folder.h"
#include "app/scenario_copy.h"
#include "app/table.h"
#include "formats/csv.h"
#include "formats/gzip.h"
#include "formats/memory_snapshot.h"
#include "formats/npy.h"
#include "formats/timeline.h"
#include "formats/trace.h"

namespace shardsim {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& what) { throw ScenarioError(path.string() + ": " + what); }

/// Hears of every full buffer of a file: how many bytes have gone.
using Flushed = std::function<void(double bytes)>;

class HeardFile : public std::filebuf {
 public:
  explicit HeardFile(const Flushed& flushed) : flushed_(flushed) {}

 protected:
  int_type overflow(int_type c) override {
    bytes_ += double(pptr() - pbase());
    if (flushed_) flushed_(bytes_);
    return std::filebuf::overflow(c);
  }

 private:
  const Flushed& flushed_;
  double bytes_ = 0;
};

/// Where files are written, and who hears of it.
struct Folder {
  fs::path path;
  Flushed flushed = {};

  template <class Write>
  void write(const fs::path& name, Write write) const {
    errno = 0;
    HeardFile file(flushed);
    std::ostream stream(file.open(path / name, std::ios::binary | std::ios::out) ? &file : nullptr);
    if (stream) write(stream);
    if (!stream || !file.close())
      refuse(path / name, std::string("cannot be written: ") + (errno ? std::strerror(errno) : "the disk may be full"));
  }
};

/// Why a folder is not that of an earlier run; empty if it is.
std::string fault_of(const fs::path& folder) {
  if (!fs::is_regular_file(folder / "summary.json")) return "there is no summary.json";
  const std::string fault = formats::fault_of_summary(text_of_file(folder / "summary.json"));
  return fault.empty() ? "" : "summary.json " + fault;
}

/// The first thing in an earlier run's folder that no run writes; empty if there is none.
fs::path foreign_file(const fs::path& folder) {
  const std::set<fs::path> top = {"summary.json", "steps.csv", "scenario.yaml", "table.txt", "report.html"};
  const std::set<fs::path> inner = {
      "theta_final.npy", "memory.csv", "memory_by_band.csv", "memory_snapshot.pickle", "collectives.csv", "spans.csv",
      "timeline.csv",    "links.csv",  "trace.json",         "trace.json.gz",          "traces"};
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (top.count(entry.path().filename())) continue;
    if (!entry.is_directory() || entry.is_symlink()) return entry.path();
    if (!fs::exists(entry.path() / "links.csv")) return entry.path();  // no scheme's folder
    for (const fs::directory_entry& file : fs::directory_iterator(entry.path())) {
      if (!inner.count(file.path().filename())) return file.path();
      if (!file.is_directory()) continue;
      for (const fs::directory_entry& trace : fs::directory_iterator(file.path()))
        if (trace.path().string().find(".pt.trace.json") == std::string::npos) return trace.path();
    }
  }
  return {};
}

/// Compressed if its name says so.
void write_trace(const Folder& folder, const fs::path& name, const formats::TraceFacts& facts,
                 const std::vector<formats::RankTrace>& traces) {
  folder.write(name, [&](std::ostream& out) {
    if (name.extension() != ".gz") return formats::write_trace(out, facts, traces);
    formats::GzipStream gzip(out);
    formats::write_trace(gzip, facts, traces);
  });
}

void write_traces(const Folder& folder, const Scenario& scenario, const SchemeResult& result,
                  const std::vector<formats::RankTrace>& traces) {
  const formats::TraceFacts facts{result.scheme,           result.world,      result.gpu.name,
                                  result.gpu.memory_bytes, result.unit_names, formats::earliest(traces)};
  const std::string end = scenario.trace_gzip ? ".json.gz" : ".json";
  if (!scenario.trace_per_rank) return write_trace(folder, "trace" + end, facts, traces);
  fs::create_directory(folder.path / "traces");  // HolisticTraceAnalysis takes all files of a folder for traces
  for (const formats::RankTrace& trace : traces)
    write_trace(folder, "traces/rank-" + std::to_string(trace.rank) + ".pt.trace" + end, facts, {trace});
}

void write_scheme(const Folder& folder, const Scenario& scenario, const SchemeResult& result) {
  fs::create_directory(folder.path);
  if (!result.theta.empty()) formats::write_npy(folder.path / "theta_final.npy", {std::int64_t(result.theta.size())}, result.theta);
  std::vector<formats::RankTrace> recorded;
  for (const RankResult& rank : result.ranks)
    if (rank.is_recorded())
      recorded.push_back(
          {rank.rank, rank.spans, rank.entries, rank.step_begin, rank.step_end, rank.waits, rank.host_step_begin, rank.stands_for});
  folder.write("memory.csv", [&](std::ostream& out) {
    formats::write_memory_header(out);
    for (const formats::RankTrace& r : recorded) formats::write_memory(out, r.rank, r.entries);
  });
  folder.write("memory_by_band.csv", [&](std::ostream& out) {
    formats::write_memory_by_band_header(out);
    for (const formats::RankTrace& r : recorded) formats::write_memory_by_band(out, r.rank, r.entries);
  });
  folder.write("collectives.csv", [&](std::ostream& out) {
    formats::write_collectives_header(out);
    for (const formats::RankTrace& r : recorded) formats::write_collectives(out, r.rank, r.spans, r.step_begin);
  });
  if (scenario.records_spans)
    folder.write("spans.csv", [&](std::ostream& out) {
      formats::write_spans_header(out);
      for (const formats::RankTrace& r : recorded) formats::write_spans(out, r.rank, r.spans, r.step_begin);
    });
  folder.write("links.csv", [&](std::ostream& out) {
    formats::write_links_header(out);
    for (const LinkLoad& load : result.links) formats::write_link(out, load.link, load.bytes);
  });
  folder.write("timeline.csv", [&](std::ostream& out) {
    formats::write_timeline_header(out);
    for (const formats::RankTrace& r : recorded)
      if (!r.step_end.empty()) formats::write_timeline(out, r.rank, r.spans, r.step_begin.back(), r.step_end.back());
  });
  folder.write("memory_snapshot.pickle", [&](std::ostream& out) {
    std::vector<formats::RankMemory> memories;
    for (const formats::RankTrace& r : recorded) {
      const RankResult& rank = result.of(r.rank);
      memories.push_back({r.rank, rank.allocator_history.empty() ? formats::exact_events(r.entries) : rank.allocator_history});
    }
    formats::write_memory_snapshot(out, result.scheme, result.unit_names, formats::earliest(recorded), memories);
  });
  write_traces(folder, scenario, result, recorded);
}

/// A step of the world begins with its first rank and ends with its last.
void write_world_steps(std::ostream& out, const SchemeResult& result, const formats::Figures& figures) {
  std::vector<double> begin, end;
  for (const RankResult& rank : result.ranks)
    for (std::size_t step = 0; step < rank.step_end.size(); ++step) {
      if (step == end.size()) begin.push_back(rank.step_begin[step]), end.push_back(rank.step_end[step]);
      begin[step] = std::min(begin[step], rank.step_begin[step]);
      end[step] = std::max(end[step], rank.step_end[step]);
    }
  formats::write_steps(out, result.scheme, figures.losses, begin, end, result.ranks.front().loss_scales,
                       result.ranks.front().updates);
}

/// Removes what runs into this place have left half-written that were killed, `.out.PID.new`: their processes are gone.
void remove_left_overs(const fs::path& place) {
  const std::string begin = "." + place.filename().string() + ".", end = ".new";
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(place.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    if (name.size() <= begin.size() + end.size() || !name.starts_with(begin) || !name.ends_with(end)) continue;
    const std::string process = name.substr(begin.size(), name.size() - begin.size() - end.size());
    if (process.size() > 9 || process.find_first_not_of("0123456789") != std::string::npos) continue;
    if (::kill(pid_t(std::stoi(process)), 0) != 0 && errno == ESRCH) fs::remove_all(entry.path(), error);
  }
}

/// Removes what is left of the temporary folder, and the parents that were made for it.
struct Cleanup {
  fs::path temporary;
  std::vector<fs::path> made;  // innermost first
  bool done = false;
  ~Cleanup() {
    if (done) return;
    std::error_code error;
    fs::remove_all(temporary, error);
    for (const fs::path& parent : made) fs::remove(parent, error);
  }
};

}  // namespace

formats::RunFacts facts_of(const Scenario& scenario, const std::vector<std::string>& notes) {
  std::vector<std::pair<std::string, std::uint64_t>> files;
  for (const auto& [key, file] : scenario.files) files.emplace_back(key, fingerprint_of(file));
  // Only the file's name: where it lay would differ from machine to machine.
  return {scenario.name,
          scenario.file.filename().string(),
          name_of(scenario.numerics),
          name_of(scenario.fabric),
          name_of(scenario.latency),
          scenario.defaults_used,
          notes,
          scenario.measured_source,
          files};
}

ResultsFolder::ResultsFolder(const fs::path& wanted) : wanted_(wanted) {
  if (wanted.empty()) refuse("-o", "is no place for results: it has no name");
  std::error_code error;
  place_ = fs::weakly_canonical(fs::absolute(wanted), error);
  if (error) refuse(wanted, "is no place for results: " + error.message());
  if (!place_.has_filename()) place_ = place_.parent_path();
  const char* remedy = "; choose another folder with -o";
  if (place_ == place_.root_path()) refuse(wanted, std::string("is the root of all folders") + remedy);
  if (place_ == fs::current_path(error)) refuse(wanted, std::string("is the folder you are in") + remedy);
  if (fs::is_symlink(wanted, error) && !fs::exists(wanted, error)) refuse(wanted, std::string("is a link to nothing") + remedy);
  if (fs::exists(place_, error)) {
    if (!fs::is_directory(place_, error)) refuse(wanted, std::string("is a file") + remedy);
    if (::access(place_.c_str(), R_OK | X_OK) != 0) refuse(wanted, std::string("cannot be read") + remedy);
    if (!fs::is_empty(place_, error)) {
      if (const std::string fault = fault_of(place_); !fault.empty())
        refuse(wanted, "holds files that are not the results of a run (" + fault + "); nothing was touched" + remedy);
      const fs::path foreign = foreign_file(place_);
      if (!foreign.empty())
        refuse(wanted, "would be replaced, but holds " + foreign.filename().string() + ", which no run wrote" + remedy);
    }
  }
  fs::path parent = place_.parent_path();
  while (!fs::exists(parent, error) && parent.has_relative_path()) parent = parent.parent_path();
  if (!fs::is_directory(parent, error)) refuse(wanted, parent.string() + " is a file" + remedy);
  if (::access(parent.c_str(), W_OK | X_OK) != 0) refuse(wanted, parent.string() + " is write-protected" + remedy);
  if (place_.filename().string().size() > 200) refuse(wanted, std::string("has too long a name") + remedy);
}

void ResultsFolder::write(const Scenario& scenario, const std::vector<SchemeResult>& results,
                          const std::vector<formats::Figures>& figures, const std::vector<std::string>& notes,
                          const WriteProgress& progress) const {
  const std::string mark = "." + place_.filename().string() + "." + std::to_string(::getpid());
  Cleanup cleanup{place_.parent_path() / (mark + ".new"), {}};
  remove_left_overs(place_);
  try {
    for (fs::path parent = place_.parent_path(); !fs::exists(parent); parent = parent.parent_path()) cleanup.made.push_back(parent);
    fs::create_directories(cleanup.temporary);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const auto flushed = [&](double bytes) {
        if (progress) progress(results[i].scheme, i + 1, bytes);
      };
      flushed(0);
      write_scheme({cleanup.temporary / results[i].scheme, flushed}, scenario, results[i]);
    }
    const Folder whole{cleanup.temporary};
    whole.write("steps.csv", [&](std::ostream& out) {
      formats::write_steps_header(out);
      for (std::size_t i = 0; i < results.size(); ++i) write_world_steps(out, results[i], figures[i]);
    });
    whole.write("summary.json", [&](std::ostream& out) { formats::write_summary(out, facts_of(scenario, notes), figures); });
    whole.write("table.txt", [&](std::ostream& out) { out << table_text(scenario, results, figures, notes, false); });
    whole.write("scenario.yaml", [&](std::ostream& out) { out << text_from(scenario, place_); });
    if (const std::string page = report_page(cleanup.temporary); !page.empty())
      whole.write("report.html", [&](std::ostream& out) { out << page; });

    const fs::path old = place_.parent_path() / (mark + ".old");
    const bool replaces = fs::exists(place_);
    if (const fs::path foreign = replaces ? foreign_file(place_) : fs::path(); !foreign.empty()) {  // came while we ran
      const fs::path beside = place_.parent_path() / (place_.filename().string() + ".new");
      fs::rename(cleanup.temporary, beside);
      cleanup.done = true;
      refuse(wanted_, "holds " + foreign.filename().string() + ", which no run wrote; the results are in " + beside.string());
    }
    if (replaces) fs::rename(place_, old);
    try {
      fs::rename(cleanup.temporary, place_);
    } catch (const fs::filesystem_error&) {
      if (replaces) fs::rename(old, place_);
      throw;
    }
    cleanup.done = true;
    std::error_code error;
    fs::remove_all(old, error);
    if (error) refuse(wanted_, "is written, but the earlier results could not be removed and lie in " + old.string());
  } catch (const fs::filesystem_error& error) {
    refuse(wanted_, "cannot be written: " + error.code().message());
  } catch (const ScenarioError& error) {
    // It names a file of the temporary folder, which nobody has heard of.
    const std::string text = error.what();
    refuse(wanted_, text.substr(text.find(": ") + 2));
  }
}

}  // namespace shardsim
