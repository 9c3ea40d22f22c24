// What the fakes of CUDA and of NCCL share.
#pragma once
#include <atomic>

namespace shardsim::test {

struct FakeStream {
  std::atomic<bool> busy = false;  ///< a collective is under way, and does not end
};

}  // namespace shardsim::test
