// Taking: what a rank enqueues, taken down on a device that does nothing: as lines that others can play (tape.h), and as a number
// by which ranks that do the same are known (folding.h).
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/simgrid/backend.h"
#include "core/crossing.h"
#include "core/scheme.h"
#include "cost/gpu.h"

namespace shardsim {

/// Makes a rank's own model and scheme.
struct Original {
  std::function<std::unique_ptr<Model>(Device&, int rank)> model;
  std::function<std::unique_ptr<Scheme>()> scheme;
  const Knobs& knobs;
  const std::vector<float>& theta0;
  std::string name;
  int world;
};

/// A rank's program from bind to its last step.
struct Program {
  std::uint64_t digest = 0;           ///< equal numbers: the same entries, with the same prices on equal GPUs
  std::vector<Programs::Use> groups;  ///< by their first use
  std::optional<Mesh> mesh;           ///< the rank's, if the scheme says that all ranks do the same (Scheme::is_even)
  /// The groups of a rank that does the same elsewhere in the mesh. Throws IllegalStep if one of them is no group of the mesh.
  std::vector<Programs::Use> groups_at(const Mesh&) const;
  /// Throws IllegalStep unless the other rank does what this one does, in its own place of the mesh.
  void check_same(const Program& other, int rank) const;
};
Program program_of(const Original&, int rank, int steps);

namespace simgrid_backend {

struct Tape {
  enum class Call : std::uint8_t { begin_step, run, nothing, hold, let_go, record, wait, collective, synchronize, until };
  struct Line {
    Call call;
    Lane lane = Lane::compute;
    std::uint8_t op = 0;                     ///< `run`: position in the Op variant
    Lane of = Lane::compute;                 ///< `wait`, `until`: of the event
    Label label = {};                        ///< `run`
    std::int64_t at = 0;                     ///< of the event, from what the lane had when the tape began
    double launch = 0;                       ///< `run`: seconds of the host
    double seconds = 0;                      ///< `run`: its price
    std::uint64_t touched = 0;               ///< `run`: a digest of its tensors' sizes, types and places
    Storage* storage = nullptr;              ///< `hold`, `let_go`: has the facts that a ledger asks for
    const Collective* collective = nullptr;  ///< that the rank issues
    int group = 0;                           ///< its group, by the rank's first use of it
    /// Equal: the same to whoever plays it.
    std::uint64_t digest() const;
  };
  std::vector<Line> lines;
  Crossing crossed;
  std::uint64_t digest = 0;  ///< of all lines
};

class TakingDevice;

/// Entries that each lane has.
using Positions = std::array<std::uint64_t, lane_count>;

/// A rank's own scheme and model, and the tapes of what they enqueue.
class Taking {
 public:
  /// On such a GPU. Without lines a tape has its digest only.
  Taking(const Original&, int rank, const Gpu&, bool keeps_lines);
  ~Taking();
  Taking(const Taking&) = delete;
  Tape bind(const Positions& had);
  Tape step(int step, const Positions& had);
  /// What the lanes have now.
  const Positions& positions() const;
  /// So far.
  const Program& program() const { return program_; }
  const Scheme& scheme() const { return *scheme_; }
  Model& model() const { return *model_; }

 private:
  Tape take(const Positions& had, const std::function<void()>& what);
  Program program_;
  std::unique_ptr<TakingDevice> device_;
  IssueOrder order_;  // of its own: that ranks agree is the run's to say
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Scheme> scheme_;
  Rank rank_;
  StepReport report_;
};

}  // namespace simgrid_backend
}  // namespace shardsim
