// What a run leaves behind when it takes long or goes wrong: a line on a terminal while files are written, finished schemes kept.
#include <doctest/doctest.h>
#include <pty.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/shell.h"

using namespace shardsim::test;

namespace {

/// All that the program writes to a terminal of its own.
std::string on_a_terminal(const std::filesystem::path& folder, const char* output) {
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  REQUIRE(child >= 0);
  if (child == 0) {
    if (::chdir(folder.c_str()) == 0) ::execl(SHARDSIM_PROGRAM, "shardsim", "run", "s.yaml", "-o", output, nullptr);
    ::_exit(127);
  }
  std::string text;
  char some[4096];
  for (ssize_t n; (n = ::read(terminal, some, sizeof some)) > 0;) text.append(some, std::size_t(n));  // EIO at its end
  ::close(terminal);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  return text;
}

}  // namespace

TEST_CASE("while results are written a terminal says of which scheme, and a pipe nothing") {
  Shell shardsim;
  const std::string text = on_a_terminal(shardsim.folder().path(), "deep/r");
  CHECK_MESSAGE(has(text, "\r\033[Kwriting deep/r: dp [                    ] scheme 1 of 2, "), text);
  const std::size_t last = text.rfind("\r\033[Kwriting deep/r: zero3 [##########          ] scheme 2 of 2, ");
  REQUIRE(last != std::string::npos);
  CHECK(text.find("\r\033[K", last + 1) < text.find("Results: deep/r"));  // the line is wiped before the next one
  REQUIRE(shardsim("run s.yaml -o piped") == 0);
  CHECK(shardsim.err().empty());
  for (const char* name : {"summary.json", "zero3/trace.json"})
    CHECK(shardsim.folder().read(std::string("deep/r/") + name) == shardsim.folder().read(std::string("piped/") + name));
}

TEST_CASE("schemes that were finished are kept when a later one fails, whose error is the last line") {
  Shell shardsim;
  const std::string fails = "torch_zero_redundancy_optimizer";  // it has no fp32 master, which only its bind sees
  CHECK(shardsim("run s.yaml -o r --set precision.param=bf16 --set 'schemes=[dp, zero1, " + fails + ", zero3]'") == 2);
  CHECK_MESSAGE(is_one_line(shardsim.err()), shardsim.err());
  CHECK(shardsim.err().starts_with("scheme '" + fails + "': "));
  const nlohmann::json summary = nlohmann::json::parse(shardsim.folder().read("r/summary.json"));
  REQUIRE(summary["results"].size() == 2);
  CHECK(summary["results"][1]["scheme"] == "zero1");
  CHECK(has(summary["notes"].dump(), fails + " failed: neither it nor what comes after it is here."));
  CHECK(std::filesystem::exists(shardsim.folder() / "r/zero1/trace.json"));
  CHECK(shardsim("report r") == 0);
  CHECK(shardsim("run s.yaml -o none --set precision.param=bf16 --set 'schemes=[" + fails + ", dp]'") == 2);
  CHECK(is_one_line(shardsim.err()));
  CHECK(shardsim.out().empty());
  CHECK_FALSE(std::filesystem::exists(shardsim.folder() / "none"));
}
