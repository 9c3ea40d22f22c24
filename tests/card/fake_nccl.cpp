// NCCL as far as the backend calls it: collectives that move nothing, and end, are refused, or do not end. The library that the
// backend finds under NCCL's name when a run begins.
#include <unistd.h>

#include <csignal>
#include <vector>

#include "backends/cuda/nccl_header.h"
#include "card/fake_card.h"
#include "card/fake_stream.h"

using shardsim::test::comes_to;
using shardsim::test::fake_card;
using shardsim::test::FakeStream;

struct ncclComm {
  std::vector<FakeStream*> kept_busy;
};

namespace {

ncclResult_t collective(ncclComm_t comm, cudaStream_t stream) {
  if (comes_to(fake_card().collectives_until_refusal)) return ncclInvalidArgument;
  if (comes_to(fake_card().collectives_until_signal)) (void)raise(fake_card().signal);
  if (comes_to(fake_card().collectives_until_silence)) {
    ++fake_card().collectives_until_silence;  // and so are all that follow
    comm->kept_busy.push_back(reinterpret_cast<FakeStream*>(stream));
    comm->kept_busy.back()->busy = true;
  }
  return ncclSuccess;
}

}  // namespace

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error" : "invalid argument";
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* name) {
  *name = {};
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int, ncclUniqueId, int, ncclConfig_t*) {
  *comm = new ncclComm;
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = fake_card().others_are_gone && !comm->kept_busy.empty() ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  ++fake_card().aborted;
  for (FakeStream* stream : comm->kept_busy) stream->busy = false;
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream);
}
ncclResult_t ncclReduceScatter(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream);
}
ncclResult_t ncclAllGather(const void*, void*, size_t, ncclDataType_t, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream);
}
ncclResult_t ncclReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream);
}
ncclResult_t ncclBroadcast(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream);
}
ncclResult_t ncclSend(const void*, size_t, ncclDataType_t, int, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream);
}
ncclResult_t ncclRecv(void*, size_t, ncclDataType_t, int, ncclComm_t comm, cudaStream_t stream) { return collective(comm, stream); }
ncclResult_t ncclGroupStart() { return ncclSuccess; }
ncclResult_t ncclGroupEnd() { return ncclSuccess; }

}  // extern "C"
