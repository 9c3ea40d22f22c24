// Explain of a scenario: every price with its formula, and the numbers in it add up to what the rank was charged.
#include <doctest/doctest.h>

#include <cstdlib>
#include <sstream>

#include "app/explain_run.h"
#include "app/shell.h"
#include "core/error.h"
#include "platforms.h"
#include "scratch.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

struct Explained {
  Explained() {
    folder.write(
        "s.yaml",
        "name: small\nschemes: [dp, zero3]\nplatform: " + platform.path().string() +
            "\nworld: 4\nmodel: {kind: gpt2, layers: 3, hidden: 64, heads: 4, vocab: 100, positions: 32}\nbatch: {micro: 2}\n");
    options.scenario = (folder / "s.yaml").string();
  }
  std::string text() const { return explain_run(options, built_in_schemes()); }
  std::string refusal() const {
    try {
      return text();
    } catch (const ScenarioError& error) {
      return error.what();
    }
  }
  PlatformFile platform{IdealGpus{}};
  Scratch folder;
  ExplainRunOptions options;
};

std::size_t lines_with(const std::string& text, const std::string& part) {
  std::istringstream in(text);
  std::size_t count = 0;
  for (std::string line; std::getline(in, line);) count += line.find(part) != std::string::npos;
  return count;
}

}  // namespace

TEST_CASE("explain of a scenario shows each operation's count, time and formula, and the shares make a whole") {
  Explained explained;
  explained.options.top = 0, explained.options.scheme = "zero3";
  const std::string text = explained.text();
  CHECK(text.find("small, zero3: a step of ") == 0);
  CHECK(lines_with(text, "attention_backward: ") == 1);
  CHECK(text.find("    3 x") != std::string::npos);  // once per block
  CHECK(text.find(" over 4 ranks: ") != std::string::npos);
  std::istringstream in(text);
  double shares = 0;
  for (std::string line; std::getline(in, line);)
    if (const std::size_t at = line.find("% "); at != std::string::npos && at < 7) shares += std::atof(line.c_str());
  CHECK(shares == doctest::Approx(100).epsilon(0.03));  // each is printed with one decimal
}

TEST_CASE("explain of a scenario can be asked for one op, one collective, one verb, or the dearest few") {
  Explained explained;
  explained.options.only = "matmul";
  CHECK(lines_with(explained.text(), "matmul: ") > 5);
  CHECK(lines_with(explained.text(), "gelu: ") == 0);
  explained.options.only = "all_reduce";
  CHECK(lines_with(explained.text(), "all_reduce of ") == 2);  // of a block and of the root
  explained.options.only = "adam", explained.options.top = 1;
  CHECK(lines_with(explained.text(), " x ") == 2);  // the head line, and one
  CHECK(explained.text().find("more; --top 0 shows all.") != std::string::npos);
}

TEST_CASE("explain refuses a scheme that the scenario does not run and an op that the step has not, and names what there is") {
  Explained explained;
  explained.options.scheme = "zero2";
  CHECK(explained.refusal().find("--scheme zero2: ") == 0);
  explained.options.scheme = "dp", explained.options.only = "rotate";
  CHECK(explained.refusal().find("--only rotate: this step has none; it has adam, add, add_bias, all_reduce") == 0);
}

TEST_CASE("explain prices the rank that it is asked for, and says where GPUs differ whose prices these are") {
  Explained explained;
  const std::string first = explained.text();
  CHECK(first.find("GPUs differ") == std::string::npos);
  explained.options.rank = 3;
  std::string last = explained.text();
  const std::size_t at = last.find("rank 3 is charged");
  REQUIRE(at != std::string::npos);
  CHECK(last.replace(at, 6, "rank 0") == first);

  std::string slower = two_gpus;
  slower.replace(slower.rfind("\"1Tf\""), 5, "\"0.25Tf\"");
  const PlatformFile uneven(slower);
  const std::string file = explained.options.scenario;
  explained.options = {};
  explained.options.scenario = file, explained.options.overrides = {"platform=" + uneven.path().string(), "world=2"};
  explained.options.only = "matmul";
  const auto seconds = [&](int rank) {
    explained.options.rank = rank;
    const std::string text = explained.text(), words = "rank " + std::to_string(rank);
    CHECK_MESSAGE(
        text.find("GPUs differ: these are the prices of " + words + "; --rank R prices another one.") != std::string::npos, text);
    return std::atof(text.c_str() + text.find(words + " is charged ") + words.size() + 12);
  };
  CHECK(seconds(1) > 2 * seconds(0));
  for (const int wrong : {-1, 2}) {
    explained.options.rank = wrong;
    CHECK(explained.refusal() ==
          "--rank " + std::to_string(wrong) + ": there is no such rank; " + explained.options.scenario + " has the ranks 0 to 1");
  }
}

TEST_CASE("a rank's prices have the collectives of all of its groups, whichever these are, folded or not") {
  Explained explained;
  for (const char* ranks : {"ranks=all", "ranks=auto"}) {
    explained.options.overrides = {"schemes=[hsdp]", "mesh={replicas: 2, shards: 2}", ranks};
    explained.options.rank = 0;
    const std::string first = explained.text();
    CHECK(lines_with(first, "all_reduce of ") > 0);
    for (const int rank : {1, 2, 3}) {
      explained.options.rank = rank;
      for (const char* collective : {"all_reduce of ", "all_gather of ", "reduce_scatter of "})
        CHECK(lines_with(explained.text(), collective) == lines_with(first, collective));
    }
  }
}
