// timeline.csv: the slices of a stretch of time, with operations that follow each other as one.
#include <doctest/doctest.h>

#include <sstream>

#include "formats/timeline.h"

using namespace shardsim;

namespace {

Span op(double begin, double end, Verb verb, int unit) { return {begin, end, 0, 0, unit, Lane::compute, verb, 0, false}; }
Span collective(double begin, double end, bool control = false) {
  return {begin, end, 700, 800, 1, Lane::gather, Verb::all_gather, Span::collective, control};
}

std::string written(const std::vector<Span>& spans, double begin, double end) {
  std::ostringstream out;
  formats::write_timeline(out, 3, spans, begin, end);
  return out.str();
}

}  // namespace

TEST_CASE("operations of one verb and unit that follow each other are one slice") {
  CHECK(written({op(0, 1, Verb::forward, 0), op(1, 2, Verb::forward, 0), op(2, 3, Verb::forward, 1), op(3, 4, Verb::backward, 1)},
                0, 9) ==
        "3,compute,forward,0,2,0,2,0,0,compute\n"
        "3,compute,forward,1,1,2,3,0,0,compute\n"
        "3,compute,backward,1,1,3,4,0,0,compute\n");
}

TEST_CASE("a gap between operations stays a gap") {
  CHECK(written({op(0, 1, Verb::forward, 0), op(1.5, 2, Verb::forward, 0)}, 0, 9) ==
        "3,compute,forward,0,1,0,1,0,0,compute\n3,compute,forward,0,1,1.5,2,0,0,compute\n");
}

TEST_CASE("collectives are never merged, and say what they carry") {
  CHECK(written({collective(1, 2, true), collective(0, 1)}, 0, 9) ==
        "3,gather,all_gather,1,1,0,1,800,700,data\n3,gather,all_gather,1,1,1,2,800,700,control\n");
}

TEST_CASE("what lies outside of the stretch is left out") {
  CHECK(written({op(0, 1, Verb::forward, 0), op(1, 2, Verb::backward, 0), op(2, 3, Verb::adam, 0)}, 1, 2) ==
        "3,compute,backward,0,1,1,2,0,0,compute\n");
}
