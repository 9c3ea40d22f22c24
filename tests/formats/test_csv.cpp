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
  const Span reduce{
      2,           3,     70,          80, 1, Lane::reduce, Verb::reduce_scatter, Span::collective, false, Verb::reduce_scatter,
      Dtype::bf16, false, {0, 1, 8, 3}};
  const Span norm{1,           2,     7,           8, -1, Lane::compute, Verb::clip, Span::collective, true, Verb::all_gather,
                  Dtype::fp32, false, {1, 4, 2, 0}};
  std::ostringstream out;
  formats::write_collectives(out, 0, {op, reduce, norm}, {0, 1.5});
  CHECK(out.str() ==
        "0,compute,clip,-1,1,2,8,7,control,0,all_gather,fp32,1-5 by 4,2\n"
        "0,reduce,reduce_scatter,1,2,3,80,70,data,1,reduce_scatter,bf16,0-7,8\n");
}

TEST_CASE("spans.csv holds operations and collectives, with their step") {
  const Span op{0, 1, 0, 0, 2, Lane::compute, Verb::forward, 0, false};
  const Span reduce{2, 3, 70, 80, 1, Lane::reduce, Verb::reduce_scatter, Span::collective, false, Verb::reduce_scatter};
  const Span before{-1, -0.5, 0, 0, -1, Lane::compute, Verb::bind, 0, false};
  std::ostringstream out;
  formats::write_spans(out, 3, {reduce, op, before}, {0, 1.5});
  CHECK(out.str() ==
        "3,-1,compute,bind,-1,matmul,-1,-0.5\n"
        "3,0,compute,forward,2,matmul,0,1\n"
        "3,1,reduce,reduce_scatter,1,reduce_scatter,2,3\n");
}

TEST_CASE("memory_by_band.csv has a row whenever something changes, and shows the most that is held") {
  std::ostringstream out;
  formats::write_memory_by_band_header(out);
  formats::write_memory_by_band(out, 3,
                                {{1, 40, Band::workspace, Verb::backward, 0},
                                 {1, -40, Band::workspace, Verb::backward, 0},
                                 {0, 100, Band::param, Verb::bind, -1},
                                 {2, 7, Band::grad, Verb::backward, 0}});
  CHECK(out.str() ==
        "rank,seconds,param_bytes,grad_bytes,opt_bytes,gathered_bytes,activation_bytes,bucket_bytes,workspace_bytes,total_bytes\n"
        "3,0,100,0,0,0,0,0,0,100\n"
        "3,1,100,0,0,0,0,0,40,140\n"
        "3,1,100,0,0,0,0,0,0,100\n"
        "3,2,100,7,0,0,0,0,0,107\n");
}

TEST_CASE("links.csv names each link and its bytes") {
  std::ostringstream out;
  formats::write_links_header(out);
  formats::write_link(out, "gpu0-switch", 4096);
  CHECK(out.str() == "link,bytes\ngpu0-switch,4096\n");
}
