// CountingDevice: runs nothing; counts what a model holds and launches, in program order.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/device.h"
#include "cost/price.h"

namespace shardsim::test {

class CountingDevice final : public Device {
 public:
  CountingDevice() : Device(0, true) {}
  double now() const override { return 0; }

  std::int64_t held(Band band) const { return held_[unsigned(band)]; }
  std::int64_t held() const { return total_; }
  std::int64_t peak() const { return peak_; }
  void forget_peak() { peak_ = total_; }
  double flops() const { return flops_; }
  int launches(const std::string& op) const { return launches_.count(op) ? launches_.at(op) : 0; }
  void forget_launches() { flops_ = 0, launches_.clear(); }

 private:
  Storage* do_alloc(Lane, Band band, Dim count, Dtype type, std::int64_t bytes, Place) override {
    storages_.push_back(std::make_unique<Storage>());
    Storage* storage = storages_.back().get();
    storage->count = count, storage->dtype = type, storage->band = band;
    storage->bytes = bytes;
    hold(band, storage->bytes);
    return storage;
  }
  void do_free(Lane, Storage* storage) override { hold(storage->band, -storage->bytes); }
  void do_launch(Lane, const Op& op) override {
    flops_ += cost::flops(op);
    ++launches_[name_of(op)];
  }
  Event do_record(Lane lane) override { return {lane, 1}; }
  void do_wait(Lane, Event) override {}
  void do_synchronize() override {}
  void do_synchronize(Event) override {}
  void do_upload(Lane, Tensor, HostView) override {}
  void do_download(Lane, Tensor, std::vector<float>&) override {}
  void do_stamp(Lane, double&) override {}

  void hold(Band band, std::int64_t bytes) {
    held_[unsigned(band)] += bytes;
    total_ += bytes;
    peak_ = std::max(peak_, total_);
  }

  std::vector<std::unique_ptr<Storage>> storages_;
  std::array<std::int64_t, band_count> held_{};
  std::int64_t total_ = 0, peak_ = 0;
  double flops_ = 0;
  std::map<std::string, int> launches_;
};

}  // namespace shardsim::test
