// Trial: a scheme on a small standard scenario, cost only: what `explain` shows beside the closed forms.
#pragma once
#include <vector>

#include "app/result.h"
#include "app/scenario.h"
#include "formats/summary.h"

namespace shardsim {

struct Trial {
  Scenario scenario;
  SchemeResult result;
  formats::Figures figures;
};

/// Eight ranks of the platform ideal-8, four equal layers of a unit each (nothing is padded), 2 + 2 + 12 bytes per parameter,
/// `accumulation` micro-batches. Schemes that replicate their shards do it twice; those that offload have 60 GB/s of the host's
/// memory per GPU and 48 of a link.
Trial try_out(const SchemeChoice&, int accumulation);
/// A preset on the eight GPUs of a dgx-h100, 4 x 1024 tokens per rank, bf16 parameters with an fp32 master, cost only.
Scenario gpt2_scenario(const std::string& preset);
/// What the trial of real systems is about: GPT-2 (12 layers) on the eight GPUs of a dgx-h100, 4 x 1024 tokens per rank, bf16
/// parameters with an fp32 master, three steps; on a mesh of 2 x 4, or in fp32, where one of the systems refuses that. All in the
/// same setting if there is one that suits all. A real system needs a model that can be hooked.
std::vector<Trial> try_out_on_gpt2(const std::vector<SchemeChoice>&);
std::string gpt2_trial_words(const Trial&);
/// What the trial is, in words.
std::string trial_words();

}  // namespace shardsim
