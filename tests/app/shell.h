// Shell: the program, run in a folder of its own with a small platform and a scenario for it.
#pragma once
#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "scratch.h"

namespace shardsim::test {

inline constexpr const char* two_gpus = R"(<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<!-- Two GPUs and a wire. -->
<platform version="4.1"><zone id="box" routing="Full">
  <host id="gpu0" speed="1Gf"><prop id="gpu" value="tiny"/><prop id="memory" value="1GiB"/>
    <prop id="memory_bandwidth" value="100GBps"/><prop id="fp32_flops" value="1Tf"/><prop id="bf16_flops" value="2Tf"/></host>
  <host id="gpu1" speed="1Gf"><prop id="gpu" value="tiny"/><prop id="memory" value="1GiB"/>
    <prop id="memory_bandwidth" value="100GBps"/><prop id="fp32_flops" value="1Tf"/><prop id="bf16_flops" value="2Tf"/></host>
  <link id="wire" bandwidth="1GBps" latency="1us" sharing_policy="SPLITDUPLEX"/>
  <route src="gpu0" dst="gpu1"><link_ctn id="wire" direction="UP"/></route>
</zone></platform>
)";

inline constexpr const char* small_scenario =
    "schemes: [dp, zero3]\nplatform: box.xml\nworld: 2\nmodel: {kind: mlp, widths: [3, 5, 2]}\nbatch: {micro: 4}\nsteps: 3\n";

/// Runs the program in a folder of its own.
class Shell {
 public:
  explicit Shell(std::string before = "") : before_(std::move(before)) {
    folder_.write("box.xml", two_gpus);
    folder_.write("s.yaml", small_scenario);
  }
  int operator()(const std::string& arguments) {
    const std::string command =
        "cd '" + folder_.path().string() + "' && " + before_ + SHARDSIM_PROGRAM " " + arguments + " >out 2>err </dev/null";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string out() const { return folder_.read("out"); }
  std::string err() const { return folder_.read("err"); }
  const Scratch& folder() const { return folder_; }

 private:
  std::string before_;
  Scratch folder_;
};

inline bool is_one_line(const std::string& text) { return !text.empty() && text.find('\n') == text.size() - 1; }

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace shardsim::test
