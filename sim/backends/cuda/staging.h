// Staging: pinned host memory for small transfers, used again after each synchronization; larger ones take memory of their own.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

namespace shardsim::cuda {

class Staging {
 public:
  static constexpr std::size_t pinned_bytes = std::size_t(1) << 20;
  Staging() = default;
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  using Piece = char*;
  /// Valid until clear().
  Piece take(std::size_t bytes);
  /// Nothing that was taken is in use.
  void clear();

 private:
  char* pinned_ = nullptr;
  std::size_t used_ = 0;
  std::vector<std::unique_ptr<char[]>> large_;
};

}  // namespace shardsim::cuda
