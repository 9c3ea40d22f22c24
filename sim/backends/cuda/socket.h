// Socket: a TCP connection between two nodes that carries frames, and the port where connections come in.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace shardsim::cuda {

/// One message. What it means is the rendezvous' affair.
struct Frame {
  std::uint32_t kind = 0;
  std::string key = {}, value = {};
};

/// Closes itself.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();

  /// A port of this machine that nobody listens at yet; 0: a free one. Throws ScenarioError: it is taken.
  static Socket bound_to(int port);
  /// Connects within `seconds`; otherwise the socket is closed, and `why` says what was wrong.
  static Socket connected_to(const std::string& host, int port, double seconds, std::string& why);

  explicit operator bool() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  int port() const;
  void listen();
  /// Closed where nobody waits.
  Socket accept();
  /// A receive that has waited so long finds the end; 0: never.
  void wait_at_most(double seconds);
  /// The connection ends when the other machine has given no sign of life for so long.
  void end_after_silence(double seconds);

  /// A connection that has ended takes no notice.
  void send(const Frame&);
  void send(const void* bytes, std::size_t size);
  /// False at the end of the connection. Throws GpuError: what came is no frame of this program's.
  bool receive(Frame&);
  /// Nothing more will be sent, by any process; the other side comes to the end.
  void end_sending();
  /// Nothing more will be received; a receive in another thread comes to the end.
  void end_receiving();

 private:
  bool receive(void* bytes, std::size_t size);
  int descriptor_ = -1;
};

}  // namespace shardsim::cuda
