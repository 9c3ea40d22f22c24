// DeviceMemory: between the device's calls and the caching allocator.
#include "backends/simgrid/device_memory.h"

#include <algorithm>

#include "backends/simgrid/device.h"
#include "backends/simgrid/fabric.h"

namespace shardsim::simgrid_backend {

DeviceMemory::DeviceMemory(SimDevice& device, const memory::Settings& settings, bool records)
    : device_(device), settings_(settings) {
  if (!settings.torch) return;
  pools_ = std::make_unique<memory::CachingAllocator>(settings.options, static_cast<Streams&>(*this),
                                                      device.gpu().memory_bytes - outside());
  if (records) pools_->keep_history(&history_);
  for (int i = 0; i < settings.cublas_workspaces; ++i)
    pools_->malloc(settings.cublas_workspace, Lane::compute, Band::workspace);  // for good
}

DeviceMemory::Block* DeviceMemory::allocate(Lane lane, Band band, std::int64_t bytes) {
  if (!pools_) return nullptr;
  if (pools_->awaits_events()) device_.catch_up();
  Block* const block = pools_->malloc(bytes, lane, band, device_.label());
  date_events();
  return block;
}

void DeviceMemory::date_events() {
  for (const double date = device_.now(); dated_ < history_.size(); ++dated_) history_[dated_].seconds = date;
}

void DeviceMemory::free(Lane lane, const Storage* storage) {
  const auto found = blocks_.find(storage);
  if (found == blocks_.end()) return;
  pools_->record_stream(found->second, lane);
  pools_->free(found->second);
  date_events();
  blocks_.erase(found);
}

void DeviceMemory::use(Communicator& communicator) {
  if (communicator.ring().group.size == 1) return;
  if (std::find(communicators_.begin(), communicators_.end(), &communicator) != communicators_.end()) return;
  communicators_.push_back(&communicator);
  if (pools_) pools_->limit(device_.gpu().memory_bytes - outside());
}

AllocatorBooks DeviceMemory::books() const {
  AllocatorBooks books = pools_ ? pools_->books() : AllocatorBooks{};
  books.has_outside = settings_.has_outside;
  books.outside = outside();
  books.communicators = int(communicators_.size());
  return books;
}

Event DeviceMemory::record(Lane lane) { return {lane, device_.stream(lane).record()}; }
bool DeviceMemory::is_over(Event event) const { return device_.stream(event.lane).has_finished(event.at); }
void DeviceMemory::synchronize() { device_.drain(); }

}  // namespace shardsim::simgrid_backend
