// deepspeed_partitioned: what DeepSpeed's ZeRO optimizers below stage 3 have in common. All parameters are views of one flat
// tensor, which is cut into a partition per rank, anywhere; a rank keeps the fp32 master and Adam's moments of its own, and an
// all-gather brings the others' after each step.
//
// Source: DeepSpeed 0.19.2, runtime/zero/stage_1_and_2.py and runtime/bf16_optimizer.py.
#pragma once
#include "systems/deepspeed_stage.h"

namespace shardsim {

class DeepSpeedPartitioned : public DeepSpeedStage {
 protected:
  using DeepSpeedStage::DeepSpeedStage;

  /// A piece of a parameter in this rank's partition.
  struct Own {
    int parameter;
    Dim begin, count;  // in the parameter
    Dim at;            // in the partition
  };
  /// Lays the parameters out in this order, and fills the flat tensor, the master and the moments.
  void make_partitions(const std::vector<int>& order, Place optimizer = Place::device);
  const std::vector<Own>& own() const { return own_; }
  /// Where a parameter begins in the flat tensor.
  Dim begin_of(int p) const { return begins_[std::size_t(p)]; }
  const Borders& borders() const { return borders_; }
  Dim partition_begin() const { return (*borders_)[std::size_t(mesh().world.me)]; }
  Dim partition_size() const { return (*borders_)[std::size_t(mesh().world.me) + 1] - partition_begin(); }

  /// Adam on the partition, from its gradient in fp32.
  void update_partition(Tensor grad, Tensor factor);
  /// Copies it into the flat tensor, rounded. `by_way_of`: another copy of the partition, where the rounding is done.
  void publish_partition(Tensor by_way_of = {}) const;
  void gather_parameters(Lane lane) const;

  Tensor parameter(int p) override;
  void append_theta(std::vector<ThetaPiece>&) override;

 private:
  std::vector<Dim> begins_;
  std::vector<Own> own_;
  Borders borders_;
  Tensor flat_, master_, m_, v_;
};

}  // namespace shardsim
