// Stream: the queue between a rank's host and one worker.
#include "backends/threads/stream.h"

namespace shardsim::threads {

Stream::Stream(Alarm& alarm) : alarm_(alarm), last_(new Node), spent_(last_) { waiter_.set(published_, 1); }

std::uint64_t Stream::push(std::unique_ptr<Node> node, Waiter& host) {
  if (alarm_.raised()) throw Stopped();
  if (enqueued_ >= depth && !done_.wait_unordered(enqueued_ + 1 - depth, host, alarm_)) throw Stopped();
  if (!worker_.joinable()) worker_ = std::thread([this] { work(); });
  append(std::move(node));
  return enqueued_;
}

void Stream::append(std::unique_ptr<Node> node) {
  last_->next = node.get();
  last_ = node.release();
  published_.advance(++enqueued_);
}

void Stream::close() {
  if (std::exchange(closed_, true)) return;
  if (worker_.joinable()) {
    append(nullptr);
    worker_.join();
  }
  delete spent_;
}

void Stream::work() {
  const Alarm never;  // idle workers sleep on, alarm or not, until they are closed
  for (std::uint64_t taken = 1;; ++taken) {
    published_.wait(taken, waiter_, never);
    Node* node = spent_->next;
    if (!node) return;
    delete std::exchange(spent_, node);
    if (!alarm_.raised()) {
      try {
        node->run();
      } catch (...) {
        alarm_.raise(std::current_exception());
      }
    }
    if (alarm_.pulse) alarm_.pulse->fetch_add(1, std::memory_order_relaxed);
    done_.advance(taken);
  }
}

}  // namespace shardsim::threads
