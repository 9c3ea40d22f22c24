// The results folder: all of it or nothing, and never somebody else's files.
#include <doctest/doctest.h>
#include <unistd.h>

#include "app/metrics.h"
#include "app/results_folder.h"
#include "app/scenarios.h"
#include "formats/npy.h"

using namespace shardsim;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& place, const std::vector<std::string>& schemes) {
  Scenario scenario;
  scenario.file = "/somewhere/s.yaml", scenario.name = "s";
  std::vector<SchemeResult> results;
  std::vector<formats::Figures> figures;
  for (const std::string& scheme : schemes) {
    results.push_back(test::made_by_hand(scheme));
    figures.push_back(measure(scenario, results.back()));
  }
  ResultsFolder(place).write(scenario, results, figures, {});
}

std::string refusal(const fs::path& place) {
  try {
    ResultsFolder folder(place);
    return "accepted";
  } catch (const ScenarioError& error) {
    return error.what();
  }
}

std::size_t entries(const fs::path& folder) {
  return std::size_t(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("a run leaves the promised files, and nothing beside them") {
  const test::Scratch scratch;
  write(scratch / "deep/er/out", {"dp", "zero1"});
  for (const char* file :
       {"summary.json", "steps.csv", "dp/theta_final.npy", "dp/memory.csv", "dp/collectives.csv", "dp/links.csv", "dp/timeline.csv",
        "dp/memory_by_band.csv", "dp/memory_snapshot.pickle", "dp/trace.json", "zero1/trace.json", "scenario.yaml", "table.txt"})
    CHECK_MESSAGE(fs::is_regular_file(scratch / "deep/er/out" / file), file);
  CHECK(entries(scratch / "deep/er") == 1);
  CHECK(formats::read_npy(scratch / "deep/er/out/dp/theta_final.npy", 1).values == std::vector<float>(100, 0.5f));
  CHECK(scratch.read("deep/er/out/steps.csv") ==
        "scheme,step,loss,begin_seconds,end_seconds,loss_scale,skipped\n"
        "dp,0,1,0,2,,\ndp,1,0.75,2,4,,\nzero1,0,1,0,2,,\nzero1,1,0.75,2,4,,\n");
  CHECK(scratch.read("deep/er/out/dp/links.csv") == "link,bytes\nwire,1600\n");
}

TEST_CASE("the same results are the same bytes, wherever they are written") {
  const test::Scratch scratch;
  write(scratch / "a", {"dp"});
  write(scratch / "b", {"dp"});
  for (const char* file :
       {"summary.json", "steps.csv", "dp/theta_final.npy", "dp/memory.csv", "dp/collectives.csv", "dp/trace.json"})
    CHECK(scratch.read(std::string("a/") + file) == scratch.read(std::string("b/") + file));
}

TEST_CASE("earlier results are replaced as a whole") {
  const test::Scratch scratch;
  write(scratch / "out", {"dp", "zero1"});
  write(scratch / "out", {"zero3"});
  CHECK(fs::exists(scratch / "out/zero3/trace.json"));
  CHECK_FALSE(fs::exists(scratch / "out/dp"));
  CHECK(entries(scratch.path()) == 1);
}

TEST_CASE("an empty folder is taken") {
  const test::Scratch scratch;
  fs::create_directory(scratch / "out");
  write(scratch / "out/", {"dp"});
  CHECK(fs::exists(scratch / "out/summary.json"));
}

TEST_CASE("a folder that holds anything else is refused and left alone") {
  const test::Scratch scratch;
  fs::create_directory(scratch / "mine");
  scratch.write("mine/thesis.tex", "years of work");
  CHECK(refusal(scratch / "mine")
            .find("holds files that are not the results of a run (there is no summary.json); nothing was touched") !=
        std::string::npos);
  scratch.write("mine/summary.json", "{\"schema_version\": 1}");
  CHECK(refusal(scratch / "mine").find("(summary.json is damaged: the key 'program' is missing)") != std::string::npos);
  CHECK(scratch.read("mine/thesis.tex") == "years of work");

  write(scratch / "out", {"dp"});
  scratch.write("out/dp/notes.txt", "mine");
  CHECK(refusal(scratch / "out").find("would be replaced, but holds notes.txt, which no run wrote") != std::string::npos);
  fs::remove(scratch / "out/dp/notes.txt");
  CHECK(refusal(scratch / "out") == "accepted");
}

TEST_CASE("a place that cannot be a folder is refused before anything is run") {
  const test::Scratch scratch;
  scratch.write("file", "");
  CHECK(refusal(scratch / "file").find("file: is a file; choose another folder with -o") != std::string::npos);
  CHECK(refusal(scratch / "file/below/it").find("is a file; choose another folder") != std::string::npos);
  CHECK(refusal("").find("is no place for results") != std::string::npos);
  CHECK(refusal("/").find("is the root of all folders") != std::string::npos);
  CHECK(refusal(".").find("is the folder you are in") != std::string::npos);
  if (::geteuid() == 0) return;  // root may write anywhere
  fs::create_directory(scratch / "locked");
  fs::permissions(scratch / "locked", fs::perms::owner_read | fs::perms::owner_exec);
  CHECK(refusal(scratch / "locked/out").find("locked is write-protected; choose another folder") != std::string::npos);
}

TEST_CASE("a write that fails leaves nothing behind") {
  const test::Scratch scratch;
  // A scheme's folder cannot be made where the scheme's name holds a folder that does not exist.
  CHECK_THROWS_AS(write(scratch / "new/out", {"no/such"}), ScenarioError);
  CHECK(entries(scratch.path()) == 0);
}
