// MixedPrecision: the types of FSDP's parameters.
#include "systems/mixed_precision.h"

namespace shardsim {
namespace {

Dtype type_of(const std::string& text, Dtype standard) {
  return text == "bf16" ? Dtype::bf16 : text == "fp32" ? Dtype::fp32 : standard;
}

}  // namespace

MixedPrecision MixedPrecision::of(const Precision& precision, const Options& options) {
  return {precision.has_master() ? Dtype::fp32 : precision.param, precision.param,
          type_of(options.text("reduce_dtype"), precision.reduce)};
}

std::string MixedPrecision::contradiction(const Options& options, std::initializer_list<const char*> names) const {
  for (const std::string name : names)
    if (const std::string& text = options.text(name); type_of(text, compute) != compute)
      return name + ": " + text + " is not what the model computes in; write precision: {param: " + text + "}";
  return "";
}

}  // namespace shardsim
