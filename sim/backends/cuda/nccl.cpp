// NcclFabric: NCCL's calls, loaded when a run needs them. Communicators do not block the host, so that it can stop waiting.
#include "backends/cuda/nccl.h"

#include <thread>

#include "backends/cuda/checked.h"
#include "backends/cuda/library.h"
#include "backends/cuda/nccl_header.h"
#include "backends/cuda/rendezvous.h"

#ifdef NCCL_MAJOR

namespace shardsim::cuda {

struct Nccl::Loaded {
  using Key = std::tuple<int, int, int, Lane>;
  Library library{"libnccl.so.2", "libnccl.so", "/usr/local/cuda/lib64/libnccl.so.2"};
  decltype(ncclGetErrorString)* text;
  decltype(ncclGetUniqueId)* found;
  decltype(ncclCommInitRankConfig)* join;
  decltype(ncclCommGetAsyncError)* state;
  decltype(ncclCommDestroy)* leave;
  decltype(ncclCommAbort)* abort;
  decltype(ncclAllReduce)* all_reduce;
  decltype(ncclReduceScatter)* reduce_scatter;
  decltype(ncclAllGather)* all_gather;
  decltype(ncclReduce)* reduce;
  decltype(ncclBroadcast)* broadcast;
  decltype(ncclSend)* send;
  decltype(ncclRecv)* receive;
  decltype(ncclGroupStart)* begin_group;
  decltype(ncclGroupEnd)* end_group;

  std::mutex mutex;
  std::map<Key, ncclUniqueId> names;
  Rendezvous* nodes;

  explicit Loaded(Rendezvous* nodes_or_null) : nodes(nodes_or_null) {
    library.find(text, "ncclGetErrorString");
    library.find(found, "ncclGetUniqueId");
    library.find(join, "ncclCommInitRankConfig");
    library.find(state, "ncclCommGetAsyncError");
    library.find(leave, "ncclCommDestroy");
    library.find(abort, "ncclCommAbort");
    library.find(all_reduce, "ncclAllReduce");
    library.find(reduce_scatter, "ncclReduceScatter");
    library.find(all_gather, "ncclAllGather");
    library.find(reduce, "ncclReduce");
    library.find(broadcast, "ncclBroadcast");
    library.find(send, "ncclSend");
    library.find(receive, "ncclRecv");
    library.find(begin_group, "ncclGroupStart");
    library.find(end_group, "ncclGroupEnd");
  }
  void ask(ncclResult_t answer, const std::string& what) const {
    if (answer != ncclSuccess && answer != ncclInProgress) throw GpuError("NCCL: " + what + ": " + text(answer));
  }
  ncclUniqueId made() const {
    ncclUniqueId name;
    ask(found(&name), "a communicator could not be founded");
    return name;
  }
  /// The same for all members of a group: whoever comes first makes it, and with several nodes the group's first member.
  ncclUniqueId name_of(const Key& key, int me) {
    if (!nodes) {
      const std::lock_guard lock(mutex);
      const auto [at, is_new] = names.try_emplace(key);
      if (is_new) at->second = made();
      return at->second;
    }
    const auto [first, stride, size, lane] = key;
    std::string words = "communicator";
    for (const int number : {first, stride, size, int(lane)}) words += " " + std::to_string(number);
    if (me == 0) {
      const ncclUniqueId name = made();
      nodes->put(words, std::string(name.internal, sizeof name.internal));
    }
    ncclUniqueId name;
    nodes->get(words).copy(name.internal, sizeof name.internal);
    return name;
  }
};

struct NcclFabric::Communicators {
  std::map<Nccl::Loaded::Key, ncclComm_t> all;
  std::string last = "no collective";  // for errors
  bool aborted = false;
};

namespace {

ncclDataType_t type_of(Dtype type) {
  constexpr ncclDataType_t types[] = {ncclFloat32, ncclBfloat16, ncclFloat16, ncclInt64, ncclUint8, ncclInt8};
  return types[unsigned(type)];
}

/// Until the communicator has done on the host what it was asked for.
void settle(const Nccl::Loaded& nccl, ncclComm_t comm, const std::function<void()>& watch, const std::string& what) {
  for (ncclResult_t state = ncclInProgress; state == ncclInProgress; std::this_thread::yield()) {
    nccl.ask(nccl.state(comm, &state), what);
    nccl.ask(state, what);
    watch();
  }
}

}  // namespace

Nccl::Nccl(Rendezvous* nodes) : loaded_(std::make_unique<Loaded>(nodes)) {}
Nccl::~Nccl() = default;

NcclFabric::NcclFabric(CudaDevice& device, IssueOrder& order, Nccl& nccl, std::function<void()> watch)
    : Fabric(device, order),
      device_(device),
      nccl_(nccl),
      watch_(std::move(watch)),
      communicators_(std::make_unique<Communicators>()) {}

NcclFabric::~NcclFabric() {
  if (communicators_->aborted) return;
  for (const auto& [key, comm] : communicators_->all) (void)nccl_.loaded().leave(comm);
}

void NcclFabric::abort() noexcept {
  if (std::exchange(communicators_->aborted, true)) return;
  for (const auto& [key, comm] : communicators_->all) (void)nccl_.loaded().abort(comm);
}

const std::string& NcclFabric::last() const { return communicators_->last; }

void NcclFabric::look_for_errors() {
  const Nccl::Loaded& nccl = nccl_.loaded();
  for (const auto& [key, comm] : communicators_->all) {
    ncclResult_t state = ncclSuccess;
    nccl.ask(nccl.state(comm, &state), communicators_->last);
    nccl.ask(state, "another rank or the network is gone; the last collective was " + communicators_->last);
  }
}

void NcclFabric::enqueue(const Collective& o) {
  Nccl::Loaded& nccl = nccl_.loaded();
  const std::string what = std::string(name_of(o.verb)) + "(unit " + std::to_string(o.label.unit) + ")";
  communicators_->last = what;
  device_.enqueue_collective(o, [&](Stream& on) {
    if (!device_.numerics()) return;
    const Numbers from = numbers(o.from), to = o.to ? numbers(o.to) : Numbers{};
    const Nccl::Loaded::Key key{o.group.first, o.group.stride, o.group.size, o.lane};
    const auto [at, is_new] = communicators_->all.try_emplace(key, nullptr);
    if (is_new) {
      const ncclUniqueId name = nccl.name_of(key, o.group.me);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      nccl.ask(nccl.join(&at->second, o.group.size, name, o.group.me, &config), what + ", joining the communicator");
      settle(nccl, at->second, watch_, what + ", joining the communicator");
    }
    const ncclComm_t comm = at->second;
    const ncclDataType_t type = type_of(o.whole().dtype());
    const std::size_t whole = std::size_t(size(o.whole())), part = whole / std::size_t(o.group.size);
    ncclResult_t answer = ncclInvalidUsage;
    switch (o.verb) {
      case Verb::all_reduce:
        answer = nccl.all_reduce(from.at, to.at, whole, type, ncclSum, comm, on.handle);
        break;
      case Verb::reduce_scatter:
        answer = nccl.reduce_scatter(from.at, to.at, part, type, ncclSum, comm, on.handle);
        break;
      case Verb::all_gather:
        answer = nccl.all_gather(from.at, to.at, part, type, comm, on.handle);
        break;
      case Verb::reduce:
        answer = nccl.reduce(from.at, to.at, whole, type, ncclSum, o.root, comm, on.handle);
        break;
      case Verb::broadcast:
        answer = nccl.broadcast(from.at, to.at, whole, type, o.root, comm, on.handle);
        break;
      case Verb::all_to_all:
        nccl.ask(nccl.begin_group(), what);
        for (int member = 0; member < o.group.size; ++member) {
          const Numbers received = numbers(o.received(member));
          nccl.ask(nccl.send(from.from(std::int64_t(part) * member).at, part, type, member, comm, on.handle), what);
          nccl.ask(nccl.receive(received.at, std::size_t(received.count), type, member, comm, on.handle), what);
        }
        answer = nccl.end_group();
        break;
      default:
        break;
    }
    nccl.ask(answer, what);
    if (answer == ncclInProgress) settle(nccl, comm, watch_, what);
  });
}

}  // namespace shardsim::cuda

#else

namespace shardsim::cuda {

struct Nccl::Loaded {};
struct NcclFabric::Communicators {
  std::string last;
};
Nccl::Nccl(Rendezvous*) { throw GpuError("this program was built without NCCL's header nccl.h; use fabric: loopback"); }
Nccl::~Nccl() = default;
NcclFabric::NcclFabric(CudaDevice& device, IssueOrder& order, Nccl& nccl, std::function<void()>)
    : Fabric(device, order), device_(device), nccl_(nccl) {}
NcclFabric::~NcclFabric() = default;
const std::string& NcclFabric::last() const { return communicators_->last; }
void NcclFabric::look_for_errors() {}
void NcclFabric::abort() noexcept {}
void NcclFabric::enqueue(const Collective&) {}

}  // namespace shardsim::cuda
#endif
