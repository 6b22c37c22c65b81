// The ranks of a communicator of NCCL on the host, and the operations that they meet in.
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

/// One ncclCommSplit of all ranks.
struct Split {
  struct Wish {
    int color, key;
  };
  std::map<int, Wish> wishes;                       // by rank
  std::map<int, std::shared_ptr<Clique>> children;  // by color, once all wishes are known
};

/// What all ranks of a communicator share.
struct Clique {
  std::mutex mutex;
  std::condition_variable changed;
  int size = 0;
  std::set<int> joined;
  bool formed = false;
  ncclResult_t error = ncclSuccess;
  std::map<Link, std::set<int>> callers;  // who has called an operation of the link
  std::map<std::pair<Link, std::uint64_t>, std::vector<Part*>> meetings;
  std::map<int, Split> splits;
  int finalized = 0, unfinished = 0;
};

/// One rank of a clique. All but the first line is guarded by the clique's mutex, which the caller
/// of the functions below holds.
struct Member {
  const std::shared_ptr<Clique> clique;
  const int rank;
  const bool blocking;
  bool aborted = false, finalized = false;
  int unfinished = 0;  // tasks
  int splits = 0;
  std::set<Link> links{};
  std::map<std::pair<Link, bool>, std::uint64_t> turns{};  // of sends, and of all else
  std::function<bool()> ready{};  // whether what is in progress can end; empty if nothing is
  std::function<void()> end{};
};
using MemberPtr = std::shared_ptr<Member>;

/// A rank's operations of one group: a task of the stream.
struct Launch {
  MemberPtr member;
  cudaStream_t stream;
  std::vector<Part> parts;
};

/// Leaves the member in progress until state_of() finds it ready, and calls `end`.
void begin(Member& member, std::function<bool()> ready, std::function<void()> end);

ncclResult_t state_of(Member& member);

/// Why no call may use it now; empty if one may.
struct Refusal {
  ncclResult_t result = ncclSuccess;
  const char* cause = "";
};
Refusal refusal_of(const Member& member);

/// Enqueues, or begins to connect the ranks that have not been connected. Of a member that may be
/// used.
void start(const std::shared_ptr<Launch>& launch);

/// Takes the member out of all that it waits for.
void leave(Member& member);

/// Whether all have said what they wish; the first to know makes the cliques.
bool has_split(const Clique& parent, Split& split);

/// The rank within the child that the parent's rank becomes one of.
int rank_in_split(const Split& split, int rank);

}  // namespace cuda_on_host::nccl
