// A card that is none: CUDA's calls and NCCL's, answered by the host, so that what a backend does when they fail can be seen
// without a GPU. Every stream has done at once what is enqueued, unless a collective keeps it busy.
#pragma once
#include <atomic>
#include <cstdint>

namespace shardsim::test {

/// What goes wrong, set before a run; one for the process, as CUDA itself.
struct FakeCard {
  std::atomic<int> gpus = 2;
  std::atomic<std::int64_t> memory = std::int64_t(1) << 40;  ///< bytes, of all ranks together
  std::atomic<std::int64_t> launches_until_fault = -1;       ///< then every call reports an illegal address; < 0: never
  std::atomic<int> collectives_until_refusal = -1;           ///< the next one is an invalid argument to NCCL; < 0: never
  std::atomic<int> collectives_until_silence = -1;           ///< that one and all after it never end; < 0: never
  std::atomic<int> collectives_until_signal = -1;            ///< that one sends the process `signal`; < 0: never
  std::atomic<int> copies_until_signal = -1;                 ///< the same of copies between the host and the card
  std::atomic<int> signal = 0;
  std::atomic<bool> others_are_gone = false;  ///< NCCL finds it out when a stream does not end
  std::atomic<int> aborted = 0;               ///< communicators
};
FakeCard& fake_card();
/// Counts down one of these.
inline bool comes_to(std::atomic<int>& count) { return count >= 0 && count-- == 0; }

}  // namespace shardsim::test
