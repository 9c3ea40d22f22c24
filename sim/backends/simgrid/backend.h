// SimgridBackend: N simulated ranks on a platform. One per process, since SimGrid has one engine per process.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/simgrid/fidelity.h"
#include "core/backend.h"
#include "core/mesh.h"
#include "cost/collective.h"
#include "cost/facts.h"
#include "cost/notes.h"
#include "memory/settings.h"

namespace shardsim {

/// What the ranks will do, as far as folding them asks (folding.h).
struct Programs {
  struct Use {
    Group group;
    bool in_pairs = false;  ///< all-to-alls are among its collectives
    bool operator==(const Use&) const = default;
  };
  std::vector<std::uint64_t> of_rank;    ///< equal numbers: the same ops of the same sizes, and the same collectives
  std::vector<std::vector<Use>> groups;  ///< of each rank, by their first use
};

struct SimgridSettings : BackendSettings {
  Fidelity fidelity = Fidelity::coupled;
  Latency latency = Latency::platform;
  cost::CollectiveRules collectives;  ///< what is asked of or known about collectives; Fidelity::ring knows nothing of them
  std::uint64_t seed = 1;             ///< of the nodes' jitter
  memory::Settings memory;
  std::shared_ptr<const Programs> programs;  ///< ranks are folded by them; null: every rank is simulated
  bool folds_jitter = true;                  ///< each class has its slowest node's; false: with jitter, every rank is simulated
  std::optional<bool> shares_links;          ///< sharing.h's solver; not said: for folded ranks, clusters and above 64 ranks
  int launch_queue = 1024;                   ///< entries that a host may be ahead of its streams: CUDA's launch queue
  std::filesystem::path platform;
  cost::Prices prices;                ///< laid over the platform's facts
  cost::PriceNotes* notes = nullptr;  ///< receives what `noted_rank`, or who is simulated for it, is charged
  int noted_rank = 0;
  bool meters_links = false;         ///< SimGrid counts the bytes of every link too (slower): for cross-checks
  std::vector<std::string> tracing;  ///< SimGrid's own settings of its traces, as in "tracing/filename:run.paje"
  int messages = 2;                  ///< the descriptor that receives SimGrid's words about a platform that it refuses
};

/// SimGrid's own words when it ended the process over a platform, in one line that names the file; empty if they are none.
std::string platform_refusal(const std::string& messages, const std::filesystem::path& platform);

/// A link's name, and the bytes that crossed it; by name.
using LinkBytes = std::vector<std::pair<std::string, double>>;

class SimgridBackend final : public Backend {
 public:
  explicit SimgridBackend(SimgridSettings);
  ~SimgridBackend() override;
  /// Throws ScenarioError for a bad platform (see simgrid/platform.h for what ends the process instead).
  void run(int world, const Body&) override;
  const Device& device(int rank) const override;
  /// The first of the ranks that are simulated as one with this one; after run.
  int representative(int rank) const;
  /// Whether ranks were folded, and whether any GPU has jitter; after run.
  bool folds() const;
  bool has_jitter() const;
  const Gpu& gpu(int rank) const;
  std::vector<AllocatorEvent> allocator_history(int rank) const override;
  /// Bytes that crossed each link.
  LinkBytes link_bytes() const;
  /// The same by SimGrid's own counters, of the links that carried anything; needs meters_links.
  std::map<std::string, double> metered_link_bytes() const;

 private:
  struct Run;
  void choose_recorded_ranks(int world);
  SimgridSettings settings_;
  std::unique_ptr<Run> run_;
};

}  // namespace shardsim
