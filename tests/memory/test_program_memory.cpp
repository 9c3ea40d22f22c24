// The program with `memory:` in its scenario: what it prints and writes, and that a run which cannot fit is a verdict and no error.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <nlohmann/json.hpp>

#include "platforms.h"

using namespace shardsim;
using nlohmann::json;

namespace {

constexpr const char* scenario =
    "schemes: [dp, zero3]\nplatform: gpus.xml\nworld: 4\nmodel: {kind: mlp, widths: [256, 1024, 1024, 256]}\n"
    "batch: {micro: 64}\nstreams: 3\nsteps: 3\nnumerics: {mode: twin, width: 8}\n";

/// Runs the scenario with more lines on GPUs of `size`, and leaves what it prints and its figures.
struct Run {
  Run(const std::string& more, const std::string& size = "80GiB") {
    std::string xml = test::platform_xml({});
    folder.write("gpus.xml", xml.replace(xml.find("80GiB"), 5, size));
    folder.write("s.yaml", scenario + more);
    const std::string command = "cd '" + folder.path().string() + "' && " SHARDSIM_PROGRAM " run s.yaml >out 2>err </dev/null";
    const int status = std::system(command.c_str());
    code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    out = folder.read("out");
    if (code == 0) results = json::parse(folder.read("results/s/summary.json"))["results"];
  }
  bool prints(const std::string& text) const {
    std::string one_line = out;  // as it was before it was broken into lines
    for (std::size_t at; (at = one_line.find("\n  ")) != std::string::npos;) one_line.replace(at, 3, " ");
    return one_line.find(text) != std::string::npos;
  }
  test::Scratch folder;
  int code;
  std::string out;
  json results;
};

}  // namespace

TEST_CASE("an exact run reserves its peak, knows nothing outside and prints no allocator") {
  const Run run("");
  REQUIRE(run.code == 0);
  for (const json& result : run.results) {
    CHECK(result["reserved_bytes"] == result["peak_bytes"]);
    for (const char* unknown : {"requested_peak_bytes", "allocated_peak_bytes", "reserved_composition", "outside_bytes"})
      CHECK_MESSAGE(result[unknown].is_null(), unknown);
    CHECK(result["fits"] == true);
  }
  CHECK_FALSE(run.prints("reserved"));
}

TEST_CASE("a context that is given counts in an exact run, too") {
  const Run run("memory: {context: 500MiB, communicator: 10MiB}\n", "512MiB");
  REQUIRE(run.code == 0);
  CHECK(run.results[0]["outside_bytes"] == (500 + 10) << 20);
  CHECK(run.results[1]["outside_bytes"] == (500 + 20) << 20);
  CHECK(run.results[0]["fits"] == false);
  CHECK(run.prints("outside (context and communicators) are more than the 512.00 MiB of a ideal."));
}

TEST_CASE("PyTorch's allocator is printed and written: requested, allocated, reserved, outside") {
  const Run run("memory: {allocator: torch}\n"), again("memory: {allocator: torch}\n");
  REQUIRE(run.code == 0);
  CHECK(run.out == again.out);
  CHECK(run.results == again.results);
  CHECK(run.prints("requested   allocated    reserved     outside   fits   (peaks, PyTorch's allocator)"));
  CHECK(run.prints("memory.context: 500MiB"));
  for (const json& result : run.results) {
    std::int64_t sum = 0;
    for (const auto& [part, bytes] : result["reserved_composition"].items()) sum += std::int64_t(bytes);
    CHECK(sum == result["reserved_bytes"]);
    CHECK(result["reserved_bytes"] >= result["allocated_peak_bytes"]);
    CHECK(result["outside_bytes"] > 500 << 20);
    CHECK(result["fits"] == true);
  }
}

TEST_CASE("a run that cannot fit ends with 0, its verdict and a remedy") {
  const std::string outside = "memory: {allocator: torch, context: 0B, communicator: 0B, cublas_workspaces: 0}\n";
  const Run run(outside, "34MiB");
  REQUIRE(run.code == 0);
  CHECK(run.results[0]["fits"] == false);
  CHECK(run.results[0]["theta_hash"] == Run("").results[0]["theta_hash"]);
  CHECK(run.prints("dp does not fit: "));
  CHECK(run.prints("the run went on without a limit. At the peak: "));
  CHECK(run.prints("Cheapest remedy: scheme zero1 (about "));
  const Run hopeless(outside, "1MiB");
  REQUIRE(hopeless.code == 0);
  CHECK(hopeless.prints("None of these alone would do: "));
}
