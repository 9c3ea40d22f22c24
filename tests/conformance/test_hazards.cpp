// The hazard checker: every kind of missing edge is found and named, and the right edge silences it.
#include <doctest/doctest.h>

#include "conformance/backends.h"

using namespace shardsim;
using namespace shardsim::conformance;

namespace {

/// A program that needs an event edge from the compute stream to the gather stream between its two halves.
struct Missing {
  const char* kind;
  void (*first)(Device&, Tensor x, Tensor y);
  void (*second)(Device&, Tensor x, Tensor y);
  const char* first_op;
  const char* second_op;
  const char* conflict;  ///< how the message names the two accesses
};

const Missing missing_edges[] = {
    {"read after write",
     [](Device& d, Tensor x, Tensor) {
       d.launch(Lane::compute, Fill{x, 1});
     },
     [](Device& d, Tensor x, Tensor y) {
       d.launch(Lane::gather, Copy{x, y});
     },
     "forward(unit 1) fill on the compute stream may still be writing", "backward(unit 2) copy on the gather stream reads", "fill"},
    {"write after read",
     [](Device& d, Tensor x, Tensor) {
       d.launch(Lane::compute, Copy{x, make(d, Lane::compute, 4)});
     },
     [](Device& d, Tensor x, Tensor) {
       d.launch(Lane::gather, Fill{x, 1});
     },
     "forward(unit 1) copy on the compute stream may still be reading", "backward(unit 2) fill on the gather stream writes",
     "copy"},
    {"write after write",
     [](Device& d, Tensor x, Tensor) {
       d.launch(Lane::compute, Fill{x, 1});
     },
     [](Device& d, Tensor x, Tensor) {
       d.launch(Lane::gather, Fill{x, 2});
     },
     "forward(unit 1) fill on the compute stream may still be writing", "backward(unit 2) fill on the gather stream writes",
     "fill"},
    {"a free while another stream reads",
     [](Device& d, Tensor x, Tensor) {
       d.launch(Lane::compute, Copy{x, make(d, Lane::compute, 4)});
     },
     [](Device& d, Tensor x, Tensor) { d.free(Lane::gather, x); },
     "forward(unit 1) copy on the compute stream may still be reading", "backward(unit 2) free on the gather stream writes",
     "copy"},
    {"an upload over what another stream reads",
     [](Device& d, Tensor x, Tensor) {
       d.launch(Lane::compute, Copy{x, make(d, Lane::compute, 4)});
     },
     [](Device& d, Tensor x, Tensor) {
       const std::vector<float> host(4, 1.f);
       d.upload(Lane::gather, x, {&host, none, dim(4)});
     },
     "forward(unit 1) copy on the compute stream may still be reading", "backward(unit 2) upload on the gather stream writes",
     "copy"},
    {"a download of what another stream writes",
     [](Device& d, Tensor x, Tensor) {
       d.launch(Lane::compute, Fill{x, 1});
     },
     [](Device& d, Tensor x, Tensor) { get(d, Lane::gather, x); },
     "forward(unit 1) fill on the compute stream may still be writing", "backward(unit 2) download on the gather stream reads",
     "fill"},
};

std::string edge_after(const char* op) {
  return std::string("missing edge: the gather stream has to wait for an event recorded on the compute stream after that ") + op;
}

}  // namespace

TEST_CASE("every kind of missing edge is an illegal step that names both operations and the edge") {
  for (const std::string& backend : backends())
    for (const Missing& missing : missing_edges) {
      CAPTURE(backend);
      CAPTURE(missing.kind);
      for (bool edge : {false, true}) {
        CAPTURE(edge);
        const Outcome outcome = run_on(backend, 1, [&](Device& device, Fabric&, std::vector<float>&) {
          const Tensor x = put(device, Lane::compute, {1, 2, 3, 4}), y = make(device, Lane::gather, 4);
          device.synchronize();
          device.label(Verb::forward, 1);
          missing.first(device, x, y);
          if (edge) device.wait(Lane::gather, device.record(Lane::compute));
          device.label(Verb::backward, 2);
          missing.second(device, x, y);
        });
        CHECK(outcome.illegal_step == !edge);
        if (edge) CHECK(outcome.error == "");
        if (edge) continue;
        CAPTURE(outcome.error);
        CHECK(outcome.says(missing.first_op));
        CHECK(outcome.says(missing.second_op));
        CHECK(outcome.says(edge_after(missing.conflict)));
      }
    }
}

TEST_CASE("memory that is used before its allocating stream got there is a missing edge") {
  for (const std::string& backend : backends())
    for (bool edge : {false, true}) {
      CAPTURE(backend);
      CAPTURE(edge);
      const Outcome outcome = run_on(backend, 1, [&](Device& device, Fabric&, std::vector<float>&) {
        const Tensor x = make(device, Lane::compute, 4);
        if (edge) device.wait(Lane::gather, device.record(Lane::compute));
        device.launch(Lane::gather, Fill{x, 1});
      });
      CHECK(outcome.illegal_step == !edge);
      if (!edge) CHECK(outcome.says("alloc on the compute stream"));
      if (!edge) CHECK(outcome.says(edge_after("alloc")));
    }
}

TEST_CASE("a collective on one stream has to wait for the other that made its buffer, and to be waited for") {
  for (const std::string& backend : backends())
    for (int edges : {0, 1, 2}) {
      CAPTURE(backend);
      CAPTURE(edges);
      const Outcome outcome = run_on(backend, 2, [&](Device& device, Fabric& fabric, std::vector<float>&) {
        const Tensor x = put(device, Lane::compute, {1, 2});
        device.label(Verb::all_reduce, 3);
        if (edges > 0) device.wait(Lane::gather, device.record(Lane::compute));
        fabric.all_reduce(Lane::gather, {0, 1, 2, device.rank()}, x);
        device.label(Verb::adam, 3);
        if (edges > 1) device.wait(Lane::compute, device.record(Lane::gather));
        device.launch(Lane::compute, Fill{x, 0});
      });
      CAPTURE(outcome.error);
      CHECK(outcome.illegal_step == (edges < 2));
      if (edges == 0) CHECK(outcome.says("all_reduce(unit 3) all_reduce on the gather stream reads"));
      if (edges == 0) CHECK(outcome.says("upload on the compute stream may still be writing"));
      if (edges == 1) CHECK(outcome.says("adam(unit 3) fill on the compute stream writes"));
      if (edges == 1) CHECK(outcome.says("all_reduce(unit 3) all_reduce on the gather stream may still be"));
      if (edges == 2) CHECK(outcome.error == "");
    }
}

TEST_CASE("an edge that was recorded too early does not help") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_on(backend, 1, [](Device& device, Fabric&, std::vector<float>&) {
      const Tensor x = make(device, Lane::compute, 4), y = make(device, Lane::gather, 4);
      const Event early = device.record(Lane::compute);
      device.launch(Lane::compute, Fill{x, 1});
      device.wait(Lane::gather, early);
      device.launch(Lane::gather, Copy{x, y});
    });
    CHECK(outcome.illegal_step);
    CHECK(outcome.says(edge_after("fill")));
  }
}

TEST_CASE("memory that was freed cannot be used or freed again") {
  for (const std::string& backend : backends())
    for (bool again : {false, true}) {
      CAPTURE(backend);
      CAPTURE(again);
      const Outcome outcome = run_on(backend, 1, [&](Device& device, Fabric&, std::vector<float>&) {
        const Tensor x = make(device, Lane::compute, 4);
        device.free(Lane::compute, x);
        device.label(Verb::adam, 5);
        if (again) device.free(Lane::compute, x);
        else device.launch(Lane::compute, Fill{x, 1});
      });
      CAPTURE(outcome.error);
      CHECK(outcome.illegal_step);
      CHECK(outcome.says(again ? "adam(unit 5) free on the compute stream" : "adam(unit 5) fill on the compute stream"));
      CHECK(outcome.says("memory that was freed"));
    }
}

TEST_CASE("memory that was freed and made again is not mistaken for the old") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_on(backend, 1, [](Device& device, Fabric&, std::vector<float>&) {
      const Tensor old = make(device, Lane::compute, 4);
      device.free(Lane::compute, old);
      device.synchronize();
      for (int i = 0; i < 10; ++i) device.launch(Lane::gather, Fill{make(device, Lane::gather, 4), 1});
      device.launch(Lane::gather, Fill{old, 1});
    });
    CHECK(outcome.illegal_step);
    CHECK(outcome.says("memory that was freed"));
  }
}

TEST_CASE("streams that need no edge are left alone") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_on(backend, 1, [](Device& device, Fabric&, std::vector<float>& out) {
      const Tensor x = put(device, Lane::compute, {1, 2, 3, 4});
      const Tensor y = make(device, Lane::compute, 4), z = make(device, Lane::gather, 4);
      const Tensor w = make(device, Lane::compute, 4);
      device.launch(Lane::compute, Copy{x, y});
      device.wait(Lane::gather, device.record(Lane::compute));
      device.launch(Lane::compute, Copy{x, w});  // two readers
      device.launch(Lane::gather, Copy{x, z});
      device.launch(Lane::compute, Fill{y.slice(none, dim(2)), 8});  // disjoint slices of one storage
      device.launch(Lane::gather, Fill{y.slice(dim(2), dim(2)), 9});
      device.wait(Lane::reduce, device.record(Lane::gather));  // compute -> gather -> reduce
      device.launch(Lane::reduce, Copy{x, make(device, Lane::reduce, 4)});
      device.synchronize();  // orders everything
      device.launch(Lane::reduce, Fill{x, 1});
      out = get(device, Lane::compute, y);
    });
    CHECK(outcome.error == "");
    REQUIRE(outcome.ranks.size() == 1);
    CHECK(outcome.ranks[0].result == std::vector<float>{8, 8, 9, 9});
  }
}

TEST_CASE("the check can be switched off") {
  BackendSettings settings;
  settings.checks_hazards = false, settings.numerics = false;
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_on(
        backend, 1,
        [](Device& device, Fabric&, std::vector<float>&) {
          device.launch(Lane::gather, Fill{make(device, Lane::compute, 4), 1});
        },
        settings);
    CHECK(outcome.error == "");
  }
}
