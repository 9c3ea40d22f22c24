// Runs that go wrong: ranks that issue different collectives, ranks that fail, ranks that wait for ever. All of them end.
#include <doctest/doctest.h>

#include <stdexcept>

#include "conformance/backends.h"
#include "core/error.h"

using namespace shardsim;
using namespace shardsim::conformance;

namespace {

Group everyone(int world, int rank) { return {0, 1, world, rank}; }

/// Two ranks; rank 1 does something else.
Outcome run_two(const std::string& backend, const std::function<void(Device&, Fabric&, Group, Tensor x)>& zero,
                const std::function<void(Device&, Fabric&, Group, Tensor x)>& one) {
  return run_on(backend, 2, [&](Device& device, Fabric& fabric, std::vector<float>&) {
    const Tensor x = put(device, Lane::reduce, {1, 2, 3, 4});
    const Group group = everyone(2, device.rank());
    device.synchronize();
    device.label(Verb::backward, 6);
    fabric.all_reduce(Lane::reduce, group, x);
    (device.rank() == 0 ? zero : one)(device, fabric, group, x);
    device.synchronize();
  });
}

const auto all_reduce = [](Device& device, Fabric& fabric, Group group, Tensor x) {
  device.label(Verb::all_reduce, 7);
  fabric.all_reduce(Lane::reduce, group, x);
};

}  // namespace

TEST_CASE("ranks that issue different collectives are told who, what and where, and do not hang") {
  struct Other {
    const char* kind;
    void (*issue)(Device&, Fabric&, Group, Tensor);
    const char* words;
  };
  const Other others[] = {
      {"verb",
       [](Device& device, Fabric& fabric, Group group, Tensor x) {
         device.label(Verb::reduce_scatter, 7);
         fabric.reduce_scatter(Lane::reduce, group, x, x.slice(dim(2 * device.rank()), dim(2)));
       },
       "reduce_scatter(unit 7) of 16 bytes on the reduce stream"},
      {"size",
       [](Device& device, Fabric& fabric, Group group, Tensor x) {
         device.label(Verb::all_reduce, 7);
         fabric.all_reduce(Lane::reduce, group, x.slice(none, dim(2)));
       },
       "all_reduce(unit 7) of 8 bytes on the reduce stream"},
      {"stream",
       [](Device& device, Fabric& fabric, Group group, Tensor x) {
         device.label(Verb::all_reduce, 7);
         device.wait(Lane::gather, device.record(Lane::reduce));
         fabric.all_reduce(Lane::gather, group, x);
       },
       "all_reduce(unit 7) of 16 bytes on the gather stream"},
      {"unit",
       [](Device& device, Fabric& fabric, Group group, Tensor x) {
         device.label(Verb::all_reduce, 8);
         fabric.all_reduce(Lane::reduce, group, x);
       },
       "all_reduce(unit 8) of 16 bytes on the reduce stream"},
  };
  for (const std::string& backend : backends())
    for (const Other& other : others) {
      CAPTURE(backend);
      CAPTURE(other.kind);
      const Outcome outcome = run_two(backend, all_reduce, other.issue);
      CAPTURE(outcome.error);
      CHECK(outcome.illegal_step);
      CHECK(outcome.says("all_reduce(unit 7) of 16 bytes on the reduce stream"));
      CHECK(outcome.says(other.words));
      CHECK(outcome.says("rank 0"));
      CHECK(outcome.says("rank 1"));
      CHECK(outcome.says("as number 2 of its group"));
    }
}

TEST_CASE("a rank that finishes while another expects a collective of it is an error and not a hang") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_two(backend, all_reduce, [](Device&, Fabric&, Group, Tensor) {});
    CAPTURE(outcome.error);
    CHECK(outcome.illegal_step);
    CHECK(outcome.says("rank 1 finished after 1 collectives, but rank 0 issued one more, all_reduce(unit 7)"));
  }
}

TEST_CASE("a buffer that the group does not divide is refused where it has to be sliced") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_on(backend, 3, [](Device& device, Fabric& fabric, std::vector<float>&) {
      device.label(Verb::reduce_scatter, 4);
      const Tensor x = put(device, Lane::reduce, {1, 2, 3, 4});
      fabric.reduce_scatter(Lane::reduce, everyone(3, device.rank()), x, x.slice(none, dim(1)));
    });
    CHECK(outcome.illegal_step);
    CHECK(outcome.says("reduce_scatter(unit 4)"));
    CHECK(outcome.says("pad the buffer"));
  }
}

TEST_CASE("borders that are not those of equal charged slices, or of other slices than the rank's, are refused") {
  struct Wrong {
    const char* kind;
    std::vector<Dim> borders;
  };
  const Wrong all[] = {
      {"too few", {none, Dim(4, 2)}},
      {"too many", {none, Dim(4, 2), Dim(8, 4), Dim(8, 4)}},
      {"unequal charged slices", {none, Dim(3, 2), Dim(8, 4)}},
      {"the slice of another size", {none, Dim(4, 1), Dim(8, 4)}},
      {"not from the beginning", {Dim(0, 1), Dim(4, 3), Dim(8, 4)}},
      {"not to the end", {none, Dim(4, 2), Dim(8, 5)}},
  };
  for (const std::string& backend : backends())
    for (const Wrong& wrong : all) {
      CAPTURE(backend);
      CAPTURE(wrong.kind);
      const Outcome outcome = run_on(backend, 2, [&](Device& device, Fabric& fabric, std::vector<float>&) {
        device.label(Verb::all_gather, 4);
        const Tensor x = device.alloc(Lane::gather, Band::workspace, one, Dim(8, 4), Dtype::fp32);
        const Tensor mine = device.alloc(Lane::gather, Band::workspace, one, Dim(4, 2), Dtype::fp32);
        fabric.all_gather(Lane::gather, everyone(2, device.rank()), mine, x, Payload::data,
                          std::make_shared<const std::vector<Dim>>(wrong.borders));
      });
      CHECK(outcome.illegal_step);
      CHECK(outcome.says("all_gather(unit 4): the borders have to be 3, from 0 to the buffer's size, one every 4 elements"));
    }
}

TEST_CASE("a twin's buffer that is not a multiple of its slices needs borders") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_on(backend, 2, [](Device& device, Fabric& fabric, std::vector<float>&) {
      const Tensor x = device.alloc(Lane::gather, Band::workspace, one, Dim(8, 5), Dtype::fp32);
      const Tensor mine = device.alloc(Lane::gather, Band::workspace, one, Dim(4, 2), Dtype::fp32);
      fabric.all_gather(Lane::gather, everyone(2, device.rank()), mine, x);
    });
    CHECK(outcome.illegal_step);
    CHECK(outcome.says("give the borders"));
  }
}

TEST_CASE("ranks whose borders differ are an error and overwrite nothing") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_on(backend, 2, [](Device& device, Fabric& fabric, std::vector<float>&) {
      const Dim middle(4, device.rank() == 0 ? 1 : 2);  // what no rank may decide for itself
      const Tensor x = device.alloc(Lane::reduce, Band::workspace, one, Dim(8, 3), Dtype::fp32);
      const Tensor mine =
          device.alloc(Lane::reduce, Band::workspace, one, device.rank() == 0 ? middle : Dim(8, 3) - middle, Dtype::fp32);
      device.launch(Lane::reduce, Fill{x, 1});
      fabric.reduce_scatter(Lane::reduce, everyone(2, device.rank()), x, mine, Payload::data,
                            std::make_shared<const std::vector<Dim>>(std::vector<Dim>{none, middle, Dim(8, 3)}));
      device.synchronize();
    });
    CHECK(outcome.illegal_step);
    CHECK(outcome.says("different real sizes"));
  }
}

TEST_CASE("an exception in one rank ends the run with that error") {
  for (const std::string& backend : backends())
    for (int world : {1, 3}) {
      CAPTURE(backend);
      CAPTURE(world);
      const Outcome outcome = run_on(backend, world, [world](Device& device, Fabric& fabric, std::vector<float>& out) {
        const Tensor x = put(device, Lane::reduce, std::vector<float>(std::size_t(world), 1.f));
        const Held held(device, Lane::compute, make(device, Lane::compute, 100));
        std::vector<float> local;  // goes before the stream gets there
        device.download(Lane::reduce, x, local);
        if (device.rank() == world - 1) throw std::runtime_error("the last rank gives up");
        for (int i = 0; i < 3; ++i) fabric.all_reduce(Lane::reduce, everyone(world, device.rank()), x);
        out = get(device, Lane::reduce, x);
      });
      CHECK(outcome.error == "the last rank gives up");
      CHECK(!outcome.illegal_step);
      CHECK(outcome.ranks.empty());
    }
}

TEST_CASE("an illegal step in one rank ends the run as an illegal step") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_on(backend, 4, [](Device& device, Fabric& fabric, std::vector<float>&) {
      if (device.rank() == 2) throw IllegalStep("rank 2 may not do this");
      fabric.all_reduce(Lane::compute, everyone(4, device.rank()), put(device, Lane::compute, {1, 2, 3, 4}));
      device.synchronize();
    });
    CHECK(outcome.error == "rank 2 may not do this");
    CHECK(outcome.illegal_step);
  }
}

TEST_CASE("an error in a destructor is thrown by the next call") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_on(backend, 1, [](Device& device, Fabric&, std::vector<float>&) {
      {
        const Held held(device, Lane::compute, make(device, Lane::compute, 4));
        device.free(Lane::compute, *held);
      }
      device.synchronize();
    });
    CHECK(outcome.illegal_step);
    CHECK(outcome.says("memory that was freed"));
  }
}

TEST_CASE("ranks that wait for each other in a circle of groups are an error and not a hang") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    // 0 waits for 1 in {0, 1}, 1 for 2 in {1, 2}, 2 for 0 in {0, 2}: no two of them are ever in one collective.
    const Outcome outcome = run_on(backend, 3, [](Device& device, Fabric& fabric, std::vector<float>&) {
      const Group first[] = {{0, 1, 2, 0}, {1, 1, 2, 0}, {0, 2, 2, 1}};
      const Group second[] = {{0, 2, 2, 0}, {0, 1, 2, 1}, {1, 1, 2, 1}};
      const Tensor x = put(device, Lane::compute, {1, 2});
      fabric.all_reduce(Lane::compute, first[device.rank()], x);
      device.synchronize();
      fabric.all_reduce(Lane::compute, second[device.rank()], x);
    });
    CHECK(outcome.error != "");
    CHECK(outcome.ranks.empty());
  }
}
