// The command line: whatever is wrong with it is one line, for every command and every option that there is.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>

#include "app/shell.h"

namespace fs = std::filesystem;
using namespace shardsim::test;

TEST_CASE("a command that does not exist names the likely one, and no ranks are no default") {
  Shell shardsim;
  CHECK(shardsim("runn s.yaml") == 2);
  CHECK(shardsim.err().find("shardsim: there is no command 'runn'; did you mean run? The commands are run, explain") == 0);
  CHECK(shardsim("paint s.yaml") == 2);
  CHECK_FALSE(has(shardsim.err(), "did you mean"));
  CHECK(shardsim("run s.yaml --ranks ''") == 2);
  CHECK(shardsim.err() == "--ranks '': is an empty list; write it as ranks: [0, 1, 8-15]\n");
}

TEST_CASE("wrong usage is exit code 2, help and version are 0") {
  Shell shardsim;
  for (const char* arguments : {"", "run", "walk s.yaml", "run s.yaml --backend gpu", "run s.yaml --colour", "list", "list horses",
                                "explain", "explain zero4", "run s.yaml extra"}) {
    INFO(arguments);
    CHECK(shardsim(arguments) == 2);
    CHECK_FALSE(shardsim.err().empty());
  }
  for (const char* arguments : {"--help", "run --help", "list --help", "explain --help", "--version"}) {
    INFO(arguments);
    CHECK(shardsim(arguments) == 0);
    CHECK_FALSE(shardsim.out().empty());
  }
}

TEST_CASE("whatever is wrong with a command's options is one line that names the command and where to read on") {
  Shell shardsim;
  REQUIRE(shardsim("--help") == 0);
  int tried = 0, flags = 0;
  const auto is_refused = [&](const std::string& command, const std::string& arguments, const std::string& named) {
    INFO(command << " " << arguments);
    CHECK(shardsim(command + " " + arguments) == 2);
    CHECK_MESSAGE(is_one_line(shardsim.err()), shardsim.err());
    CHECK_MESSAGE(has(shardsim.err(), named), shardsim.err());
    CHECK_MESSAGE(has(shardsim.err(), "; 'shardsim " + command + " --help' says what there is\n"), shardsim.err());
    CHECK(shardsim.out().empty());
    ++tried;
  };
  for (const std::string command :
       {"run", "explain", "list", "platform", "report", "compare", "figures", "validate", "calibrate", "sweep"}) {
    REQUIRE(shardsim(command + " --help") == 0);
    std::istringstream help(shardsim.out());
    for (std::string line; std::getline(help, line);) {
      const std::size_t dashes = line.find("--");
      if (line.find_first_not_of(' ') != 2 || dashes == std::string::npos || dashes > 6) continue;
      std::istringstream words(line.substr(dashes));
      std::string name, kind;
      words >> name >> kind;
      if (kind.size() < 2 || std::islower(kind[1])) {  // a flag
        if (name == "--help") continue;
        for (const char* value : {"=3", "=abc", "=-1", "=0.5", "=1x", "=nan"}) is_refused(command, name + value, name);
        ++flags;
        continue;
      }
      if (kind == "SHARE")
        for (const char* value : {"5", "-1%", "500%", "%", "nan"}) is_refused(command, name + " " + value, name);
      is_refused(command, name, name);
      if (!kind.starts_with("INT") && !kind.starts_with("FLOAT") && !kind.starts_with("UINT") && kind != "SHARE" && !has(kind, "{"))
        continue;
      for (const char* value : {"abc", "1e999", "''", "1x"}) is_refused(command, name + " " + value, name);
      if (kind.starts_with("INT"))
        for (const char* value : {"1.5", "99999999999999999999", "nan"}) is_refused(command, name + " " + value, name);
    }
    if (command != "explain") is_refused(command, "--colour 'a\nb'", "");
  }
  CHECK(tried > 60);
  CHECK(flags >= 8);
  is_refused("run", "s.yaml --quiet=3", "--quiet: '3' is neither on nor off; a flag needs no value");
  is_refused("run", "", "SCENARIO is required");
  is_refused("run", "s.yaml --nnodes abc", "--nnodes: 'abc' is no whole number, or too large a one");
  is_refused("platform", "--gpu h100-sxm --nic-efficiency abc", "--nic-efficiency: 'abc' is no share; write a number from 0 to 1");
  CHECK(shardsim("") == 2);
  CHECK(is_one_line(shardsim.err()));
}

TEST_CASE("an option's share is said as a ratio or as a percentage, and a flag may be told on or off") {
  Shell shardsim;
  const auto machine = [&](const std::string& share) {
    REQUIRE(shardsim("platform --gpu h100-sxm --nodes 2 --nic 400Gbps --nic-efficiency " + share) == 0);
    std::string text = shardsim.out();
    const std::string said = "--nic-efficiency " + share + "\"";  // the file keeps the command
    return text.erase(text.find(said), said.size());
  };
  CHECK(machine("85%") == machine("0.85"));
  CHECK(machine("85%") != machine("0.9"));
  CHECK(shardsim("run s.yaml --quiet=off --gzip=false") == 0);
  CHECK(has(shardsim.out(), "Results: results/s\n"));
  CHECK(shardsim("run s.yaml --quiet=on --gzip=true") == 0);
  CHECK(shardsim.out().empty());
  CHECK(fs::exists(shardsim.folder() / "results/s/zero3/trace.json.gz"));
}

TEST_CASE("an override does not swallow the scenario's name") {
  Shell shardsim;
  CHECK(shardsim("run --set steps=1 --set schemes=[dp] s.yaml --quiet") == 0);
}

TEST_CASE("a machine's size out of range is refused in the same words in a scenario and on the command line") {
  Shell shardsim;
  const std::string machine = "--gpu h100-sxm --nic 400Gbps --topology fat-tree ";
  for (const std::string option : {"nodes", "gpus-per-node", "nics-per-node", "nodes-per-leaf"}) {
    std::string key = option;
    std::replace(key.begin(), key.end(), '-', '_');
    for (const char* value : {"0", "-1", "1000000"}) {
      INFO(option << " " << value);
      CHECK(shardsim("platform " + machine + (option == "nodes" ? "" : "--nodes 9 ") + "--" + option + " " + value) == 2);
      const std::string words = "platform: --" + option + ": ", said = shardsim.err();
      REQUIRE_MESSAGE(said.starts_with(words + "'" + value + "' is out of range; write a whole number from 1 to "), said);
      CHECK(shardsim("run s.yaml --set 'platform={gpu: h100-sxm, nic: 400Gbps, topology: fat-tree, " +
                     std::string(option == "nodes" ? "" : "nodes: 9, ") + key + ": " + value + "}'") == 2);
      CHECK(shardsim.err() == "--set platform." + key + ": " + said.substr(words.size()));
    }
  }
}
