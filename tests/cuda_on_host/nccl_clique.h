// The ranks of a double of an NCCL communicator, and their common operations.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nccl.h"
#include "tests/cuda_on_host/nccl_operation.h"

namespace cuda_on_host::nccl {

struct Clique;

/// One ncclCommSplit, which all ranks of a communicator call.
struct Split {
  struct Wish {
    int color, key;
  };
  std::map<int, Wish> wishes;                       // by rank
  std::map<int, std::shared_ptr<Clique>> children;  // by color, once all wishes are known
};

/// The state that all ranks of a communicator share.
struct Clique {
  std::mutex mutex;
  std::condition_variable changed;
  int size = 0;
  std::set<int> joined;
  bool formed = false;
  ncclResult_t error = ncclSuccess;
  std::map<Link, std::set<int>> callers;  // of a link: the ranks that have called an operation
  std::map<std::pair<Link, std::uint64_t>, std::vector<Part*>> meetings;
  std::map<int, Split> splits;
  int finalized = 0, unfinished = 0;
};

/// One rank of a clique. The clique's mutex guards the members that are not const. The caller of
/// the functions below holds this mutex.
struct Member {
  const std::shared_ptr<Clique> clique;
  const int rank;
  const bool blocking;
  bool aborted = false, finalized = false;
  int unfinished = 0;  // launches that have not ended on their streams
  int splits = 0;
  std::set<Link> links{};
  /// How many operations the rank has begun, by link and by whether they are sends.
  std::map<std::pair<Link, bool>, std::uint64_t> turns{};
  /// Whether the call in progress can end; empty if no call is in progress.
  std::function<bool()> ready{};
  std::function<void()> end{};
};
using MemberPtr = std::shared_ptr<Member>;

/// The operations of a rank between ncclGroupStart() and ncclGroupEnd(): one task of the stream.
struct Launch {
  MemberPtr member;
  cudaStream_t stream;
  std::vector<Part> parts;
};

/// Begins a call that stays in progress until state_of() finds that `ready` returns true.
/// state_of() then calls `end`.
void begin(Member& member, std::function<bool()> ready, std::function<void()> end);

ncclResult_t state_of(Member& member);

/// The reason why no call may use a member now; empty if calls may use it.
struct Refusal {
  ncclResult_t result = ncclSuccess;
  const char* cause = "";
};
Refusal refusal_of(const Member& member);

/// Enqueues the launch. If ranks have to be connected for it, begins to connect them, and
/// state_of() enqueues the launch when they are connected. Calls must be allowed to use the member.
void start(const std::shared_ptr<Launch>& launch);

/// Marks the member as aborted. Removes it from all meetings, from the joining of a clique that is
/// not formed yet, and from splits that have no children yet.
void leave(Member& member);

/// Whether all ranks of `parent` have said what they wish. The first call that returns true makes
/// the children.
bool has_split(const Clique& parent, Split& split);

/// The rank that rank `rank` of the parent gets in the child that it joins.
int rank_in_split(const Split& split, int rank);

}  // namespace cuda_on_host::nccl
