// The program from outside: exit codes, one clear line for what is wrong, and what it leaves behind.
#include <doctest/doctest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/shell.h"

namespace fs = std::filesystem;

using namespace shardsim::test;

TEST_CASE("a run prints the table, names its results and ends with 0") {
  Shell shardsim;
  REQUIRE(shardsim("run s.yaml") == 0);
  CHECK(has(shardsim.out(), "formula | simulated"));
  CHECK(has(shardsim.out(), "Results: results/s\n"));
  CHECK(shardsim.err().empty());
  CHECK(fs::exists(shardsim.folder() / "results/s/zero3/trace.json"));
}

TEST_CASE("a run that does not fit because of its buckets is told to make them smaller") {
  Shell shardsim;
  shardsim.folder().write("big.yaml",
                          "schemes: [{name: deepspeed, stage: 2, reduce_bucket_size: 1e9}]\nplatform: box.xml\nworld: 2\n"
                          "model: {kind: gpt2, layers: 1, hidden: 32, heads: 2, vocab: 64, positions: 16}\n"
                          "precision: {param: bf16}\nnumerics: off\n");
  REQUIRE(shardsim("run big.yaml --json -o big") == 0);
  const std::string notes = nlohmann::json::parse(shardsim.out())["notes"].dump();
  CHECK(has(notes, "does not fit"));
  CHECK(has(notes, "Cheapest remedy: a smaller reduce_bucket_size"));
}

TEST_CASE("a traffic that is not the formula's has its cause beside it: a tied embedding is gathered for each of its turns") {
  Shell shardsim;
  const std::string gpt2 =
      "schemes: [zero3]\nplatform: box.xml\nworld: 2\nnumerics: off\nsteps: 2\nmodel: {kind: gpt2, layers: 2, hidden: 32, "
      "heads: 2, vocab: 64, positions: 16";
  shardsim.folder().write("tied.yaml", gpt2 + "}\n"), shardsim.folder().write("untied.yaml", gpt2 + ", tied: false}\n");
  const auto printed = [&](const std::string& scenario) {
    REQUIRE(shardsim("run " + scenario) == 0);
    std::string text = shardsim.out();
    for (std::size_t at; (at = text.find("\n      ")) != std::string::npos;) text.replace(at, 7, " ");
    return text;
  };
  CHECK(has(printed("tied.yaml"),
            "; unit 0 is gathered 4 times a step, every other twice: a tied embedding has two turns in each pass"));
  CHECK_FALSE(has(printed("untied.yaml"), "is gathered"));
}

TEST_CASE("a run whose host has too little memory does not fit, and says what the host holds") {
  Shell shardsim;
  shardsim.folder().write(
      "offloaded.yaml",
      "schemes: [{name: deepspeed, stage: 2, reduce_bucket_size: 1e5, offload_optimizer: cpu}]\nplatform: box.xml\n"
      "world: 2\nmodel: {kind: gpt2, layers: 1, hidden: 32, heads: 2, vocab: 64, positions: 16}\n"
      "precision: {param: bf16}\nnumerics: off\n"
      "prices: {host_memory_bandwidth: 50GBps, host_link_bandwidth: 20GBps}\n");
  const auto result = [&](const std::string& host_memory, const std::string& more = "") {
    REQUIRE(shardsim("run offloaded.yaml --json -o offloaded --set prices.host_memory=" + host_memory + more) == 0);
    return nlohmann::json::parse(shardsim.out());
  };
  // Threads have no GPU that something could be too large for, so there is only one verdict.
  const nlohmann::json on_threads = result("100KiB", " --backend threads --set numerics=full");
  CHECK(on_threads["results"][0]["fits"] == false);
  CHECK(has(on_threads["notes"].dump(), "in the host's memory is more than the 100.00 KiB that each GPU has of its node's."));
  CHECK(result("1MiB", " --backend threads --set numerics=full")["results"][0]["fits"].is_null());
  const nlohmann::json small = result("100KiB"), large = result("1MiB");
  CHECK(small["results"][0]["fits"] == false);
  CHECK(small["results"][0]["host_memory_bytes"] == 102400);
  CHECK(has(small["notes"].dump(),
            "in the host's memory is more than the 100.00 KiB that each GPU has of its node's. At the peak: "));
  CHECK(has(small["notes"].dump(),
            "More ranks share it among more nodes; without offload_optimizer the GPUs would have to hold it."));
  CHECK(large["results"][0]["fits"] == true);
  CHECK(small["results"][0]["host_peak_bytes"] == large["results"][0]["host_peak_bytes"]);
  CHECK(shardsim("run offloaded.yaml --set prices.host_memory=100") == 2);
}

TEST_CASE("two runs leave the same bytes") {
  Shell shardsim;
  REQUIRE(shardsim("run s.yaml -o a --quiet") == 0);
  CHECK(shardsim.out().empty());
  REQUIRE(shardsim("run s.yaml -o b --json") == 0);
  CHECK(shardsim.out() == shardsim.folder().read("b/summary.json"));
  for (const auto& entry : fs::recursive_directory_iterator(shardsim.folder() / "a")) {
    if (!entry.is_regular_file()) continue;
    const std::string name = fs::relative(entry.path(), shardsim.folder() / "a").string();
    CHECK_MESSAGE(shardsim.folder().read("a/" + name) == shardsim.folder().read("b/" + name), name);
  }
}

TEST_CASE("the same run on threads has the same theta and bytes") {
  Shell shardsim;
  REQUIRE(shardsim("run s.yaml -o a --quiet") == 0);
  REQUIRE(shardsim("run s.yaml -o b --quiet --backend threads") == 0);
  const auto a = nlohmann::json::parse(shardsim.folder().read("a/summary.json"))["results"];
  const auto b = nlohmann::json::parse(shardsim.folder().read("b/summary.json"))["results"];
  for (std::size_t i = 0; i < 2; ++i)
    for (const char* same : {"theta_hash", "bytes_sent_per_rank_per_step", "resident_bytes"}) CHECK(a[i][same] == b[i][same]);
}

TEST_CASE("backend: cuda is one line and exit code 2 where there is no GPU, or no CUDA in the program") {
  Shell shardsim;
  const int code = shardsim("run s.yaml -o r --quiet --backend cuda --set fabric=loopback");
  if (code == 0) {
    MESSAGE("skipped: this machine has a GPU");
    return;
  }
  CHECK(code == 2);
  CHECK(shardsim.err().starts_with("s.yaml: backend: "));
  CHECK(has(shardsim.err(), "use backend: simgrid or threads\n"));
  CHECK(shardsim.err().find('\n') == shardsim.err().size() - 1);
  CHECK_FALSE(fs::exists(shardsim.folder() / "r"));
}

TEST_CASE("a missed expectation is one line and exit code 1, with the results kept") {
  Shell shardsim;
  CHECK(shardsim("run s.yaml -o r --quiet --set expect.dp.parameters=1") == 1);
  CHECK(shardsim.err() == "--set: dp.parameters: expected 1, found 32\n");  // 3 * 5 + 5 + 5 * 2 + 2
  CHECK(fs::exists(shardsim.folder() / "r/summary.json"));
}

TEST_CASE("wrong input is one line and exit code 2, and leaves no results behind") {
  Shell shardsim;
  shardsim.folder().write(
      "nogpu.xml",
      "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
      "<platform version=\"4.1\"><zone id=\"z\" routing=\"Full\"><host id=\"h\" speed=\"1Gf\"/></zone></platform>\n");
  for (const char* arguments : {"--set world=0", "--set wrld=1", "--set world=3", "--set platform=gone.xml",
                                "--set platform=nogpu.xml", "--set platform=s.yaml", "--set batch.micro=0", "--set optimizer.eps=0",
                                "--set model.theta0=gone.npy", "--set units.bucket=25m", "-o s.yaml"}) {
    INFO(arguments);
    CHECK(shardsim("run s.yaml " + std::string(arguments)) == 2);
    CHECK_MESSAGE(is_one_line(shardsim.err()), shardsim.err());
    CHECK(shardsim.out().empty());
    CHECK_FALSE(fs::exists(shardsim.folder() / "results"));
  }
  CHECK(shardsim("run gone.yaml") == 2);
  CHECK(is_one_line(shardsim.err()));
}

TEST_CASE("a loss that diverges is reported with its step, and the run is fine") {
  Shell shardsim;
  REQUIRE(shardsim("run s.yaml -o r --set optimizer.lr=1e38 --set schemes=dp") == 0);
  CHECK(has(shardsim.out(), "dp diverged: its loss is not finite from step "));
  const auto result = nlohmann::json::parse(shardsim.folder().read("r/summary.json"))["results"][0];
  CHECK(result["diverged"] == true);
  CHECK(result["loss_last"].is_null());
  CHECK(fs::exists(shardsim.folder() / "r/dp/theta_final.npy"));
}

TEST_CASE("explain shows a scheme's flags, closed forms, verbs and source") {
  Shell shardsim;
  REQUIRE(shardsim("explain zero3") == 0);
  CHECK(has(shardsim.out(), "keeps its slice only of: param, grad, opt"));
  CHECK(has(shardsim.out(), "traffic per step, P(N-1)/N         3                  3\n"));
  CHECK(has(shardsim.out(), "resident, bytes per parameter      2                  2\n"));
  CHECK(has(shardsim.out(), "all_gather()"));
  CHECK(has(shardsim.out(), "class Zero3 : public Zero2"));
  REQUIRE(shardsim("explain zero2") == 0);
  CHECK(has(shardsim.out(), "class Zero1 : public BandScheme"));  // where its step() is
  CHECK(has(shardsim.out(), "class Zero2 : public Zero1"));
  CHECK_FALSE(has(shardsim.out(), "all_reduce()"));  // a verb that it never calls
}

TEST_CASE("explain of two schemes shows the diff of their code and of their consequences") {
  Shell shardsim;
  REQUIRE(shardsim("explain zero1 zero2") == 0);
  CHECK(has(shardsim.out(),
            "+ class Zero2 : public Zero1 {\n+   ShardSet shard() const override { return {Band::opt, Band::grad}; }"));
  CHECK(has(shardsim.out(), "  resident                 5.5 | 5.5             3.75 | 3.75   <-"));
  CHECK(has(shardsim.out(), "  traffic, 4 micro-batches 2 | 2                 5 | 5   <-"));  // A + 1
  CHECK(shardsim("explain zero1 zero9") == 2);
  CHECK(has(shardsim.err(), "known schemes: dp, zero1"));
  for (const char* wrong : {"explain", "explain zero1 zero2 zero3", "explain --stage 3"}) CHECK(shardsim(wrong) == 2);
  for (const char* of_scenario : {"--only matmul", "--set steps=2", "--scheme dp", "--rank 1"}) {
    CHECK(shardsim("explain zero1 " + std::string(of_scenario)) == 2);
    CHECK(shardsim.err() == "explain: --scheme, --rank, --only and --set are of a scenario; name its file\n");
  }
  CHECK(shardsim("explain zero1 --stage 3") == 2);
  CHECK(shardsim.err() == "zero1: --stage: unknown option; this scheme has none\n");
}

TEST_CASE("list names what there is") {
  Shell shardsim;
  REQUIRE(shardsim("list schemes") == 0);
  CHECK(has(shardsim.out(), "zero3_keep"));
  REQUIRE(shardsim("list models") == 0);
  CHECK(has(shardsim.out(), "mlp"));
  CHECK(shardsim("list platforms") == 0);
  CHECK(shardsim("list gpus") == 0);
}

TEST_CASE("Ctrl-C, SIGTERM and SIGHUP end with 130 and keep what was finished") {
  for (const std::string signal : {"INT", "TERM", "HUP"}) {
    // A shell's background jobs ignore SIGINT; env gives it back.
    Shell shardsim("env --default-signal=" + signal + " timeout --preserve-status --signal=" + signal + " 3 ");
    CHECK(shardsim("run s.yaml -o r --set steps=1000000 --set record.ranks=1") == 130);
    CHECK_MESSAGE(has(shardsim.err(), "interrupted; what was finished is in r\n"), shardsim.err());
    CHECK(has(shardsim.out(), "dp was interrupted after "));
    CHECK(nlohmann::json::parse(shardsim.folder().read("r/summary.json"))["results"][0]["interrupted"] == true);
    for (const fs::directory_entry& entry : fs::directory_iterator(shardsim.folder().path()))
      CHECK_FALSE(entry.path().filename().string().starts_with(".r."));
  }
}

TEST_CASE("a run that does not record theta has no file and no hash of it, and says so") {
  Shell shardsim;
  REQUIRE(shardsim("run s.yaml --backend threads -o real --set record.theta=off") == 0);
  CHECK(has(shardsim.out(), "theta: not recorded (record: {theta: off})."));
  CHECK(nlohmann::json::parse(shardsim.folder().read("real/summary.json"))["results"][0]["theta_hash"].is_null());
  CHECK_FALSE(fs::exists(shardsim.folder() / "real/dp/theta_final.npy"));
  CHECK(shardsim("run s.yaml -o sim --against real --quiet") == 0);
  CHECK(has(shardsim.out(), "Not compared: relative distance of theta (the measured run has no theta_final.npy)"));
  CHECK(shardsim("run s.yaml --set record.theta=off --set expect.theta=equal") == 2);
  CHECK_MESSAGE(shardsim.err() == "--set expect.theta: cannot be checked with record: {theta: off}; leave one of the two out\n",
                shardsim.err());
}

TEST_CASE("a run is compared with a measured one, at once or afterwards") {
  Shell shardsim;
  REQUIRE(shardsim("run s.yaml --backend threads -o real --quiet") == 0);
  CHECK(shardsim("run s.yaml -o sim --against real") == 0);
  CHECK(has(shardsim.out(), "predicted       measured          error"));
  CHECK(shardsim("run s.yaml -o real --against ./real/.") == 2);
  CHECK(has(shardsim.err(), "--against ./real/.: is the folder that this run writes; write it to another one with -o"));
  CHECK(shardsim("run s.yaml -o sim --against real --quiet") == 0);
  CHECK(has(shardsim.out(), "dp: "));
  CHECK(has(shardsim.out(), " figures compared, simgrid with threads; steady step (2 to 3) "));
  CHECK_FALSE(has(shardsim.out(), "predicted       measured"));
  CHECK(shardsim("validate sim real") == 0);
  CHECK(has(shardsim.out(), "all_reduce"));
  CHECK(shardsim("validate sim ./sim/.") == 2);
  CHECK(shardsim.err() == "./sim/.: is the folder of the prediction, too; name two runs, as in shardsim validate SIM MEASURED\n");
  CHECK(shardsim("validate sim real --max-error 0.001%") == 1);
  CHECK(has(shardsim.err(), "dp: the step's error is"));
  CHECK(shardsim("validate sim real --html nowhere/both.html") == 2);  // a page, or one line that says why there is none
  CHECK(is_one_line(shardsim.err()));
  CHECK(shardsim("validate sim") == 2);
  CHECK(has(shardsim.err(), "sim: is a folder; a run is compared with a second one, as in shardsim validate SIM MEASURED"));
  CHECK(shardsim("run s.yaml -o other --against nowhere") == 2);
  CHECK(is_one_line(shardsim.err()));
  CHECK(!fs::exists(shardsim.folder() / "other"));
}

TEST_CASE("where ranks own different parts of a model, the printout says which ranks the traces have") {
  Shell shardsim;
  shardsim.folder().write(
      "g.yaml",
      "schemes: [dp, zero3, pytorch_ddp, fsdp2, nanotron_zero1, torch_zero_redundancy_optimizer]\n"
      "platform: {gpu: h100-sxm, nodes: 2, gpus_per_node: 7, nic: 400Gbps}\nworld: 14\nnumerics: off\nsteps: 2\n"
      "model: {kind: gpt2, layers: 2, hidden: 64, heads: 4, vocab: 130, positions: 16}\nstreams: 3\n");
  const auto named = [&](const std::string& ranks) {
    REQUIRE(shardsim("run g.yaml -o g --json" + ranks) == 0);
    const nlohmann::json notes = nlohmann::json::parse(shardsim.out())["notes"];
    std::string schemes;
    for (const std::string note : notes)
      if (has(note, ": In traces, CSVs and compute times: only ranks 0-7 (record: ranks)."))
        schemes += note.substr(0, note.find(':')) + " ";
    return schemes;
  };
  CHECK(named("") == "fsdp2 nanotron_zero1 torch_zero_redundancy_optimizer ");
  CHECK(named(" --ranks 0-13") == "");
}
