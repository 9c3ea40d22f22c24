// Counting: a device and a fabric without a backend that count what is asked of them: the exact number of a program's operations.
#pragma once
#include <deque>

#include "core/device.h"
#include "core/fabric.h"
#include "cost/price.h"

namespace shardsim {

class CountingDevice final : public Device {
 public:
  CountingDevice() : Device(0, false) {}
  double now() const override { return 0; }
  long operations = 0;
  double flops = 0;

 private:
  Storage* do_alloc(Lane, Band band, Dim count, Dtype type, std::int64_t bytes, Place place) override {
    ++operations;
    return &storages_.emplace_back(Storage{.count = count, .dtype = type, .band = band, .bytes = bytes, .place = place});
  }
  void do_free(Lane, Storage*) override { ++operations; }
  void do_launch(Lane, const Op& op) override { ++operations, flops += cost::flops(op); }
  Event do_record(Lane lane) override { return {lane, 1}; }
  void do_wait(Lane, Event) override { ++operations; }
  void do_synchronize() override {}
  void do_synchronize(Event) override {}
  void do_upload(Lane, Tensor, HostView) override { ++operations; }
  void do_download(Lane, Tensor, std::vector<float>& to) override { ++operations, to.assign(1, 0.f); }
  void do_stamp(Lane, double&) override { ++operations; }
  std::deque<Storage> storages_;
};

class CountingFabric final : public Fabric {
 public:
  CountingFabric(CountingDevice& device, IssueOrder& order) : Fabric(device, order), device_(device) {}

 private:
  void enqueue(const Collective&) override { ++device_.operations; }
  CountingDevice& device_;
};

}  // namespace shardsim
