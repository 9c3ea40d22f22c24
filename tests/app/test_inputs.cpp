// Whatever is wrong with what the program is given, or with where it is to write: one line, exit code 2, and nothing is touched.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/shell.h"

namespace fs = std::filesystem;
using namespace shardsim::test;

namespace {

constexpr const char* of_text =
    "schemes: [dp]\nplatform: box.xml\nworld: 2\nmodel: {kind: llama, layers: 1, hidden: 8, heads: 2, vocab: 256, positions: 8}\n"
    "batch: {micro: 1}\ndata: {text: words.txt}\nprices: {from: prices.yaml}\nsteps: 2\n";

/// A shell with a scenario that names three files, in a folder of its own.
class Named {
 public:
  Named() {
    fs::create_directory(shell.folder() / "in");
    fs::rename(shell.folder() / "box.xml", shell.folder() / "in/box.xml");
    shell.folder().write("in/t.yaml", of_text);
    shell.folder().write("in/words.txt", std::string(64, 'a'));
    shell.folder().write("in/prices.yaml", "gemm_efficiency: 0.5\n");
  }
  Shell shell;
};

bool is_refusal(Shell& shell, const std::string& arguments, const std::string& what) {
  const int code = shell(arguments);
  INFO(arguments << ": " << shell.err());
  CHECK(code == 2);
  CHECK(is_one_line(shell.err()));
  CHECK(has(shell.err(), what));
  return code == 2 && is_one_line(shell.err()) && has(shell.err(), what);
}

}  // namespace

TEST_CASE("a result's scenario runs again from its folder, moves with its files, and gives the same figures") {
  Named named;
  Shell& shardsim = named.shell;
  REQUIRE(shardsim("run in/t.yaml -o r/first --quiet") == 0);
  const std::string copy = shardsim.folder().read("r/first/scenario.yaml");
  CHECK(has(copy, "platform: ../../in/box.xml"));
  CHECK(has(copy, "data: {text: ../../in/words.txt}"));
  CHECK(has(copy, "prices: {from: ../../in/prices.yaml}"));
  REQUIRE(shardsim("run r/first/scenario.yaml -o r/second --quiet") == 0);
  CHECK(shardsim.folder().read("r/second/scenario.yaml") == copy);
  for (const char* file : {"steps.csv", "dp/trace.json"})
    CHECK(shardsim.folder().read(std::string("r/second/") + file) == shardsim.folder().read(std::string("r/first/") + file));
  REQUIRE(shardsim("run in/t.yaml -o again --quiet") == 0);
  REQUIRE(shardsim("compare r/first again --json") == 0);
  CHECK(nlohmann::json::parse(shardsim.out())["changed"].empty());  // the same files, at another distance
  fs::create_directory(shardsim.folder() / "moved");
  for (const char* each : {"in", "r"}) fs::rename(shardsim.folder() / each, shardsim.folder() / (std::string("moved/") + each));
  CHECK(shardsim("run moved/r/first/scenario.yaml -o third --quiet") == 0);
  CHECK(shardsim.folder().read("third/steps.csv") == shardsim.folder().read("again/steps.csv"));
}

TEST_CASE("results that lie elsewhere than what they name say where that is, and shipped platforms keep their names") {
  Named named;
  Shell& shardsim = named.shell;
  const Scratch elsewhere;
  const std::string place = (elsewhere / "out").string();
  REQUIRE(shardsim("run in/t.yaml -o " + place + " --quiet") == 0);
  CHECK(has(elsewhere.read("out/scenario.yaml"), (fs::canonical(shardsim.folder().path()) / "in/words.txt").string()));
  CHECK(shardsim("run " + place + "/scenario.yaml --quiet") == 0);
  REQUIRE(shardsim("run in/t.yaml -o " + place + " --quiet --set platform=ideal-8") == 0);
  CHECK(has(elsewhere.read("out/scenario.yaml"), "platform: ideal-8\n"));
}

TEST_CASE("a file that is another one than when its run was made is told, and one that is named anew is not") {
  Named named;
  Shell& shardsim = named.shell;
  REQUIRE(shardsim("run in/t.yaml -o r --quiet --backend threads") == 0);
  const std::string told = "data.text: r/../in/words.txt is not what it was when the run beside this scenario was made";
  REQUIRE(shardsim("run r/scenario.yaml -o second") == 0);
  CHECK_FALSE(has(shardsim.out(), "is not what it was"));
  shardsim.folder().write("in/words.txt", std::string(64, 'b'));
  REQUIRE(shardsim("run r/scenario.yaml -o second") == 0);
  CHECK(has(shardsim.out(), told));
  CHECK(has(shardsim.folder().read("second/summary.json"), told));
  REQUIRE(shardsim("run r/scenario.yaml -o third --set data.text=../in/words.txt") == 0);
  CHECK_FALSE(has(shardsim.out(), "is not what it was"));
  shardsim("calibrate --from r --set prices={}");  // measured on threads: whether a price fits is another matter
  CHECK(has(shardsim.err(), "there is no such file") == false);
}

TEST_CASE("a command replaces only what it has written itself") {
  Shell shardsim;
  REQUIRE(shardsim("run s.yaml -o A --quiet") == 0);
  REQUIRE(shardsim("run s.yaml -o B --quiet --set steps=2") == 0);
  shardsim.folder().write("t.csv", "measured.step_seconds,batch.micro,calibrates\n0.001,4,yes\n");
  const std::string page = "exists and is no page of shardsim; nothing was touched";
  const std::string machine = "platform --gpu h100-sxm -o ";
  for (const char* file : {"A/summary.json", "A/scenario.yaml", "A/steps.csv", "s.yaml"}) {
    const std::string before = shardsim.folder().read(file), name = file;
    is_refusal(shardsim, "compare A B --html " + name, name + ": " + page);
    is_refusal(shardsim, "validate A B --html " + name, name + ": " + page);
    is_refusal(shardsim, machine + name, name + ": exists and is no platform file");
    is_refusal(shardsim, "calibrate t.csv --scenario s.yaml -o " + name, name + ": exists and is no file of shardsim calibrate");
    if (shardsim("report B") == 0) is_refusal(shardsim, "report A -o " + name, name + ": " + page);  // where there are pages
    CHECK(shardsim.folder().read(file) == before);
  }
  is_refusal(shardsim, machine + "A", "A: is a folder");
  for (const char* machines : {"1", "2"}) {  // over its own, and over an empty one
    shardsim.folder().write("empty.xml", "");
    CHECK(shardsim(machine + "empty.xml") == 0);
    CHECK(shardsim(machine + "box.xml --gpus-per-node " + machines) == 0);
  }
}

TEST_CASE("figures go neither among results nor over a file, and what cannot be drawn is one line") {
  Shell shardsim;
  REQUIRE(shardsim("run s.yaml -o A --quiet") == 0);
  for (const char* output : {"A", "A/figures", "A/dp/deeper"})
    is_refusal(shardsim, std::string("figures A -o ") + output, "is a run's results, which could not be replaced then");
  is_refusal(shardsim, "figures A/summary.json", "is the summary of a run; name its folder, A");
  if (std::system("/usr/bin/python3 -c 'import matplotlib' 2>/dev/null") == 0) {
    is_refusal(shardsim, "figures A --format gif", "--format gif: choose from svg, pdf, png");
    is_refusal(shardsim, "figures A --only nope", "--only nope: choose from");
    is_refusal(shardsim, "figures A -o s.yaml", "s.yaml: is a file; name a folder");
  }
  CHECK(shardsim("run s.yaml -o A --quiet") == 0);
}

TEST_CASE("an input that is a device, a pipe or a folder is one line, whichever input it is, and never waited for") {
  Shell shardsim;
  REQUIRE(::mkfifo((shardsim.folder() / "pipe").c_str(), 0600) == 0);
  REQUIRE(shardsim("run s.yaml -o A --quiet") == 0);
  for (const std::string input : {"/dev/zero", "pipe", "A"}) {
    is_refusal(shardsim, "run " + input, input + ": is a ");
    is_refusal(shardsim, "sweep " + input + " --grid steps=1,2", input + ": is a ");
    is_refusal(shardsim, "calibrate " + input + (input == "A" ? "" : " --scenario s.yaml"), input + ": is a ");
    is_refusal(shardsim, "validate t.csv --scenario " + input, "t.csv");
    if (input != "A") is_refusal(shardsim, "validate " + input, input + ": is a device or a pipe");
    for (const char* key :
         {"prices={from: ", "model={hf_config: ", "model={kind: mlp, widths: [3, 2], theta0: ", "data={y: x.npy, x: "})
      is_refusal(shardsim, std::string("run s.yaml --set '") + key + input + "}'", input + ": ");
    is_refusal(shardsim, "run s.yaml --set platform=" + input, "there is no platform file '" + input + "'");
  }
  fs::remove(shardsim.folder() / "A/summary.json");
  REQUIRE(::mkfifo((shardsim.folder() / "A/summary.json").c_str(), 0600) == 0);
  for (const char* reader : {"report A", "compare A A", "validate A B", "figures A"})
    is_refusal(shardsim, reader, "A/summary.json");
}

TEST_CASE("a table with a byte-order mark is read, what is no row of it is refused, and threads predict nothing") {
  Shell shardsim;
  shardsim.folder().write("t.csv", "\xef\xbb\xbfmeasured.step_seconds,batch.micro\r\n0.001,4\r\n0.002,8\r\n");
  const std::string validate = "validate t.csv --scenario s.yaml --set schemes=dp";
  CHECK(shardsim(validate + " --rows 1..2") == 0);
  is_refusal(shardsim, validate + " --rows 1..9", "t.csv: has no row 9; its rows are 1 to 2");
  is_refusal(shardsim, validate + " --set backend=threads", "--set backend: a prediction is of simulated seconds");
  shardsim.folder().write("t.csv", "measured.step_seconds,backend\n0.001,threads\n");
  is_refusal(shardsim, validate, "t.csv:2: column backend: a prediction is of simulated seconds; write backend: simgrid");
  shardsim.folder().write("threads.yaml", shardsim.folder().read("s.yaml") + "backend: threads\n");
  shardsim.folder().write("t.csv", "measured.step_seconds,batch.micro\n0.001,4\n");
  is_refusal(shardsim, "validate t.csv --scenario threads.yaml --set schemes=dp", "threads.yaml: backend: a prediction");
}

TEST_CASE("a place without a name is refused, points of a grid that are equal are, and ranks are told as they were said") {
  Shell shardsim;
  REQUIRE(shardsim("run s.yaml -o A --quiet") == 0);
  for (const char* arguments :
       {"run s.yaml -o ''", "report A -o ''", "compare A A --html ''", "validate A A --html ''", "figures A -o ''",
        "platform --gpu h100-sxm -o ''", "sweep s.yaml --grid steps=1,2 -o ''", "calibrate --from A -o ''"})
    is_refusal(shardsim, arguments, "'' names nothing; name a place, or leave it out");
  is_refusal(shardsim, "run s.yaml -o 'a\nb'", "'a b' has a line break or another control character; choose another name");
  shardsim.folder().write("a\nb.yaml", shardsim.folder().read("s.yaml"));
  is_refusal(shardsim, "run 'a\nb.yaml'", "'a b.yaml': has a line break or another control character in its name");
  is_refusal(shardsim, "sweep s.yaml --grid batch.micro=2,2.0", "--grid batch.micro: '2.0' is the same as '2'; remove one");
  is_refusal(shardsim, "sweep s.yaml --grid batch.micro,steps=2:1,2.0:1e0", "'2.0:1e0' is the same as '2:1'; remove one");
  is_refusal(shardsim, "run s.yaml --ranks 0,5", "--ranks '0,5': '5' is out of range; the ranks of this world are 0 to 1");
}

TEST_CASE("a run clears up after one that was killed, and after nobody else") {
  Shell shardsim;
  const auto leave = [&](const std::string& name) { fs::create_directories(shardsim.folder() / name / "dp"); };
  const std::string alive = ".r." + std::to_string(::getpid()) + ".new";
  for (const std::string& name :
       {std::string(".r.99999999.new"), alive, std::string(".other.99999999.new"), std::string(".r.x.new")})
    leave(name);
  REQUIRE(shardsim("run s.yaml -o r --quiet") == 0);
  CHECK_FALSE(fs::exists(shardsim.folder() / ".r.99999999.new"));
  for (const std::string& name : {alive, std::string(".other.99999999.new"), std::string(".r.x.new")})
    CHECK(fs::exists(shardsim.folder() / name));
}
