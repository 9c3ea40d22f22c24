// summary.json: the figures of a run under stable names, with units in the names and a version of the schema.
#pragma once
#include <cmath>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "core/ledger.h"

namespace shardsim::formats {

/// A figure that every rank has its own of.
template <class T>
struct OverRanks {
  T max{}, min{};
  int rank = 0;  ///< the lowest one with the maximum
  void add(int of_rank, T value) {
    if (ranks_ == 0 || value > max) max = value, rank = of_rank;
    if (ranks_++ == 0 || value < min) min = value;
  }
  bool empty() const { return ranks_ == 0; }

 private:
  int ranks_ = 0;
};

/// The figures of one scheme. Times are seconds per step, bytes sent are per step.
struct Figures {
  std::string scheme, backend;
  int world = 1, steps = 0, first_steady = 0, units = 0;  ///< figures per step are those of the steps from first_steady on
  bool interrupted = false;
  /// Of folded ranks: the first of each class, how many it stands for, and which ("0-5, 7"). Empty: every rank was simulated.
  struct RankClass {
    int rank, ranks;
    std::string stands_for;
  };
  std::vector<RankClass> rank_classes;
  std::int64_t parameters = 0, padding = 0;  ///< charged; padding over all units

  std::vector<double> losses;        ///< per step, mean over the ranks; empty without numerics
  std::optional<double> entropy;     ///< nats per token of the language that is learned: no loss stays below it
  double loss_deviation = 0;         ///< standard error of loss_last_tenth() around the entropy, of a model that knows all
  std::optional<int> diverged_step;  ///< the first step whose loss is not finite
  std::optional<std::uint64_t> theta_hash;

  OverRanks<double> step_seconds;                        ///< of all ranks, mean over the steady steps
  double first_step_seconds = 0, last_step_seconds = 0;  ///< the slowest rank's
  /// Of the recorded ranks: it computes; a collective runs and nothing is computed; both at once.
  OverRanks<double> compute_seconds, exposed_comm_seconds, hidden_comm_seconds;
  std::optional<double> over_single_gpu_seconds;  ///< step less a measured one on one GPU: optimizer and host work too
  OverRanks<double> bytes_sent, control_bytes;
  OverRanks<std::int64_t> resident_bytes, model_state_peak_bytes, peak_bytes;
  OverRanks<std::int64_t> host_resident_bytes, host_peak_bytes;  ///< a rank's, of the host's memory
  OverRanks<double> host_link_bytes, host_to_device_bytes;       ///< between host and GPU, both ways; of these, to the GPU
  /// The closed forms of the scheme's flags; NaN where it has none. Bytes per parameter.
  double formula_traffic_units = NAN, formula_resident = NAN, formula_model_state_peak = NAN;
  double traffic_units = 0;    ///< bytes sent / ((N-1)/N x parameters x bytes of a parameter); 0 at N = 1
  double rows_per_second = 0;  ///< training rows (sequences) of all ranks; 0 if a step takes no time
  std::int64_t tokens_per_row = 1;
  double model_flops = 0;        ///< per step and rank (models/transformer_shape.h); 0: not known
  double peak_flops = 0;         ///< of a GPU per second, in the parameters' type; 0: not known
  std::int64_t gpu_memory = 0;   ///< capacity; 0: not known
  std::int64_t host_memory = 0;  ///< a rank's share of its node's; 0: not known
  std::string gpu;
  Composition resident;  ///< of the rank with the maximum, as are the peaks
  Peak peak, model_state_peak, host_peak;

  /// As PyTorch counts them; empty where memory is exact, which reserves what is asked of it: the peak.
  OverRanks<std::int64_t> requested_peak_bytes, allocated_peak_bytes, allocated_resident_bytes, reserved_bytes;
  OverRanks<std::int64_t> outside_bytes;  ///< context and communicators; empty if not known
  AllocatorBooks allocator;               ///< of the rank that has most reserved and outside

  /// A figure of a real run, that the scenario tells, beside this run's.
  struct Measured {
    std::string figure;
    double here, measured;
  };
  std::vector<Measured> measured;

  /// Reserved, and outside of the allocator: what the GPU would have to hold.
  std::int64_t needed_bytes() const { return (allocator.emulated ? allocator.reserved : peak_bytes.max) + allocator.outside; }
  /// True, too, of a memory that is not known.
  bool fits_gpu() const { return gpu_memory == 0 || (needed_bytes() <= gpu_memory && allocator.out_of_memory == 0); }
  bool fits_host() const { return host_memory == 0 || host_peak_bytes.max <= host_memory; }
  bool fits() const { return fits_gpu() && fits_host(); }

  /// Mean loss of the last tenth of the steps, of at least one; NaN without numerics.
  double loss_last_tenth() const;
  double per_parameter(double bytes) const { return bytes / double(parameters); }
};

/// What all schemes of a run have in common.
struct RunFacts {
  std::string scenario, file, numerics, fabric, latency;
  std::vector<std::string> defaults_used;
  std::vector<std::string> notes;    ///< warnings, and what else the printed table says in words about the run
  std::string measured_source = {};  ///< of the schemes' measured figures
  std::vector<std::pair<std::string, std::uint64_t>> files =
      {};  ///< of each key that names a file, what tells its content from others
};

/// The first step, from 0 on, of which figures per step are. A run's very first one is none where there are others: systems learn
/// their orders in it, GPUs load their kernels, pools grow.
constexpr int first_steady(int steps) { return steps > 1 ? 1 : 0; }

/// Of the keys below; another one means other keys.
inline constexpr int summary_version = 2;

/// One line per key, in a fixed order; numbers that are not finite become null.
void write_summary(std::ostream&, const RunFacts&, const std::vector<Figures>&);

/// Why a text is no summary.json that this program wrote: "is damaged: it ends early, in line 31"; empty if it is one.
std::string fault_of_summary(const std::string& text);

/// 16 lower-case hex digits.
std::string hash_text(std::uint64_t);

}  // namespace shardsim::formats
