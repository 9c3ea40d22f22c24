// What becomes of a run on GPUs when one of them, its memory, NCCL or another node fails: seen on cards that are none.
#include <doctest/doctest.h>
#include <fcntl.h>

#include <barrier>
#include <csignal>

#include "app/program.h"
#include "backends/cuda/backend.h"
#include "backends/cuda/errors.h"
#include "card/fake_card.h"
#include "core/registry.h"
#include "gpu/on_nodes.h"
#include "scratch.h"

using namespace shardsim;
using test::fake_card;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Sets the card's faults, and takes them back.
struct Faults {
  explicit Faults(const std::function<void(test::FakeCard&)>& set) { set(fake_card()); }
  ~Faults() {
    test::FakeCard& card = fake_card();
    card.memory = std::int64_t(1) << 40, card.launches_until_fault = -1, card.aborted = 0, card.others_are_gone = false;
    for (auto* count : {&card.collectives_until_refusal, &card.collectives_until_silence, &card.collectives_until_signal,
                        &card.copies_until_signal})
      *count = -1;
  }
};

/// The error of two ranks with a GPU each, who reduce twice, the second time in backward of unit 3.
std::string error_of_two_ranks(double stall_seconds = 1e6) {
  CudaSettings settings;
  settings.fabric = CudaFabric::nccl, settings.stall_seconds = stall_seconds;
  CudaBackend backend(settings);
  std::barrier<> both(2);
  return test::error_of([&] {
    backend.run(2, [&both](Device& device, Fabric& fabric) {
      const std::vector<float> ones(64, 1);
      const Tensor x = device.alloc(Lane::compute, Band::grad, {1, 1}, {64, 64}, Dtype::fp32);
      device.upload(Lane::compute, x, {&ones, {0, 0}, {64, 64}});
      device.label(Verb::forward, 2);
      fabric.all_reduce(Lane::compute, {0, 1, 2, device.rank()}, x);
      both.arrive_and_wait();  // these collectives do not wait for each other
      device.label(Verb::backward, 3);
      fabric.all_reduce(Lane::compute, {0, 1, 2, device.rank()}, x);
      device.synchronize();
      device.free(Lane::compute, x);
    });
  });
}

const char scenario[] = R"(name: faults
schemes: [zero3, dp]
world: 2
model: {kind: mlp, widths: [16, 64, 64, 16]}
batch: {micro: 4}
optimizer: {name: adam}
units: layer
steps: 2
backend: cuda
)";

/// "exit code, what it wrote to stderr" of the program, in a process that may end as it likes.
std::string program(const test::Scratch& folder, const std::vector<std::string>& words) {
  std::vector<const char*> arguments{"shardsim"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  const std::string err = "stderr-" + std::to_string(getpid());
  std::cout.flush(), std::fflush(nullptr);
  const pid_t process = fork();
  if (process == 0) {
    const int to = open((folder / err).c_str(), O_CREAT | O_WRONLY, 0600);
    if (chdir(folder.path().c_str()) != 0 || dup2(to, STDERR_FILENO) < 0) _exit(99);
    const int code = run_program(int(arguments.size()), arguments.data(), built_in_schemes());
    std::cerr.flush();
    _exit(code);
  }
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {}
  return std::to_string(WEXITSTATUS(status)) + ", " + folder.read(err);
}

/// The same of two nodes with a rank each. Node 1's card has the faults.
std::vector<std::string> program_on_two_nodes(const test::Scratch& folder, const std::function<void(test::FakeCard&)>& set) {
  return test::on_nodes(2, [&](test::Seat& seat) {
    const std::string node = std::to_string(seat.nodes.me), place = "127.0.0.1:" + std::to_string(seat.nodes.port);
    if (seat.nodes.me == 1) set(fake_card());
    else fake_card().collectives_until_silence = 3;  // as NCCL's, which waits for the other node
    seat.door = {};
    return program(folder, {"run", "s.yaml", "--quiet", "-o", "out", "--set", "fabric=nccl", "--nnodes", "2", "--node-rank", node,
                            "--rdzv-endpoint", place});
  });
}

}  // namespace

TEST_CASE(
    "a collective that NCCL refuses ends the run with rank, verb, unit and what NCCL says, and what is under way is aborted") {
  const Faults faults([](auto& card) { card.collectives_until_refusal = 2; });
  const std::string error = error_of_two_ranks();
  CAPTURE(error);
  CHECK(has(error, "rank "));
  CHECK(has(error, ", backward(unit 3), all_reduce: NCCL: all_reduce(unit 3): invalid argument"));
  CHECK(fake_card().aborted.load() >= 1);
}

TEST_CASE("when NCCL finds that another rank is gone while a stream does not end, the last collective is named") {
  const Faults faults([](auto& card) { card.collectives_until_silence = 3, card.others_are_gone = true; });
  CHECK(has(error_of_two_ranks(),
            "NCCL: another rank or the network is gone; the last collective was all_reduce(unit 3): remote "
            "process exited or there was a network error"));
  CHECK(fake_card().aborted.load() >= 1);
}

TEST_CASE("a collective that does not end is an error after a stall, and no hang") {
  const Faults faults([](auto& card) { card.collectives_until_silence = 3; });
  CHECK(has(error_of_two_ranks(1), "backward(unit 3), at the latest here: the GPU has not finished for 1 s"));
  CHECK(fake_card().aborted.load() >= 1);
}

TEST_CASE("out of memory on the card is one line with scheme, rank, verb and unit, and finished schemes are kept") {
  const test::Scratch folder;
  folder.write("s.yaml", scenario);
  REQUIRE(program(folder, {"run", "s.yaml", "--quiet", "-o", "all", "--set", "fabric=loopback"}) == "0, ");
  const Faults faults([](auto& card) { card.memory = 200'000; });
  const std::string end = program(folder, {"run", "s.yaml", "--quiet", "-o", "out", "--set", "fabric=loopback"});
  CHECK(end.starts_with("2, scheme 'dp', rank "));
  CHECK(has(end, "), alloc: the GPU has no room for "));
  CHECK(end.find('\n') == end.size() - 1);
  CHECK(folder.read("out/summary.json") != "");
  CHECK(std::filesystem::exists(folder / "out/zero3"));
  CHECK_FALSE(std::filesystem::exists(folder / "out/dp"));
}

TEST_CASE("a fault on the card is one line with scheme, rank, verb and unit, and exit code 5") {
  const test::Scratch folder;
  folder.write("s.yaml", scenario);
  const Faults faults([](auto& card) { card.launches_until_fault = 20; });
  const std::string end =
      program(folder, {"run", "s.yaml", "--quiet", "-o", "out", "--set", "fabric=loopback", "--set", "world=1"});
  CHECK(end.starts_with("5, scheme 'zero3', rank "));
  CHECK(has(end, "(unit "));
  CHECK(has(end, ": an illegal memory access was encountered (cudaErrorIllegalAddress)\n"));
  CHECK(end.find('\n') == end.size() - 1);
}

TEST_CASE("a run that is interrupted before its first step begins none") {
  const test::Scratch folder;
  folder.write("s.yaml", scenario);
  const std::vector<std::string> words = {"run", "s.yaml", "--quiet", "-o", "out", "--set", "fabric=loopback", "--set", "world=1"};
  {
    const Faults faults([](auto& card) { card.signal = SIGINT, card.copies_until_signal = 0; });
    CHECK(program(folder, words) == "130, interrupted; nothing was finished\n");
    CHECK_FALSE(std::filesystem::exists(folder / "out"));
  }
  const Faults faults([](auto& card) { card.signal = SIGINT, card.copies_until_signal = 4; });  // three are bind's
  CHECK(program(folder, words) == "130, interrupted; what was finished is in out\n");
  CHECK(has(folder.read("out/summary.json"), "\"steps\": 1,"));
}

TEST_CASE("when a node's process dies in a collective the other says which node, and in which collective it was itself") {
  const test::Scratch folder;
  folder.write("s.yaml", scenario);
  const std::vector<std::string> ends =
      program_on_two_nodes(folder, [](auto& card) { card.signal = SIGKILL, card.collectives_until_signal = 3; });
  CHECK(ends[0].starts_with(
      "5, scheme 'zero3': node 1 (rank 1) is gone: its process ended, or its network did; rank 0's last collective was "));
  CHECK(ends[1].starts_with("2, "));
}

TEST_CASE("when one node is interrupted in a collective both end with 130") {
  const test::Scratch folder;
  folder.write("s.yaml", scenario);
  const std::vector<std::string> ends =
      program_on_two_nodes(folder, [](auto& card) { card.signal = SIGINT, card.collectives_until_signal = 3; });
  for (const std::string& end : ends) CHECK(end.starts_with("130, "));
}
