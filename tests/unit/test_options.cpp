// Options of schemes: what is read, what is refused and in which words, and the label that they make.
#include <doctest/doctest.h>

#include <stdexcept>

#include "core/options.h"

using namespace shardsim;
using Kind = Option::Kind;

namespace {

Options options() {
  return Options({{"stage", Kind::integer, "0", "which states are sharded", {}, 0, 3},
                  {"overlap", Kind::boolean, "None", "beside backward", {"None"}},
                  {"bucket", Kind::integer, "5e8", "elements", {"auto"}, 1},
                  {"ratio", Kind::number, "0.5", "share", {}, -1},
                  {"policy", Kind::text, "mixed", "which", {"mixed", "full"}},
                  {"note", Kind::text, "none", "any text"}});
}

/// The words with which `value` is refused; "taken" if it is not.
std::string refusal(const std::string& name, const std::string& value) {
  Options all = options();
  try {
    all.set(name, value);
    return "taken";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

std::string suffix(std::initializer_list<std::pair<const char*, const char*>> values) {
  Options all = options();
  for (const auto& [name, value] : values) all.set(name, value);
  return all.suffix();
}

}  // namespace

TEST_CASE("options have their defaults until they are set") {
  Options all = options();
  CHECK(all.integer("stage") == 0);
  CHECK(all.text("overlap") == "None");
  CHECK(all.integer("bucket") == 500'000'000);
  CHECK(all.number("ratio") == 0.5);
  CHECK_FALSE(all.given("bucket"));
  all.set("bucket", "5e7");
  all.set("overlap", "on");
  all.set("ratio", "-.25");
  all.set("policy", "full");
  CHECK(all.integer("bucket") == 50'000'000);
  CHECK(all.boolean("overlap"));
  CHECK(all.text("overlap") == "true");
  CHECK(all.number("ratio") == -0.25);
  CHECK(all.text("policy") == "full");
  CHECK(all.given("bucket"));
}

TEST_CASE("an option that is unknown, of another kind, out of range or set twice is refused in words that say what is known") {
  CHECK(refusal("stge", "3") == "unknown option; known options: stage, overlap, bucket, ratio, policy, note");
  CHECK_THROWS_WITH(Options().set("stage", "3"), "unknown option; this scheme has none");
  for (const char* bad : {"4", "-1", "1.5", "three", "", "3x", "nan", "1e400"})
    CHECK_MESSAGE(refusal("stage", bad) == "has to be a whole number from 0 to 3", bad);
  for (const char* bad : {"0", "1e17", "Auto", "inf"})
    CHECK_MESSAGE(refusal("bucket", bad) == "has to be a whole number of at least 1, or auto", bad);
  for (const char* good : {"1", "500000000", "+5e8", "auto"}) CHECK_MESSAGE(refusal("bucket", good) == "taken", good);
  CHECK(refusal("ratio", "-1.5") == "has to be a number of at least -1");
  CHECK(refusal("overlap", "1") == "has to be true or false, or None");
  for (const char* good : {"true", "false", "on", "off", "True", "False", "None"}) CHECK(refusal("overlap", good) == "taken");
  CHECK(refusal("policy", "half") == "has to be one of mixed, full");
  CHECK(refusal("note", "") == "has to be a text");
  Options all = options();
  all.set("stage", "0");
  CHECK_THROWS_WITH(all.set("stage", "1"), "is given twice; remove one");
}

TEST_CASE("a scheme that asks for what it did not declare, or for another kind, is told so") {
  Options all = options();
  CHECK_THROWS_AS(all.text("stge"), std::logic_error);
  CHECK_THROWS_AS(all.given("stge"), std::logic_error);
  CHECK_THROWS_AS(all.boolean("stage"), std::logic_error);
  CHECK_THROWS_AS(all.boolean("overlap"), std::logic_error);  // it is None
  CHECK_THROWS_AS(Options({{"stage", Kind::integer, "4", "its default is out of range", {}, 0, 3}}), std::invalid_argument);
}

TEST_CASE("a label has what was set, in that order, if anything differs from its default") {
  CHECK(suffix({}) == "");
  CHECK(suffix({{"stage", "0"}, {"bucket", "500000000"}}) == "");
  CHECK(suffix({{"stage", "3"}}) == "-stage3");
  CHECK(suffix({{"bucket", "5e7"}, {"overlap", "on"}, {"stage", "0"}}) == "-bucket-5e7-overlap-true-stage0");
  CHECK(suffix({{"note", "../a b/\n"}}) == "-note-.._a_b__");
  CHECK(suffix({{"note", std::string(90, 'x').c_str()}, {"stage", "1"}}) == "-stage1-and-1-more");
}

TEST_CASE("options are equal by their values, not by how they are written") {
  Options a = options(), b = options();
  a.set("bucket", "5e8");
  b.set("bucket", "500000000");
  CHECK(a == b);
  CHECK(a == options());
  b.set("policy", "full");
  CHECK_FALSE(a == b);
}
