// Counter: futex calls, and who waits for what.
#include "backends/threads/counter.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <climits>
#include <ctime>
#include <utility>

namespace shardsim::threads {
namespace {

// A futex is 32 bits wide: the counter's low half. 2^32 steps within one doze do not happen.
static_assert(std::endian::native == std::endian::little && sizeof(std::atomic<std::uint64_t>) == 8);

long futex(const std::atomic<std::uint64_t>& word, int what, std::uint32_t value, const timespec* limit) {
  return syscall(SYS_futex, &word, what | FUTEX_PRIVATE_FLAG, value, limit, nullptr, 0);
}

}  // namespace

void Alarm::raise(std::exception_ptr error) noexcept {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  raised_.store(true, std::memory_order_relaxed);
}

void Waiter::set(const Counter& on, std::uint64_t target) {
  target_.store(target, std::memory_order_relaxed);
  on_.store(&on, std::memory_order_release);
}

Waiter::Wait Waiter::glance() const {
  const Counter* on = on_.load(std::memory_order_acquire);  // the counter may be new
  return {on, target_.load(std::memory_order_relaxed), on ? on->glance() : 0};
}

void Counter::advance(std::uint64_t to) {
  value_.store(to, std::memory_order_release);
  wake();
}

void Counter::increment() {
  value_.fetch_add(1, std::memory_order_release);
  wake();
}

void Counter::wake() const { futex(value_, FUTEX_WAKE, INT_MAX, nullptr); }

void Counter::doze(std::uint64_t seen) const {
  constexpr timespec limit{0, 20'000'000};  // sleepers look at the alarm this often, so that no wake-up for it can be lost
  futex(value_, FUTEX_WAIT, std::uint32_t(seen), &limit);
}

bool Counter::wait_unordered(std::uint64_t target, Waiter& waiter, const Alarm& alarm) const {
  std::uint64_t seen = glance();
  if (seen >= target) return true;
  waiter.set(*this, target);
  while (!alarm.raised() && (seen = glance()) < target) doze(seen);
  waiter.clear();
  return seen >= target;
}

bool Counter::wait(std::uint64_t target, Waiter& waiter, const Alarm& alarm) const {
  if (!wait_unordered(target, waiter, alarm)) return false;
  (void)value_.load(std::memory_order_acquire);
  return true;
}

}  // namespace shardsim::threads
