// deepspeed_quantized_gradients: ZeRO++'s qgZ: a gradient's mean over all ranks in two all-to-alls of 4-bit numbers, within each
// node and across nodes, where a reduce-scatter would go round all ranks with 16 bits.
//
// Before each hop numbers are quantized in groups of one row or column, with an fp32 scale per group. Of n ranks in nodes of L, a
// rank sends (L-1)/L of the gradient in its node and (n-L)/n of a L-th of it to other nodes, at half a byte per element and four
// bytes per group. DeepSpeed's kernels read fp16; other types are billed alike here.
//
// Nothing is padded: a tensor of no multiple of 2 n elements is reduced and scattered as ever (DeepSpeed's pull request 5056). Of
// one that is a multiple, but whose groups n does not divide, the scales cannot be shared out evenly, and all_to_all_single raises
// no error with NCCL (its issue 5054): numbers go wrong in silence there, and it is refused here.
//
// Source: DeepSpeed, deepspeed/runtime/comm/coalesced_collectives.py (all_to_all_quant_reduce; divided by all ranks as of 2026,
// where older versions divide by the nodes alone) and csrc/quantization/swizzled_quantize.cu. ZeRO++: arXiv 2306.10209.
#pragma once
#include <string>
#include <vector>

#include "core/scheme.h"

namespace shardsim {

class DeepSpeedQuantizedGradients {
 public:
  /// `nodes`: mesh.shards is a node's ranks, mesh.replicas those at the same place in all nodes.
  DeepSpeedQuantizedGradients(const Rank& rank, const Mesh& nodes) : rank_(rank), nodes_(nodes) {}

  const Mesh& nodes() const { return nodes_; }
  /// False for what DeepSpeed reduces and scatters as always: vectors, and what is no even number of elements per rank.
  bool takes(Dim rows, Dim cols) const;
  /// The own piece of the mean of `gradient` (rows x cols, `parameter`'s) over all ranks, freed by the caller. cuts[r]: where rank
  /// r's piece begins; one more than there are ranks. Throws ScenarioError where the groups do not fit the pieces.
  Tensor mean(Lane lane, const std::string& parameter, Tensor gradient, const std::vector<Dim>& cuts) const;

 private:
  struct Quantized;
  Quantized make(Lane lane, Dim elements, std::int64_t group) const;
  void exchange(Lane lane, const Group& among, const Quantized& from, const Quantized& to, const std::vector<Dim>& borders) const;

  const Rank& rank_;
  Mesh nodes_;
};

}  // namespace shardsim
