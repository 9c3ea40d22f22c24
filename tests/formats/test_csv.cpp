// CSV files: columns, order, and numbers that read back as they were.
#include <doctest/doctest.h>

#include <limits>
#include <sstream>

#include "formats/csv.h"

using namespace shardsim;

TEST_CASE("a number in a CSV file reads back as the same double") {
  for (double value : {0.1, 1e-300, 123456789.123, 5.0, -0.25}) CHECK(std::stod(formats::number_text(value)) == value);
  CHECK(formats::number_text(5.0) == "5");
  CHECK(formats::number_text(-std::numeric_limits<double>::quiet_NaN()) == "nan");
  CHECK(formats::number_text(std::numeric_limits<double>::infinity()) == "inf");
}

TEST_CASE("steps.csv has a row per step, and an empty loss without numerics") {
  std::ostringstream out;
  formats::write_steps_header(out);
  formats::write_steps(out, "dp", {0.5, 0.25}, {0, 1}, {1, 2});
  formats::write_steps(out, "a,b", {}, {0}, {1.5});
  CHECK(out.str() ==
        "scheme,step,loss,begin_seconds,end_seconds,loss_scale,skipped\n"
        "dp,0,0.5,0,1,,\n"
        "dp,1,0.25,1,2,,\n"
        "\"a,b\",0,,0,1.5,,\n");
  out.str("");
  formats::write_steps(out, "dp", {0.5, 0.25, 0.1}, {0, 1, 2}, {1, 2, 3}, {8, 4, 4}, {1, 1, 2});
  CHECK(out.str() == "dp,0,0.5,0,1,8,0\ndp,1,0.25,1,2,4,1\ndp,2,0.1,2,3,4,0\n");
}

TEST_CASE("memory.csv is in time order and sums what is held") {
  std::ostringstream out;
  formats::write_memory(
      out, 3,
      {{2, -40, Band::grad, Verb::backward, 0}, {0, 100, Band::param, Verb::bind, -1}, {1, 40, Band::grad, Verb::backward, 0}});
  CHECK(out.str() ==
        "3,0,param,-1,bind,100,100,100\n"
        "3,1,grad,0,backward,40,40,140\n"
        "3,2,grad,0,backward,-40,0,100\n");
}

TEST_CASE("collectives.csv holds collectives only, and tells control from data") {
  const Span op{0, 1, 0, 0, 0, Lane::compute, Verb::forward, 0, false};
  const Span reduce{2, 3, 70, 80, 1, Lane::reduce, Verb::reduce_scatter, Span::collective, false};
  const Span norm{1, 2, 7, 8, -1, Lane::compute, Verb::clip, Span::collective, true};
  std::ostringstream out;
  formats::write_collectives(out, 0, {op, reduce, norm});
  CHECK(out.str() ==
        "0,compute,clip,-1,1,2,8,7,control\n"
        "0,reduce,reduce_scatter,1,2,3,80,70,data\n");
}

TEST_CASE("links.csv names each link and its bytes") {
  std::ostringstream out;
  formats::write_links_header(out);
  formats::write_link(out, "gpu0-switch", 4096);
  CHECK(out.str() == "link,bytes\ngpu0-switch,4096\n");
}
