// MixedPrecision: the types of FSDP's parameters, as both of its versions read them from their options and the scenario.
#pragma once
#include <initializer_list>
#include <string>

#include "core/band.h"
#include "core/options.h"

namespace shardsim {

struct MixedPrecision {
  Dtype original = Dtype::fp32;  ///< of the shards, which are the master if there is one
  Dtype compute = Dtype::fp32;   ///< of what is gathered, and of autograd's gradients
  Dtype reduce = Dtype::fp32;    ///< of the reduction

  /// reduce_dtype is the option's, or else the scenario's; the others are the scenario's.
  static MixedPrecision of(const Precision&, const Options&);
  /// Why one of these options, which can only repeat the compute type, contradicts it; empty if none does.
  std::string contradiction(const Options&, std::initializer_list<const char*> names) const;
};

}  // namespace shardsim
