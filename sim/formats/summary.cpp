// summary.json, through nlohmann's ordered JSON.
#include "formats/summary.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

namespace shardsim::formats {
namespace {

using Json = nlohmann::ordered_json;

/// A whole number without ".0"; null for what JSON cannot say.
Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == std::floor(value) && std::abs(value) < 9e15) return std::int64_t(value);
  return value;
}

template <class T>
void put(Json& json, const std::string& name, const OverRanks<T>& figure) {
  json[name] = figure.empty() ? Json(nullptr) : number(double(figure.max));
  if (figure.empty() || figure.max == figure.min) return;
  json[name + "_min"] = number(double(figure.min));
  json[name + "_rank"] = figure.rank;
}

Json by_band(const Composition& parts) {
  std::int64_t sums[band_count] = {};
  for (const Part& part : parts) sums[unsigned(part.band)] += part.bytes;
  Json json = Json::object();
  for (int band = 0; band < band_count; ++band)
    if (sums[band] != 0) json[name_of(Band(band))] = sums[band];
  return json;
}

/// `unit` is null for what belongs to no unit.
Json part_list(const Composition& parts) {
  Json list = Json::array();
  for (const Part& part : parts)
    list.push_back({{"band", name_of(part.band)},
                    {"unit", part.unit < 0 ? Json(nullptr) : Json(part.unit)},
                    {"cause", name_of(part.cause)},
                    {"bytes", part.bytes}});
  return list;
}

/// What a rank had reserved at most: blocks handed out, by band; freed ones that another stream may still use; cached ones.
Json reserved_composition(const AllocatorBooks& books) {
  Json json = Json::object();
  for (int band = 0; band < band_count; ++band)
    if (books.bands[band] != 0) json[name_of(Band(band))] = books.bands[band];
  json["awaiting_events"] = books.awaiting;
  json["cached"] = books.cached;
  return json;
}

Json result(const Figures& f) {
  Json json;
  json["scheme"] = f.scheme;
  json["backend"] = f.backend;
  json["world"] = f.world;
  for (const auto& [rank, ranks, stands_for] : f.rank_classes)
    json["rank_classes"].push_back({{"rank", rank}, {"ranks", ranks}, {"stands_for", stands_for}});
  json["steps"] = f.steps;
  json["first_steady_step"] = f.first_steady;
  json["interrupted"] = f.interrupted;
  json["parameters"] = f.parameters;
  json["padding"] = f.padding;
  json["units"] = f.units;
  json["loss_first"] = f.losses.empty() ? Json(nullptr) : number(f.losses.front());
  json["loss_last"] = f.losses.empty() ? Json(nullptr) : number(f.losses.back());
  json["loss_last_tenth"] = number(f.loss_last_tenth());
  json["entropy_nats_per_token"] = f.entropy ? number(*f.entropy) : Json(nullptr);
  json["theta_hash"] = f.theta_hash ? Json(hash_text(*f.theta_hash)) : Json(nullptr);
  json["diverged"] = f.diverged_step.has_value();
  json["diverged_step"] = f.diverged_step ? Json(*f.diverged_step) : Json(nullptr);
  put(json, "step_seconds", f.step_seconds);
  json["first_step_seconds"] = number(f.first_step_seconds);
  json["last_step_seconds"] = number(f.last_step_seconds);
  put(json, "compute_seconds", f.compute_seconds);
  put(json, "exposed_comm_seconds", f.exposed_comm_seconds);
  put(json, "hidden_comm_seconds", f.hidden_comm_seconds);
  json["over_single_gpu_seconds"] = f.over_single_gpu_seconds ? number(*f.over_single_gpu_seconds) : Json(nullptr);
  put(json, "bytes_sent_per_rank_per_step", f.bytes_sent);
  put(json, "control_bytes_per_rank_per_step", f.control_bytes);
  json["traffic_units"] = number(f.traffic_units);
  json["formula_traffic_units"] = number(f.formula_traffic_units);
  put(json, "resident_bytes", f.resident_bytes);
  json["resident_bytes_per_param"] = number(f.per_parameter(double(f.resident_bytes.max)));
  json["formula_resident_bytes_per_param"] = number(f.formula_resident);
  json["resident_composition"] = by_band(f.resident);
  put(json, "model_state_peak_bytes", f.model_state_peak_bytes);
  json["model_state_peak_bytes_per_param"] = number(f.per_parameter(double(f.model_state_peak_bytes.max)));
  json["formula_model_state_peak_bytes_per_param"] = number(f.formula_model_state_peak);
  json["model_state_peak_seconds"] = number(f.model_state_peak.seconds);
  json["model_state_peak_composition"] = by_band(f.model_state_peak.parts);
  json["model_state_peak_parts"] = part_list(f.model_state_peak.parts);
  put(json, "peak_bytes", f.peak_bytes);
  json["peak_seconds"] = number(f.peak.seconds);
  json["peak_composition"] = by_band(f.peak.parts);
  json["peak_parts"] = part_list(f.peak.parts);
  put(json, "host_resident_bytes", f.host_resident_bytes);
  put(json, "host_peak_bytes", f.host_peak_bytes);
  json["host_peak_composition"] = by_band(f.host_peak.parts);
  put(json, "host_link_bytes_per_rank_per_step", f.host_link_bytes);
  put(json, "host_to_device_bytes_per_rank_per_step", f.host_to_device_bytes);
  put(json, "requested_peak_bytes", f.requested_peak_bytes);
  put(json, "allocated_resident_bytes", f.allocated_resident_bytes);
  put(json, "allocated_peak_bytes", f.allocated_peak_bytes);
  put(json, "reserved_bytes", f.allocator.emulated ? f.reserved_bytes : f.peak_bytes);
  json["reserved_composition"] = f.allocator.emulated ? reserved_composition(f.allocator) : Json(nullptr);
  json["allocator_retries"] = f.allocator.emulated ? Json(f.allocator.retries) : Json(nullptr);
  put(json, "outside_bytes", f.outside_bytes);
  const bool has_flops = f.model_flops > 0 && f.step_seconds.max > 0;
  json["model_flops_per_rank_per_step"] = f.model_flops > 0 ? number(f.model_flops) : Json(nullptr);
  json["model_flops_utilisation"] =
      has_flops && f.peak_flops > 0 ? number(f.model_flops / f.step_seconds.max / f.peak_flops) : Json(nullptr);
  json["gpu"] = f.gpu;
  json["gpu_memory_bytes"] = f.gpu_memory > 0 ? Json(f.gpu_memory) : Json(nullptr);
  json["host_memory_bytes"] = f.host_memory > 0 ? Json(f.host_memory) : Json(nullptr);
  json["fits"] = f.gpu_memory > 0 || !f.fits() ? Json(f.fits()) : Json(nullptr);
  // A row of an MLP's batch is both a sample and a token.
  const bool has_rate = f.rows_per_second > 0;
  json["samples_per_second"] = has_rate ? number(f.rows_per_second) : Json(nullptr);
  json["tokens_per_second"] = has_rate ? number(f.rows_per_second * double(f.tokens_per_row)) : Json(nullptr);
  if (!f.measured.empty()) json["measured"] = Json::array();
  for (const Figures::Measured& each : f.measured)
    json["measured"].push_back({{"figure", each.figure}, {"here", number(each.here)}, {"measured", number(each.measured)}});
  return json;
}

}  // namespace

double Figures::loss_last_tenth() const {
  const std::size_t count = std::max<std::size_t>(1, losses.size() / 10);
  double sum = 0;
  for (std::size_t i = losses.size() - std::min(count, losses.size()); i < losses.size(); ++i) sum += losses[i];
  return losses.empty() ? NAN : sum / double(count);
}

void write_summary(std::ostream& stream, const RunFacts& facts, const std::vector<Figures>& all) {
  Json json;
  json["schema_version"] = summary_version;
  json["program"] = "shardsim";
  json["scenario"] = facts.scenario;
  json["scenario_file"] = facts.file;
  json["numerics"] = facts.numerics;
  json["fabric"] = facts.fabric;
  json["latency"] = facts.latency;
  json["defaults_used"] = facts.defaults_used;
  json["notes"] = facts.notes;
  if (!facts.measured_source.empty()) json["measured_source"] = facts.measured_source;
  for (const auto& [key, content] : facts.files) json["files"][key] = hash_text(content);
  json["results"] = Json::array();
  for (const Figures& figures : all) json["results"].push_back(result(figures));
  stream << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

std::string fault_of_summary(const std::string& text) {
  if (text.empty()) return "is damaged: it is empty";
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    const std::size_t at = std::min(error.byte, text.size());
    const std::string line = "line " + std::to_string(1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(at), '\n'));
    return "is damaged: it " + (error.byte > text.size() ? "ends early, in " + line : "is no JSON from " + line + " on");
  }
  for (const char* key : {"schema_version", "program"})
    if (!json.is_object() || !json.contains(key)) return std::string("is damaged: the key '") + key + "' is missing";
  return json["program"] == "shardsim" ? "" : "was written by another program";
}

std::string hash_text(std::uint64_t hash) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace shardsim::formats
