// Greeting: node 0 looks at whoever comes until all are there; the others try until it answers.
#include "backends/cuda/greeting.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "backends/cuda/errors.h"
#include "numerics/digest.h"

namespace shardsim::cuda {
namespace {

/// Seconds that are left.
class Patience {
 public:
  explicit Patience(double seconds)
      : end_(Clock::now() + std::chrono::duration<double>(seconds)), text_(text_of_seconds(seconds)) {}
  double left() const { return std::chrono::duration<double>(end_ - Clock::now()).count(); }
  const std::string& text() const { return text_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::chrono::time_point<Clock, std::chrono::duration<double>> end_;
  std::string text_;
};

/// The first that a node says, in so many bytes.
struct Hello {
  static constexpr char right_mark[8] = {'s', 'h', 'a', 'r', 'd', 's', 'i', 'm'};
  char mark[8] = {};
  std::uint32_t count = 0, node = 0, world = 0, unused = 0;
  std::uint64_t run = 0;
};

std::uint64_t digest_of(const std::string& run) {
  numerics::Digest digest;
  for (const char c : run) digest.take(std::uint8_t(c));
  return digest.value();
}

Hello hello_of(const Nodes& nodes, const std::string& run) {
  Hello hello;
  std::copy_n(Hello::right_mark, sizeof hello.mark, hello.mark);
  hello.count = std::uint32_t(nodes.count), hello.node = std::uint32_t(nodes.me), hello.world = std::uint32_t(nodes.world);
  hello.run = digest_of(run);
  return hello;
}

/// Whoever has connected to node 0, and what has come of the hello.
struct Guest {
  Socket socket;
  Hello hello = {};
  std::size_t read = 0;
  bool welcome = false, leaves = false;

  /// Reads what there is; false: this is no node, or is none any more.
  bool listen() {
    char more = 0;
    const bool whole = read == sizeof hello;  // then there is nothing more to say
    const ssize_t n = whole ? recv(socket.descriptor(), &more, 1, MSG_DONTWAIT)
                            : recv(socket.descriptor(), reinterpret_cast<char*>(&hello) + read, sizeof hello - read, MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (n == 0 || whole) return false;
    read += std::size_t(n);
    return std::memcmp(hello.mark, Hello::right_mark, std::min(read, sizeof hello.mark)) == 0;
  }
};

std::string prefix_of(const Nodes& nodes) { return "rendezvous at " + nodes.endpoint() + ": "; }

/// Why a node cannot take part; empty if it can.
std::string refusal_of(const Hello& here, const Hello& guest, const std::vector<Guest>& guests) {
  if (guest.count != here.count)
    return "node 0 was told of " + std::to_string(here.count) + " nodes, and this one of " + std::to_string(guest.count) +
           "; give all the same --nnodes";
  if (guest.run != here.run || guest.world != here.world)
    return "node 0 runs another scenario, or another version of the program; give all nodes the same files and options";
  const bool is_there = std::any_of(guests.begin(), guests.end(),
                                    [&](const Guest& other) { return other.welcome && other.hello.node == guest.node; });
  if (guest.node == 0 || guest.node >= here.count || is_there)
    return "there is a node " + std::to_string(guest.node) + " already; give each another --node-rank";
  return {};
}

std::string missing_text(const Nodes& nodes, const std::vector<Guest>& guests, const Patience& patience,
                         const std::string& turned) {
  std::string missing;
  for (int node = 1; node < nodes.count; ++node)
    if (std::none_of(guests.begin(), guests.end(), [&](const Guest& g) { return g.welcome && int(g.hello.node) == node; }))
      missing += (missing.empty() ? "" : ", ") + nodes.name_of(node);
  return missing + " did not come within " + patience.text() +
         (turned.empty() ? "; start the same there, and see that it can reach this address" : "; who came was told: " + turned);
}

/// Tells all who have come why they will not begin.
[[noreturn]] void send_away(std::vector<Guest>& guests, const Nodes& nodes, const std::string& why) {
  for (Guest& guest : guests)
    if (guest.welcome) guest.socket.send({refused, "", why});
  throw ScenarioError(prefix_of(nodes) + why);
}

/// On node 0: the others, in their order, who all have been told that they are welcome.
std::vector<Socket> guests_of(const Nodes& nodes, const std::string& run, double seconds, Socket door) {
  const Patience patience(seconds);
  const Hello here = hello_of(nodes, run);
  if (!door) door = Socket::bound_to(nodes.port);
  door.listen();
  std::vector<Guest> guests;
  std::string turned_away;
  const auto welcomed = [&] { return std::count_if(guests.begin(), guests.end(), [](const Guest& g) { return g.welcome; }); };
  while (welcomed() < nodes.count - 1) {
    const double left = patience.left();
    if (left <= 0) send_away(guests, nodes, missing_text(nodes, guests, patience, turned_away));
    std::vector<pollfd> ready{{door.descriptor(), POLLIN, 0}};
    for (const Guest& guest : guests) ready.push_back({guest.socket.descriptor(), POLLIN, 0});
    if (poll(ready.data(), ready.size(), int(std::ceil(1000 * std::min(left, 1.0)))) < 0 && errno != EINTR)
      throw ScenarioError(prefix_of(nodes) + "cannot wait for nodes: " + std::string(std::strerror(errno)));
    for (std::size_t i = 0; i < guests.size(); ++i) {
      Guest& guest = guests[i];
      if (ready[i + 1].revents != 0 && !guest.listen()) {
        if (guest.welcome) send_away(guests, nodes, nodes.name_of(int(guest.hello.node)) + " came, and is gone");
        guest.leaves = true;
      } else if (!guest.welcome && guest.read == sizeof guest.hello) {
        const std::string refusal = refusal_of(here, guest.hello, guests);
        guest.welcome = refusal.empty();
        guest.leaves = !guest.welcome;
        if (!guest.leaves) continue;
        guest.socket.send({refused, "", refusal});
        turned_away = refusal;
      }
    }
    std::erase_if(guests, [](const Guest& guest) { return guest.leaves; });
    constexpr std::size_t most = 1024;  // silent strangers need not be kept for ever
    if (ready[0].revents != 0)
      if (Socket made = door.accept(); made && guests.size() < most) guests.push_back({std::move(made)});
  }
  std::vector<Socket> sockets(std::size_t(nodes.count - 1));
  for (Guest& guest : guests)
    if (guest.welcome) sockets[guest.hello.node - 1] = std::move(guest.socket);
  for (Socket& socket : sockets) socket.send({welcome, "", ""});
  return sockets;
}

/// On another node: node 0, which has said that all are there.
Socket host_of(const Nodes& nodes, const std::string& run, double seconds) {
  const Patience patience(seconds);
  const Hello here = hello_of(nodes, run);
  for (std::string why;;) {
    constexpr double least = 1;  // seconds that an attempt has, and there is one in any case
    Socket made = Socket::connected_to(nodes.host, nodes.port, std::max(least, patience.left()), why);
    if (made) {
      made.send(&here, sizeof here);
      made.wait_at_most(std::max(1e-3, patience.left()));
      Frame answer;
      bool answered = false;
      try {
        answered = made.receive(answer);
      } catch (const GpuError& error) {
        throw ScenarioError(prefix_of(nodes) + error.what() + "; choose another port");
      }
      if (answered && answer.kind == refused) throw ScenarioError(prefix_of(nodes) + answer.value);
      if (answered && answer.kind == welcome) {
        made.wait_at_most(0);
        return made;
      }
      why = "it hung up, or not all are there";
    }
    if (patience.left() <= 0)
      throw ScenarioError(prefix_of(nodes) + "node 0 did not let all begin within " + patience.text() + " (" + why +
                          "); start it there, and see that this machine can reach it");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace

std::shared_ptr<std::vector<Socket>> greet(const Nodes& nodes, const std::string& run, const Waits& waits, Socket door) {
  std::vector<Socket> met;
  if (nodes.me == 0) met = guests_of(nodes, run, waits.patience, std::move(door));
  else met.push_back(host_of(nodes, run, waits.patience));
  for (Socket& socket : met) socket.end_after_silence(waits.silence);
  return std::make_shared<std::vector<Socket>>(std::move(met));
}

}  // namespace shardsim::cuda
