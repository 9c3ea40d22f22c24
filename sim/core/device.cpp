// Device: the checks that every backend shares, made before its own part is called.
#include "core/device.h"

#include <utility>

#include "core/error.h"

namespace shardsim {

void Device::check(Lane lane, Tensor tensor, bool reads, bool writes, const char* op) {
  hazards_.access(lane, tensor, reads, writes, op, label_);
}

void Device::rethrow_deferred() {
  if (deferred_) std::rethrow_exception(std::exchange(deferred_, nullptr));
}

Tensor Device::alloc(Lane lane, Band band, Dim rows, Dim cols, Dtype type, Place place) {
  rethrow_deferred();
  const bool placed = arena_ && place == Place::device && (band == Band::activation || band == Band::workspace);
  const Dim count = rows * cols;
  Storage* storage = do_alloc(lane, band, count, type, placed ? 0 : count.charged() * bytes_of(type), place);
  const Tensor tensor{storage, storage->life, none, rows, cols};
  hazards_.tick(lane);
  check(lane, tensor, false, true, "alloc");
  return tensor;
}

void Device::free(Lane lane, Tensor tensor) {
  rethrow_deferred();
  const Tensor whole{tensor.in, tensor.life, none, one, tensor.in->count};
  hazards_.tick(lane);
  check(lane, whole, false, true, "free");
  if (tensor.life != tensor.in->life) throw IllegalStep("free of memory that was freed already");
  ++tensor.in->life;
  tensor.in->history.reset();
  do_free(lane, tensor.in);
}

void Device::free_later(Lane lane, Tensor tensor) noexcept {
  try {
    free(lane, tensor);
  } catch (...) {
    if (!deferred_) deferred_ = std::current_exception();
  }
}

void Device::launch(Lane lane, const Op& op) {
  rethrow_deferred();
  if (hazards_.on()) {
    hazards_.tick(lane);
    const char* name = name_of(op);
    auto each = [&](const Tensor& tensor, bool reads, bool writes) { check(lane, tensor, reads, writes, name); };
    std::visit([&](const auto& o) { touch(o, each); }, op);
  }
  crossed_ += crossing(op);
  do_launch(lane, op);
}

Event Device::record(Lane lane) {
  rethrow_deferred();
  const Event event = do_record(lane);
  hazards_.record(lane, event);
  return event;
}

void Device::wait(Lane lane, Event event) {
  rethrow_deferred();
  if (event.at == 0 || event.lane == lane) return;
  hazards_.wait(lane, event);
  do_wait(lane, event);
}

void Device::synchronize() {
  rethrow_deferred();
  do_synchronize();
  hazards_.synchronize();
}

void Device::synchronize(Event event) {
  rethrow_deferred();
  if (event.at == 0) return;
  do_synchronize(event);
  for (int lane = 0; lane < lane_count; ++lane) hazards_.wait(Lane(lane), event);
}

void Device::upload(Lane lane, Tensor to, HostView from) {
  rethrow_deferred();
  hazards_.tick(lane);
  check(lane, to, false, true, "upload");
  do_upload(lane, to, from);
}

void Device::download(Lane lane, Tensor from, std::vector<float>& to) {
  rethrow_deferred();
  hazards_.tick(lane);
  check(lane, from, true, false, "download");
  do_download(lane, from, to);
}

void Device::stamp(Lane lane, double& seconds) {
  rethrow_deferred();
  do_stamp(lane, seconds);
}

Held& Held::operator=(Held&& other) noexcept {
  if (this != &other) {
    reset();
    device_ = std::exchange(other.device_, nullptr);
    lane_ = other.lane_;
    tensor_ = other.tensor_;
  }
  return *this;
}

void Held::reset() noexcept {
  if (device_) std::exchange(device_, nullptr)->free_later(lane_, tensor_);
}

}  // namespace shardsim
