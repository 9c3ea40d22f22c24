// NumPy's .npy files: a magic, a version, a Python dict as text, then the raw numbers.
#include "formats/npy.h"

#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>

#include "core/error.h"

namespace shardsim::formats {
namespace {

static_assert(std::endian::native == std::endian::little, "the numbers are copied as they are");

constexpr char magic[] = "\x93NUMPY";

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw ScenarioError(file.string() + ": " + what);
}

/// The text after "'name':" in the dict, from its first character that is not a space.
std::optional<std::string> entry(const std::string& dict, const std::string& name) {
  for (char quote : {'\'', '"'}) {
    const std::size_t at = dict.find(quote + name + quote);
    if (at == std::string::npos) continue;
    const std::size_t colon = dict.find(':', at);
    const std::size_t value = colon == std::string::npos ? colon : dict.find_first_not_of(' ', colon + 1);
    if (value != std::string::npos) return dict.substr(value);
  }
  return {};
}

std::string type_in_words(const std::string& descr) {
  if (descr == "<f8" || descr == ">f8") return "float64";
  if (descr == ">f4") return "big-endian float32";
  if (descr == "<f2") return "float16";
  if (descr == "<i8") return "int64";
  if (descr == "<i4") return "int32";
  return "type " + descr;
}

std::string shape_in_words(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::vector<std::int64_t> parse_shape(const std::filesystem::path& file, const std::string& text) {
  std::vector<std::int64_t> shape;
  std::size_t at = 1;
  if (text.empty() || text[0] != '(') refuse(file, "has a broken header: its shape is not a tuple");
  while (true) {
    at = text.find_first_not_of(" ,", at);
    if (at == std::string::npos) refuse(file, "has a broken header: its shape does not end");
    if (text[at] == ')') return shape;
    std::int64_t size = 0;
    const std::size_t begin = at;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
      size = size * 10 + (text[at] - '0');
      if (size > (std::int64_t{1} << 40)) refuse(file, "has an impossible shape: one dimension is larger than 2^40");
    }
    if (at == begin) refuse(file, "has a broken header: its shape is not made of numbers");
    shape.push_back(size);
  }
}

std::vector<std::int64_t> read_header(const std::filesystem::path& file, std::ifstream& stream) {
  unsigned char head[8] = {};
  if (!stream.read(reinterpret_cast<char*>(head), 8) || std::memcmp(head, magic, 6) != 0)
    refuse(file, "is not a .npy file; save it with numpy.save(path, array.astype('float32'))");
  const int length_bytes = head[6] == 1 ? 2 : 4;
  if (head[6] < 1 || head[6] > 3) refuse(file, "has .npy version " + std::to_string(head[6]) + "; versions 1 to 3 are known");
  unsigned char length[4] = {};
  stream.read(reinterpret_cast<char*>(length), length_bytes);
  const std::uint32_t size = length[0] | length[1] << 8 | length[2] << 16 | std::uint32_t(length[3]) << 24;
  if (!stream || size > 1 << 20) refuse(file, "is truncated or broken: no header");
  std::string dict(size, ' ');
  if (!stream.read(dict.data(), size)) refuse(file, "is truncated: it ends inside its header");

  const auto descr = entry(dict, "descr"), order = entry(dict, "fortran_order"), shape = entry(dict, "shape");
  if (!descr || !order || !shape) refuse(file, "has a broken header: descr, fortran_order or shape is missing");
  const std::string type = (*descr)[0] == '[' ? "of records" : descr->substr(1, descr->find((*descr)[0], 1) - 1);
  if (type != "<f4") refuse(file, "holds " + type_in_words(type) + "; float32 is expected (numpy: array.astype('float32'))");
  if (order->compare(0, 5, "False") != 0)
    refuse(file, "is in Fortran order; C order is expected (numpy: numpy.ascontiguousarray(array))");
  return parse_shape(file, *shape);
}

}  // namespace

Array read_npy(const std::filesystem::path& file, std::size_t dimensions) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) refuse(file, "there is no such file");
  if (!std::filesystem::is_regular_file(file, error)) refuse(file, "is not a file");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) refuse(file, "cannot be opened");
  Array array;
  array.shape = read_header(file, stream);
  if (array.shape.size() != dimensions)
    refuse(file, "has shape " + shape_in_words(array.shape) + "; " + std::to_string(dimensions) +
                     (dimensions == 1 ? " dimension is" : " dimensions are") + " expected");
  double elements = 1;
  for (std::int64_t size : array.shape) elements *= double(size);
  // Compared before anything is allocated: a broken header may promise petabytes.
  const auto begin = stream.tellg();
  stream.seekg(0, std::ios::end);
  const double there = double(stream.tellg() - begin);
  stream.seekg(begin);
  if (there != elements * 4)
    refuse(file, (there < elements * 4 ? "is truncated: " : "is too long: ") + shape_in_words(array.shape) + " float32 take " +
                     std::to_string(std::int64_t(elements * 4)) + " bytes, it holds " + std::to_string(std::int64_t(there)));
  array.values.resize(std::size_t(elements));
  if (!stream.read(reinterpret_cast<char*>(array.values.data()), std::streamsize(array.values.size() * 4)))
    refuse(file, "cannot be read");
  for (std::size_t i = 0; i < array.values.size(); ++i) {
    if (std::isfinite(array.values[i])) continue;
    std::string place;
    std::int64_t rest = std::int64_t(i);
    for (std::size_t d = array.shape.size(); d-- > 0; rest /= array.shape[d])
      place = std::to_string(rest % array.shape[d]) + (place.empty() ? "" : ", ") + place;
    refuse(file, std::string("holds ") + (std::isnan(array.values[i]) ? "NaN" : "Inf") + " at [" + place +
                     "]; all numbers have to be finite");
  }
  return array;
}

void write_npy(const std::filesystem::path& file, const std::vector<std::int64_t>& shape, const std::vector<float>& values) {
  std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape_in_words(shape) + ", }";
  // Magic, version and length are 10 bytes; the numbers begin at a multiple of 64, after a line break.
  dict.append((64 - (10 + dict.size() + 1) % 64) % 64, ' ');
  dict += '\n';
  errno = 0;
  std::ofstream stream(file, std::ios::binary);
  const char head[4] = {1, 0, char(dict.size() & 0xff), char(dict.size() >> 8)};
  stream.write(magic, 6).write(head, 4).write(dict.data(), std::streamsize(dict.size()));
  stream.write(reinterpret_cast<const char*>(values.data()), std::streamsize(values.size() * 4));
  stream.close();
  if (!stream) refuse(file, std::string("cannot be written: ") + (errno ? std::strerror(errno) : "the disk may be full"));
}

}  // namespace shardsim::formats
