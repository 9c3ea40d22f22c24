// Quantity: the number is read by std::from_chars, the unit looked up in the measure's own short list.
#include "core/quantity.h"

#include <charconv>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

namespace shardsim {
namespace {

using Units = std::vector<std::pair<std::string, double>>;

Units scaled(const std::string& suffix, double scale, bool binary) {
  Units units{{suffix, scale}};
  double decimal = 1e3, power = 1024;
  for (const char* prefix : {"k", "M", "G", "T", "P"}) {
    units.push_back({prefix + suffix, decimal * scale});
    if (binary) units.push_back({(prefix[0] == 'k' ? "K" : prefix) + ("i" + suffix), power * scale});
    decimal *= 1e3, power *= 1024;
  }
  if (binary) units.push_back({"K" + suffix, 1e3 * scale});
  return units;
}

Units units_of(Measure measure) {
  switch (measure) {
    case Measure::bytes:
      return scaled("B", 1, true);
    case Measure::bytes_per_second: {
      Units units = scaled("Bps", 1, true);
      for (auto& more : {scaled("B/s", 1, true), scaled("bps", 0.125, false)}) units.insert(units.end(), more.begin(), more.end());
      return units;
    }
    case Measure::seconds:
      return {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"min", 60}, {"h", 3600}};
    case Measure::flops_per_second: {
      Units units = scaled("f", 1, false);
      const Units more = scaled("flops", 1, false);
      units.insert(units.end(), more.begin(), more.end());
      return units;
    }
    case Measure::number:
      return {};
  }
  return {};
}

std::string known(Measure measure) {
  switch (measure) {
    case Measure::bytes:
      return "25MB, 1.2GiB";
    case Measure::bytes_per_second:
      return "50GBps, 400Gbps";
    case Measure::seconds:
      return "5us, 1.5ms";
    case Measure::flops_per_second:
      return "989Tf";
    case Measure::number:
      return "3, 1e-3";
  }
  return {};
}

}  // namespace

double parse_quantity(std::string_view text, Measure measure) {
  const std::string quoted = "'" + std::string(text) + "'";
  const auto refusal = [&](const std::string& what) { return std::invalid_argument(quoted + " " + what); };
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const char* beyond = "is beyond the numbers of 64 bits; write another";
  if (error == std::errc::result_out_of_range) throw refusal(beyond);
  // from_chars would also take "inf" and "nan".
  if (error != std::errc() || !std::isfinite(value)) throw refusal("is not a number; write for example " + known(measure));
  std::string_view unit(rest, std::size_t(text.data() + text.size() - rest));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (unit.empty()) return value;
  for (const auto& [name, scale] : units_of(measure))
    if (unit == name) {
      if (!std::isfinite(value * scale)) throw refusal(beyond);
      return value * scale;
    }
  throw refusal("has the unknown unit '" + std::string(unit) + "'; write for example " + known(measure));
}

}  // namespace shardsim
