// Platforms for tests: ideal GPUs of round numbers around a switch, as many as asked for.
#pragma once
#include <filesystem>
#include <string>

#include "scratch.h"

namespace shardsim::test {

struct IdealGpus {
  int gpus = 8;
  double bandwidth = 50e9;  ///< of each port and direction, bytes per second
  double latency = 1e-6;    ///< of an edge: two ports
  double launch_seconds = 0;
  double kernel_seconds = 0;
  double flops = 100e12, memory_bandwidth = 2e12;
};

inline std::string platform_xml(const IdealGpus& p) {
  auto prop = [](const std::string& id, const std::string& value) { return "<prop id=\"" + id + "\" value=\"" + value + "\"/>"; };
  auto number = [](double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", x);
    return std::string(text);
  };
  return "<?xml version=\"1.0\"?><!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\"><platform version=\"4.1\">"
         "<cluster id=\"ideal\" prefix=\"gpu\" suffix=\"\" radical=\"0-" +
         std::to_string(p.gpus - 1) + "\" speed=\"1Gf\" bw=\"" + number(p.bandwidth) + "Bps\" lat=\"" + number(p.latency / 2) +
         "s\" sharing_policy=\"SPLITDUPLEX\">" + prop("gpu", "ideal") + prop("memory", "80GiB") +
         prop("memory_bandwidth", number(p.memory_bandwidth) + "Bps") + prop("fp32_flops", number(p.flops) + "f") +
         prop("bf16_flops", number(p.flops) + "f") + prop("launch_seconds", number(p.launch_seconds) + "s") +
         prop("kernel_seconds", number(p.kernel_seconds) + "s") + prop("node", "0") + prop("interconnect", "nvlink") +
         "</cluster></platform>\n";
}

/// A platform file that lives as long as the object.
class PlatformFile {
 public:
  explicit PlatformFile(const IdealGpus& gpus) : PlatformFile(platform_xml(gpus)) {}
  explicit PlatformFile(const std::string& xml) { scratch_.write("platform.xml", xml); }
  std::filesystem::path path() const { return scratch_ / "platform.xml"; }

 private:
  Scratch scratch_;
};

}  // namespace shardsim::test
