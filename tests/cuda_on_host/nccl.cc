// NCCL on the host: the library's functions.
#include "nccl.h"

#include <algorithm>
#include <cstring>

#include "tests/cuda_on_host/nccl_clique.h"

using namespace cuda_on_host::nccl;

struct ncclComm {
  MemberPtr member;
};

namespace {

struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Launch> launches;
  std::vector<MemberPtr> begun;  // members whose calls in this group may still be in progress
};

struct Ids {
  std::mutex mutex;
  int made = 0;
  // By id; only the cliques that some ranks have not joined yet.
  std::map<std::string, std::shared_ptr<Clique>> cliques;
};

Ids& ids() {
  static Ids ids;
  return ids;
}

thread_local Group group;
thread_local std::string last_error;

ncclResult_t fail(ncclResult_t result, const char* text) {
  last_error = text;
  if (group.depth > 0 && group.error == ncclSuccess) group.error = result;
  return result;
}

// If the communicator may be used, calls body() while it holds the clique's mutex.
template <class Body>
ncclResult_t use(const MemberPtr& member, const Body& body) {
  const std::lock_guard lock(member->clique->mutex);
  const Refusal refusal = refusal_of(*member);
  if (refusal.result != ncclSuccess) return fail(refusal.result, refusal.cause);
  body(*member, *member->clique);
  return ncclSuccess;
}

ncclResult_t add(ncclComm_t comm, cudaStream_t stream, const Part& part) {
  if (!comm) return fail(ncclInvalidArgument, "no communicator");
  if (!is_valid(part, comm->member->rank, comm->member->clique->size))
    return fail(ncclInvalidArgument, "wrong rank, type, reduction or array");
  if (part.count == 0 && !part.is_message()) return ncclSuccess;
  auto launch = std::find_if(group.launches.begin(), group.launches.end(),
                             [&](const Launch& each) { return each.member == comm->member; });
  if (launch == group.launches.end())
    launch = group.launches.insert(launch, {comm->member, stream, {}});
  if (launch->stream != stream) return fail(ncclInvalidUsage, "two streams in one group");
  launch->parts.push_back(part);
  return ncclSuccess;
}

ncclComm_t make_comm(const std::shared_ptr<Clique>& clique, int rank, bool blocking) {
  return new ncclComm{std::make_shared<Member>(Member{clique, rank, blocking})};
}

// Calls body() in the group that the caller has begun, or in a group of its own if there is none.
template <class Body>
ncclResult_t grouped(const Body& body) {
  ncclGroupStart();
  const auto result = body();
  const auto end = ncclGroupEnd();
  return result != ncclSuccess ? result : end;
}

bool is_blocking(const ncclConfig_t* config, bool otherwise) {
  if (!config || config->blocking == NCCL_CONFIG_UNDEF_INT) return otherwise;
  return config->blocking != 0;
}

bool is_initialized(const ncclConfig_t* config) {
  return !config || (config->magic == 0xcafebeef && config->size == sizeof(ncclConfig_t));
}

ncclResult_t join(ncclComm_t* comm, int size, const std::string& id, int rank, bool blocking) {
  const std::lock_guard guard(ids().mutex);
  const auto found = ids().cliques.find(id);
  if (found == ids().cliques.end())
    return fail(ncclInvalidArgument, "the id is unknown, or all its ranks have joined already");
  const auto clique = found->second;
  const std::lock_guard lock(clique->mutex);
  if (clique->joined.empty()) clique->size = size;
  if (clique->size != size || !clique->joined.insert(rank).second) {
    clique->error = ncclInvalidUsage;
    clique->changed.notify_all();
    return fail(ncclInvalidUsage, "ranks differ in the size of the group, or a rank joined twice");
  }
  if (static_cast<int>(clique->joined.size()) == size) {
    clique->formed = true;
    ids().cliques.erase(found);
  }
  *comm = make_comm(clique, rank, blocking);
  begin(
      *(*comm)->member, [clique = clique.get()] { return clique->formed; }, [] {});
  group.begun.push_back((*comm)->member);
  return ncclSuccess;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  if (!version) return fail(ncclInvalidArgument, "nowhere to write the version");
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (!id) return fail(ncclInvalidArgument, "nowhere to write the id");
  const std::lock_guard lock(ids().mutex);
  const auto text = "clique " + std::to_string(ids().made++);
  *id = {};
  std::memcpy(id->internal, text.data(), text.size());
  ids().cliques[std::string(id->internal, sizeof id->internal)] = std::make_shared<Clique>();
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (!comm || size < 1 || rank < 0 || rank >= size || !is_initialized(config))
    return fail(ncclInvalidArgument, "wrong rank, size or configuration");
  const std::string name(id.internal, sizeof id.internal);
  return grouped([&] { return join(comm, size, name, rank, is_blocking(config, true)); });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, size, id, rank, nullptr);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* child,
                           ncclConfig_t* config) {
  if (!comm || !child || color < NCCL_SPLIT_NOCOLOR || !is_initialized(config))
    return fail(ncclInvalidArgument, "wrong communicator, color or configuration");
  return grouped([&] {
    return use(comm->member, [&](Member& member, Clique& parent) {
      *child = nullptr;
      Split& split = parent.splits[member.splits++];
      split.wishes[member.rank] = {color, key};
      const bool blocking = is_blocking(config, member.blocking);
      begin(
          member, [&parent, &split] { return has_split(parent, split); },
          [&split, child, color, blocking, rank = member.rank] {
            if (color == NCCL_SPLIT_NOCOLOR) return;
            *child = make_comm(split.children[color], rank_in_split(split, rank), blocking);
          });
      group.begun.push_back(comm->member);
    });
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (!comm) return fail(ncclInvalidArgument, "no communicator");
  return grouped([&] {
    return use(comm->member, [&](Member& member, Clique& clique) {
      member.finalized = true;
      ++clique.finalized;
      begin(
          member, [&clique] { return clique.finalized == clique.size && clique.unfinished == 0; },
          [] {});
      group.begun.push_back(comm->member);
    });
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!comm) return ncclSuccess;
  const MemberPtr member = comm->member;
  Clique& clique = *member->clique;
  std::unique_lock lock(clique.mutex);
  if (member->ready) return fail(ncclInvalidUsage, "a call on the communicator is in progress");
  clique.changed.wait(lock, [&] { return member->unfinished == 0 || clique.error != ncclSuccess; });
  if (clique.error != ncclSuccess)
    return fail(clique.error, "the communicator has failed: abort it");
  if (!member->finalized) ++clique.finalized;
  clique.changed.notify_all();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (!comm) return ncclSuccess;
  const MemberPtr member = comm->member;
  const std::lock_guard lock(member->clique->mutex);
  leave(*member);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (!comm || !error) return fail(ncclInvalidArgument, "no communicator");
  const std::lock_guard lock(comm->member->clique->mutex);
  *error = state_of(*comm->member);
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  if (!comm || !count) return fail(ncclInvalidArgument, "no communicator");
  return use(comm->member, [&](Member&, Clique& clique) { *count = clique.size; });
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  if (!comm || !rank) return fail(ncclInvalidArgument, "no communicator");
  return use(comm->member, [&](Member& member, Clique&) { *rank = member.rank; });
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return fail(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (group.depth > 1) {
    --group.depth;
    return ncclSuccess;
  }
  for (Launch& launch : group.launches) {
    if (group.error != ncclSuccess) break;
    use(launch.member, [&](Member& member, Clique&) {
      start(std::make_shared<Launch>(launch));
      if (member.ready) group.begun.push_back(launch.member);
    });
  }
  const Group ended = std::exchange(group, {});
  if (ended.error != ncclSuccess) return ended.error;
  auto result = ncclSuccess;
  for (const MemberPtr& member : ended.begun) {
    if (!member->blocking) {
      result = ncclInProgress;
      continue;
    }
    Clique& clique = *member->clique;
    std::unique_lock lock(clique.mutex);
    clique.changed.wait(
        lock, [&] { return member->aborted || clique.error != ncclSuccess || member->ready(); });
    if (member->aborted) return ncclInternalError;
    if (const auto state = state_of(*member); state != ncclSuccess) return state;
  }
  return result;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return grouped([&] {
    return add(comm, stream, {Kind::all_reduce, send, receive, count, type, op, 0});
  });
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t receive_count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return grouped([&] {
    return add(comm, stream, {Kind::reduce_scatter, send, receive, receive_count, type, op, 0});
  });
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t send_count,
                           ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return grouped([&] {
    return add(comm, stream, {Kind::all_gather, send, receive, send_count, type, ncclSum, 0});
  });
}

ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return grouped([&] {
    return add(comm, stream, {Kind::broadcast, send, receive, count, type, ncclSum, root});
  });
}

ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return grouped([&] {
    return add(comm, stream, {Kind::send, send, nullptr, count, type, ncclSum, peer});
  });
}

ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return grouped([&] {
    return add(comm, stream, {Kind::receive, nullptr, receive, count, type, ncclSum, peer});
  });
}
