// Socket: Linux's calls.
#include "backends/cuda/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>

#include "backends/cuda/errors.h"

namespace shardsim::cuda {
namespace {

/// In front of each frame. Whoever connects is the same program on the same kind of machine, or is turned away.
struct Header {
  static constexpr std::uint32_t right_mark = 0x73686472;
  static constexpr std::uint64_t longest_key = 4096, longest_value = std::uint64_t(1) << 36;
  std::uint32_t mark = right_mark, kind = 0;
  std::uint64_t key = 0, value = 0;  // bytes
};

void set(int descriptor, int level, int option, int value) { (void)setsockopt(descriptor, level, option, &value, sizeof value); }

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}

Socket Socket::bound_to(int port) {
  std::string why = "no sockets here";
  for (const int family : {AF_INET6, AF_INET}) {  // the former takes both, where there is IPv6
    Socket made(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!made) continue;
    set(made.descriptor_, SOL_SOCKET, SO_REUSEADDR, 1);  // the port of the scheme before
    sockaddr_in6 six{};
    sockaddr_in four{};
    six.sin6_family = AF_INET6, six.sin6_port = htons(std::uint16_t(port));
    four.sin_family = AF_INET, four.sin_port = htons(std::uint16_t(port));
    if (family == AF_INET6) set(made.descriptor_, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    const bool done = family == AF_INET6 ? bind(made.descriptor_, reinterpret_cast<sockaddr*>(&six), sizeof six) == 0
                                         : bind(made.descriptor_, reinterpret_cast<sockaddr*>(&four), sizeof four) == 0;
    if (done) return made;
    why = std::strerror(errno);
  }
  throw ScenarioError("port " + std::to_string(port) + " cannot be had: " + why + "; choose another one");
}

Socket Socket::connected_to(const std::string& host, int port, double seconds, std::string& why) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int answer = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); answer != 0) {
    why = gai_strerror(answer);
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, &freeaddrinfo);
  for (const addrinfo* at = found; at; at = at->ai_next) {
    Socket made(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!made) continue;
    int error = connect(made.descriptor_, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      pollfd ready{made.descriptor_, POLLOUT, 0};
      error = ETIMEDOUT;
      socklen_t size = sizeof error;
      if (poll(&ready, 1, int(std::ceil(1000 * std::max(0.0, seconds)))) == 1)
        (void)getsockopt(made.descriptor_, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    why = std::strerror(error);
    if (error != 0) continue;
    (void)fcntl(made.descriptor_, F_SETFL, fcntl(made.descriptor_, F_GETFL) & ~O_NONBLOCK);
    set(made.descriptor_, IPPROTO_TCP, TCP_NODELAY, 1);
    return made;
  }
  return {};
}

int Socket::port() const {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  if (getsockname(descriptor_, reinterpret_cast<sockaddr*>(&at), &size) != 0) return 0;
  return ntohs(at.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(at).sin6_port
                                        : reinterpret_cast<sockaddr_in&>(at).sin_port);
}

void Socket::listen() {
  if (::listen(descriptor_, 128) != 0)
    throw ScenarioError("port " + std::to_string(port()) + " cannot be had: " + std::strerror(errno) + "; choose another one");
  (void)fcntl(descriptor_, F_SETFL, fcntl(descriptor_, F_GETFL) | O_NONBLOCK);
}

Socket Socket::accept() {
  Socket made(accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC));
  if (made) set(made.descriptor_, IPPROTO_TCP, TCP_NODELAY, 1);
  return made;
}

void Socket::end_after_silence(double seconds) {
  const auto whole = [](double s) { return int(std::clamp(std::ceil(s), 1.0, 32767.0)); };  // as TCP has it
  set(descriptor_, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(descriptor_, IPPROTO_TCP, TCP_KEEPIDLE, whole(seconds / 3));
  set(descriptor_, IPPROTO_TCP, TCP_KEEPINTVL, whole(seconds / 8));
  set(descriptor_, IPPROTO_TCP, TCP_KEEPCNT, 5);
  set(descriptor_, IPPROTO_TCP, TCP_USER_TIMEOUT, 1000 * whole(seconds));  // milliseconds
}

void Socket::wait_at_most(double seconds) {
  timeval time{};
  time.tv_sec = time_t(seconds), time.tv_usec = suseconds_t(1e6 * (seconds - std::floor(seconds)));
  if (seconds > 0 && time.tv_sec == 0 && time.tv_usec == 0) time.tv_usec = 1;
  (void)setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
}

void Socket::send(const void* bytes, std::size_t size) {
  const char* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t n = ::send(descriptor_, at, size, MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR) return;
    if (n > 0) at += n, size -= std::size_t(n);
  }
}

void Socket::send(const Frame& frame) {
  Header header;
  header.kind = frame.kind, header.key = frame.key.size(), header.value = frame.value.size();
  std::string begin(reinterpret_cast<const char*>(&header), sizeof header);
  begin += frame.key;
  send(begin.data(), begin.size());
  send(frame.value.data(), frame.value.size());
}

bool Socket::receive(void* bytes, std::size_t size) {
  char* at = static_cast<char*>(bytes);
  while (size > 0) {
    const ssize_t n = recv(descriptor_, at, size, 0);
    if (n == 0 || (n < 0 && errno != EINTR)) return false;
    if (n > 0) at += n, size -= std::size_t(n);
  }
  return true;
}

bool Socket::receive(Frame& frame) {
  Header header;
  if (!receive(&header, sizeof header)) return false;
  if (header.mark != Header::right_mark || header.key > Header::longest_key || header.value > Header::longest_value)
    throw GpuError("what came over the network is no word of this program");
  frame.kind = header.kind;
  frame.key.resize(header.key);
  frame.value.resize(header.value);
  return receive(frame.key.data(), frame.key.size()) && receive(frame.value.data(), frame.value.size());
}

void Socket::end_sending() { (void)shutdown(descriptor_, SHUT_WR); }
void Socket::end_receiving() { (void)shutdown(descriptor_, SHUT_RD); }

}  // namespace shardsim::cuda
