// Fact: the list, and the order in which values are laid over each other.
#include "cost/facts.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "cost/gpus.h"
#include "cost/stack.h"

namespace shardsim::cost {
namespace {

/// The member of a Gpu, or the member of a member.
template <auto member, auto... inner>
auto& at(auto& gpu) {
  return ((gpu.*member).*....*inner);
}

template <auto... member>
constexpr Fact fact(const char* name, Measure measure, double low, double high, bool is_needed = false) {
  return {name,
          measure,
          low,
          high,
          is_needed,
          [](const Gpu& gpu) { return double(at<member...>(gpu)); },
          [](Gpu& gpu, double value) {
            auto& fact = at<member...>(gpu);
            fact = std::remove_reference_t<decltype(fact)>(value);
          }};
}

constexpr double least = 1e-30, most = 0x1p62;  // at least: greater than 0
constexpr Fact list[] = {
    fact<&Gpu::memory_bytes>("memory", Measure::bytes, 1, most, true),
    fact<&Gpu::memory_bandwidth>("memory_bandwidth", Measure::bytes_per_second, least, most, true),
    fact<&Gpu::fp32_flops>("fp32_flops", Measure::flops_per_second, least, most, true),
    fact<&Gpu::bf16_flops>("bf16_flops", Measure::flops_per_second, least, most, true),
    fact<&Gpu::gemm_efficiency>("gemm_efficiency", Measure::number, least, 2),  // a GeForce beats its specification
    fact<&Gpu::memory_efficiency>("memory_efficiency", Measure::number, least, 1),
    fact<&Gpu::kernel_seconds>("kernel_seconds", Measure::seconds, 0, most),
    fact<&Gpu::launch_seconds>("launch_seconds", Measure::seconds, 0, most),
    fact<&Gpu::multiprocessors>("multiprocessors", Measure::number, 0, 65536),
    fact<&Gpu::output_write>("output_write", Measure::number, 0, 100),
    fact<&Gpu::attention_64, &AttentionSpeed::flops>("attention_64_flops", Measure::flops_per_second, least, most),
    fact<&Gpu::attention_64, &AttentionSpeed::half_sequence>("attention_64_half_sequence", Measure::number, 0, 1e9),
    fact<&Gpu::attention_64, &AttentionSpeed::forward_share>("attention_64_forward_share", Measure::number, least, 1),
    fact<&Gpu::attention_128, &AttentionSpeed::flops>("attention_128_flops", Measure::flops_per_second, least, most),
    fact<&Gpu::attention_128, &AttentionSpeed::half_sequence>("attention_128_half_sequence", Measure::number, 0, 1e9),
    fact<&Gpu::attention_128, &AttentionSpeed::forward_share>("attention_128_forward_share", Measure::number, least, 1),
    fact<&Gpu::norm_bytes>("norm_bytes", Measure::number, 0, 1e4),
    fact<&Gpu::residual_bytes>("residual_bytes", Measure::number, 0, 1e4),
    fact<&Gpu::rotate_bytes>("rotate_bytes", Measure::number, 0, 1e4),
    fact<&Gpu::activation_bytes>("activation_bytes", Measure::number, 0, 1e4),
    fact<&Gpu::contention>("contention", Measure::number, 0, 1e3),
    fact<&Gpu::jitter>("jitter", Measure::number, 0, 1),
    fact<&Gpu::step_host_seconds>("step_host_seconds", Measure::seconds, 0, most),
    fact<&Gpu::host_memory>("host_memory", Measure::bytes, 1, most),
    fact<&Gpu::host_memory_bandwidth>("host_memory_bandwidth", Measure::bytes_per_second, least, most),
    fact<&Gpu::host_link_bandwidth>("host_link_bandwidth", Measure::bytes_per_second, least, most),
};
static_assert(std::size(list) <= std::tuple_size_v<decltype(Gpu::origins)>);

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

/// Marks every fact that differs from what it was.
void mark(const Gpu& before, Gpu& gpu, Origin origin) {
  for (std::size_t i = 0; i < std::size(list); ++i)
    if (list[i].get(gpu) != list[i].get(before)) gpu.origins[i] = origin;
}

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

void take_attention(const GpuRow* row, const std::string& kernel, Gpu& gpu) {
  if (row && use_attention(*row, kernel, gpu)) return;
  throw std::invalid_argument("attention: the speed of " + quoted(kernel) + " on GPU " + gpu.name + " is not known" +
                              (row ? " (known there: " + joined(attention_kernels(*row)) + ")" : "") +
                              "; say attention_flops and attention_half_sequence instead");
}

void take_platform(const std::string& name, const GpuRow* row, const std::function<const char*(const char*)>& said, Gpu& gpu) {
  for (const std::string& fact : fact_names()) {
    const std::vector<std::size_t> meant = facts_named(fact);
    const char* text = said(fact.c_str());
    if (!text && list[meant[0]].is_needed && !row)
      throw std::invalid_argument(fact + ": missing, and " + quoted(name) + " is not in the table of GPUs; add <prop id=\"" + fact +
                                  "\" value=\"...\"/> to the host, or name one of the table: " + known_gpus());
    if (!text) continue;
    try {
      for (const std::size_t each : meant) set(gpu, each, parse_fact(list[each], text), Origin::platform);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(fact + ": " + error.what());
    }
  }
}

}  // namespace

std::span<const Fact> facts() { return list; }

std::vector<std::size_t> facts_named(std::string_view name) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < std::size(list); ++i) {
    std::string each = list[i].name;
    if (each == name) return {i};
    for (const char* size : {"_64", "_128"})
      if (const std::size_t at = each.find(size); at != std::string::npos) each.erase(at, std::string_view(size).size());
    if (each == name) found.push_back(i);
  }
  return found;
}

std::vector<std::string> fact_names() {
  std::vector<std::string> names;
  for (const Fact& each : list) names.push_back(each.name);
  names.insert(names.begin() + 10, {"attention_flops", "attention_half_sequence", "attention_forward_share"});
  return names;
}

double parse_fact(const Fact& fact, std::string_view text) {
  const bool is_number = fact.measure == Measure::number;
  const bool is_percentage = fact.is_share() && text.ends_with('%');
  double value = parse_quantity(is_percentage ? text.substr(0, text.size() - 1) : text, fact.measure);
  if (is_percentage) value /= 100;
  if (!is_number && value != 0 && !std::isalpha((unsigned char)text.back()))
    throw std::invalid_argument(quoted(text) + " has no unit; platforms/ shows what to write");
  if (!(value >= fact.low && value <= fact.high))
    throw std::invalid_argument(quoted(text) + " is out of range; write a value " +
                                (fact.low == least ? "above 0" : "from " + fact_text(fact, fact.low)) + " up to " +
                                fact_text(fact, fact.high));
  if (fact.get({}) == 0 && fact.name == std::string_view("multiprocessors") && value != std::floor(value))
    throw std::invalid_argument(quoted(text) + " is not a whole number");
  return value;
}

std::string fact_text(const Fact& fact, double value) {
  struct Unit {
    double size;
    const char* text;
  };
  const auto written = [value](std::initializer_list<Unit> units) {  // the largest that the value is one of
    const Unit* unit = units.end() - 1;
    for (const Unit& each : units)
      if (value >= each.size && unit == units.end() - 1) unit = &each;
    char text[48];
    std::snprintf(text, sizeof text, "%.4g%s", value / unit->size, unit->text);
    return std::string(text);
  };
  switch (fact.measure) {
    case Measure::bytes:
      return written({{0x1p30, "GiB"}, {0x1p20, "MiB"}, {1, "B"}});
    case Measure::bytes_per_second:
      return written({{1e9, "GBps"}, {1e6, "MBps"}, {1, "Bps"}});
    case Measure::seconds:
      return value == 0 ? "0s" : written({{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}});
    case Measure::flops_per_second:
      return written({{1e12, "Tf"}, {1e9, "Gf"}, {1, "f"}});
    case Measure::number:
      break;
  }
  return written({{1, ""}});
}

const char* name_of(Origin origin) {
  constexpr const char* names[] = {"nobody", "table", "platform", "calibrated", "scenario"};
  return names[int(origin)];
}

void set(Gpu& gpu, std::size_t fact, double value, Origin origin) {
  list[fact].set(gpu, value);
  gpu.origins[fact] = origin;
}

Gpu resolved(const std::string& name, const std::function<const char*(const char*)>& said, const Prices& prices) {
  Gpu gpu;
  const GpuRow* row = find_gpu(prices.gpu.empty() ? name : prices.gpu);
  if (!prices.gpu.empty() && !row)
    throw std::invalid_argument("gpu: there is no " + quoted(prices.gpu) + " in the table; known GPUs: " + known_gpus());
  gpu.name = row && !prices.gpu.empty() ? row->name : name;
  if (row) {
    use(*row, gpu);
    mark(Gpu{}, gpu, Origin::table);
  }
  // Another GPU in the platform's place: what the platform says is about its own.
  if (prices.gpu.empty()) take_platform(name, row, said, gpu);
  if (!prices.attention.empty()) {
    const Gpu before = gpu;
    take_attention(row, prices.attention, gpu);
    mark(before, gpu, Origin::scenario);
  }
  if (!prices.stack.empty()) {
    const Gpu before = gpu;
    use(*find_stack(prices.stack), gpu);
    mark(before, gpu, Origin::scenario);
  }
  for (const auto& [fact, value, origin] : prices.values) set(gpu, fact, value, origin);
  return gpu;
}

std::string facts_beyond_platform(const Gpu& gpu) {
  std::string text;
  for (const Origin origin : {Origin::scenario, Origin::calibrated, Origin::table}) {
    std::string group;
    for (std::size_t i = 0; i < std::size(list); ++i)
      if (gpu.origins[i] == origin)
        group += (group.empty() ? "" : ", ") + std::string(list[i].name) + " " + fact_text(list[i], list[i].get(gpu));
    if (!group.empty()) text += (text.empty() ? "" : "; ") + std::string(name_of(origin)) + ": " + group;
  }
  return text;
}

}  // namespace shardsim::cost
