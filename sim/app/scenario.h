// Scenario: everything that a run is told, read strictly from YAML. An unknown key, a wrong unit or a missing file is an error that
// names file, line, key and remedy.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/yaml_reader.h"
#include "backends/cuda/nodes.h"
#include "backends/simgrid/fidelity.h"
#include "core/rank_set.h"
#include "core/registry.h"
#include "core/scheme.h"
#include "cost/collective.h"
#include "cost/facts.h"
#include "memory/settings.h"
#include "models/transformer_sizes.h"

namespace shardsim {

enum class Numerics { full, twin, off };      ///< what the arithmetic has of the charged sizes
enum class Folds { all, folded, automatic };  ///< which ranks: each, or one for all that are alike, or that if it can be had
const char* name_of(Fidelity);
const char* name_of(Latency);
const char* name_of(Numerics);

struct MlpChoice {
  std::vector<std::int64_t> widths;  ///< [in, hidden..., out]
  std::string activation = "tanh", loss = "mse";
  std::filesystem::path theta0;  ///< .npy; empty: seeded
};

struct TransformerChoice {
  std::string name;  ///< of the preset, the file or the family
  TransformerShape shape;
  TransformerPlan plan;
  std::int64_t sequence = 0;                                                            ///< tokens
  std::int64_t twin_hidden = 32, twin_heads = 4, twin_vocab = 256, twin_sequence = 32;  ///< real sizes are at most these
};

struct DataChoice {
  std::filesystem::path x, y;  ///< .npy, float32 [rows, in] and [rows, out]; empty: a seeded teacher network
  std::int64_t rows = 1024;    ///< of the teacher's data set
  std::filesystem::path text;  ///< of a transformer: bytes as tokens; empty: a seeded language
  int successors = 4;          ///< of a token, in the language
};

/// What a scenario's `expect:` block states about one scheme's result, or its `measured:` block about a real run of it; keys are
/// those of the README.
struct Expectation {
  std::string key;
  double value = 0;
  double within = 0;  ///< relative tolerance; 0: equal but for rounding
  int line = 0;
};

struct Scenario {
  std::filesystem::path file;
  std::string text;                                    ///< the file as YAML, overrides included, without comments
  std::map<std::string, std::filesystem::path> files;  ///< that it names, by key: what is in them is part of it
  std::string name;
  std::vector<SchemeChoice> schemes;  ///< no two with the same label
  std::filesystem::path platform;
  std::shared_ptr<const class MemoryFile> generated_platform;  ///< where `platform` lies if the scenario says a machine in numbers
  int world = 1;
  MlpChoice model;                               ///< also theta0 of a transformer
  std::optional<TransformerChoice> transformer;  ///< instead of the perceptron
  DataChoice data;
  std::int64_t micro_batch = 1;
  Knobs knobs;  ///< precision, units, streams, budgets, accumulation, clip, Adam
  Numerics numerics = Numerics::full;
  std::int64_t twin_width = 0;  ///< real widths are at most this, for Numerics::twin
  int steps = 1;
  std::uint64_t seed = 1;
  std::string backend = "simgrid";  ///< simgrid | threads | cuda
  bool loopback = false;            ///< cuda: the ranks share one GPU; otherwise each has its own, and NCCL moves the numbers
  cuda::Nodes nodes;                ///< cuda: the machines, and which of them this is
  Fidelity fabric = Fidelity::coupled;
  Latency latency = Latency::platform;
  cost::CollectiveRules collectives;
  memory::Settings memory;
  bool checks_hazards = true;
  std::optional<int> noted_rank;  ///< the result says what this rank was charged, and by which formula
  bool tells_timeline = false;    ///< the result has the timeline of the last step
  cost::Prices prices;            ///< what is said about the GPUs over the platform
  double single_gpu_seconds = 0;  ///< a measured step on one GPU, to compare with; 0: none
  double patience = 120;          ///< seconds without anything finished until a scheme is said to hang
  Folds folds = Folds::all;
  int launch_queue = 1024;                                           ///< entries that a host may be ahead of its streams (simgrid)
  RankSet recorded_ranks = 8;                                        ///< ranks in traces and CSVs
  bool records_spans = false;                                        ///< spans.csv is written too
  bool records_theta = true;                                         ///< theta_final.npy is written, and has a hash
  bool trace_per_rank = false;                                       ///< a trace file per rank instead of one for all
  bool trace_gzip = false;                                           ///< compressed
  std::vector<std::string> simgrid_tracing;                          ///< SimGrid's own "tracing/...:value", passed through
  std::map<std::string, std::vector<Expectation>> expect, measured;  ///< by label
  std::string measured_source;                                       ///< who measured, and where it can be read
  bool expect_equal_theta = false;
  std::vector<std::string> defaults_used;  ///< "key: value", for the printout
  std::vector<std::string> changed_files;  ///< of those that it names: sentences, for a scenario.yaml in a results folder
  std::vector<std::string> notes;          ///< what a file that the scenario names has to say, for the printout
};

/// Reads `file`, then applies `overrides` ("key=value", dotted keys). Throws ScenarioError. Checks all that can be known without
/// running: names, ranges, shapes of .npy files, that the platform exists.
Scenario read_scenario(const std::filesystem::path& file, const std::vector<std::string>& overrides, const Registry&);
/// The same, of a file that has been read, and its overrides applied, already.
Scenario scenario_of(const std::filesystem::path& file, const YamlNode&, const Registry&);

}  // namespace shardsim
