// Operations of the NCCL double: the contribution of each rank, and the work once all ranks have
// arrived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "nccl.h"

namespace cuda_on_host::nccl {

enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast, send, receive };
using Link = std::pair<int, int>;  // (from, to) for messages; `everyone` for collectives
constexpr Link everyone{-1, -1};

// The contribution of one rank to an operation.
struct Part {
  Kind kind;
  const void* send;
  void* receive;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int peer;  // the other rank of a message, or the root of a broadcast
  int rank = 0;
  Link link = everyone;
  std::uint64_t turn = 0;  // the number of the operation among those of its link, from 0
  bool done = false;

  bool is_message() const { return kind == Kind::send || kind == Kind::receive; }
};

/// Whether NCCL accepts this part from rank `rank` of `size` ranks. The arrays of a part may
/// overlap only in the ways that NCCL allows.
bool is_valid(const Part& part, int rank, int size);

/// Whether two parts with the same link and turn belong to one operation.
bool agree(const Part& a, const Part& b);

/// Carries out an operation: reads and writes the arrays of all its ranks. `parts` are the parts of
/// all ranks of a collective, or a send and its receive, in any order.
void perform(std::vector<Part*> parts);

}  // namespace cuda_on_host::nccl
