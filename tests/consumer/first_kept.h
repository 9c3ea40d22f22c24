// first_kept: zero3 whose first `keep` units stay gathered from forward to backward: a plugin with an option.
#pragma once
#include "core/band_scheme.h"

class FirstKept : public shardsim::BandScheme {
  using Band = shardsim::Band;

 public:
  static std::vector<shardsim::Option> options() {
    return {{"keep", shardsim::Option::Kind::integer, "0", "units that stay gathered between the passes", {}, 0}};
  }
  explicit FirstKept(const shardsim::Options& options) : keep_(int(options.integer("keep"))) {}

 private:
  shardsim::ShardSet shard() const override { return {Band::opt, Band::grad, Band::param}; }
  bool keeps_gathered() const override { return keep_ > 0; }
  void step() override {
    for (shardsim::MicroBatch micro : micro_batches()) {
      for (int u : forward_order())  { all_gather(u); forward(u);  if (u >= keep_) release(u); }
      for (int u : backward_order()) { all_gather(u); backward(u); release(u); reduce_scatter(u); }
    }
    clip(); adam();
  }
  int keep_;
};
