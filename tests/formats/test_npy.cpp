// .npy files: what is read is what numpy wrote, and everything else is refused by name.
#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "core/error.h"
#include "formats/npy.h"
#include "scratch.h"

using namespace shardsim;
using shardsim::test::Scratch;

namespace {

std::string header(const std::string& dict, int version = 1) {
  std::string text = "\x93NUMPY";
  text += {char(version), 0, char(dict.size() & 0xff), char(dict.size() >> 8)};
  if (version > 1) text += std::string(2, '\0');
  return text + dict;
}

std::string floats(const std::vector<float>& values) {
  std::string bytes(values.size() * 4, ' ');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string refusal(const std::filesystem::path& file, std::size_t dimensions) {
  try {
    formats::read_npy(file, dimensions);
  } catch (const ScenarioError& error) {
    return error.what();
  }
  return "nothing was refused";
}

}  // namespace

TEST_CASE("an array that was written is read back with the same shape and bits") {
  const Scratch scratch;
  const std::vector<float> values = {1.f, -2.5f, 0.f, 1e-40f, 3e38f, 7.f};
  formats::write_npy(scratch / "a.npy", {2, 3}, values);
  const formats::Array array = formats::read_npy(scratch / "a.npy", 2);
  CHECK(array.shape == std::vector<std::int64_t>{2, 3});
  CHECK(array.values == values);
}

TEST_CASE("a written array has numpy's own bytes") {
  const Scratch scratch;
  formats::write_npy(scratch / "a.npy", {2}, {1.f, 2.f});
  // numpy pads the header with spaces to a multiple of 64 and ends it with a line break: 10 + 118 = 128.
  std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  dict += std::string(117 - dict.size(), ' ') + "\n";
  CHECK(scratch.read("a.npy") == header(dict) + floats({1.f, 2.f}));
}

TEST_CASE("an array without elements is read") {
  const Scratch scratch;
  formats::write_npy(scratch / "a.npy", {0, 3}, {});
  CHECK(formats::read_npy(scratch / "a.npy", 2).values.empty());
}

TEST_CASE("a header of version 2 is read") {
  const Scratch scratch;
  scratch.write("a.npy", header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n", 2) + floats({5.f}));
  CHECK(formats::read_npy(scratch / "a.npy", 1).values == std::vector<float>{5.f});
}

TEST_CASE("every .npy file that breaks the contract is refused, saying what was found") {
  const Scratch scratch;
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const auto dict = [](const std::string& type, const std::string& fortran, const std::string& shape) {
    return header("{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n");
  };
  struct Case {
    const char* what;
    std::string bytes, message;
  };
  const Case cases[] = {
      {"float64", dict("<f8", "False", "(2, 2)") + std::string(32, '\0'), "holds float64; float32 is expected"},
      {"integers", dict("<i8", "False", "(2, 2)") + std::string(32, '\0'), "holds int64; float32 is expected"},
      {"big-endian", dict(">f4", "False", "(2, 2)") + std::string(16, '\0'), "holds big-endian float32"},
      {"Fortran order", dict("<f4", "True", "(2, 2)") + std::string(16, '\0'), "is in Fortran order; C order is expected"},
      {"one dimension", dict("<f4", "False", "(4,)") + std::string(16, '\0'), "has shape (4,); 2 dimensions are expected"},
      {"no dimension", dict("<f4", "False", "()") + std::string(4, '\0'), "has shape (); 2 dimensions are expected"},
      {"truncated", dict("<f4", "False", "(2, 2)") + std::string(12, '\0'),
       "is truncated: (2, 2) float32 take 16 bytes, it holds 12"},
      {"too long", dict("<f4", "False", "(2, 2)") + std::string(20, '\0'),
       "is too long: (2, 2) float32 take 16 bytes, it holds 20"},
      {"promises petabytes", dict("<f4", "False", "(1000000000, 1000000)"), "is truncated"},
      {"impossible shape", dict("<f4", "False", "(99999999999999999999, 1)"), "impossible shape"},
      {"negative shape", dict("<f4", "False", "(-1, 2)"), "shape is not made of numbers"},
      {"NaN", dict("<f4", "False", "(2, 2)") + floats({0, 0, 0, nan}), "holds NaN at [1, 1]"},
      {"Inf", dict("<f4", "False", "(2, 2)") + floats({0, -infinity, 0, 0}), "holds Inf at [0, 1]"},
      {"no shape", header("{'descr': '<f4', 'fortran_order': False}\n"), "descr, fortran_order or shape is missing"},
      {"ends in its header", header("{'descr': '<f4'").substr(0, 15), "ends inside its header"},
      {"records", header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }\n"), "holds type of records"},
      {"not numpy", "1.0, 2.0\n3.0, 4.0\n", "is not a .npy file"},
      {"empty", "", "is not a .npy file"},
      {"version 9", header("", 9), "has .npy version 9"},
  };
  for (const Case& each : cases) {
    INFO(each.what);
    scratch.write("a.npy", each.bytes);
    const std::string message = refusal(scratch / "a.npy", 2);
    CHECK_MESSAGE(message.find((scratch / "a.npy").string() + ": ") == 0, message);
    CHECK_MESSAGE(message.find(each.message) != std::string::npos, message);
    CHECK(message.find('\n') == std::string::npos);
  }
  CHECK(refusal(scratch / "none.npy", 1).find("there is no such file") != std::string::npos);
  CHECK(refusal(scratch.path(), 1).find("is not a file") != std::string::npos);
}
