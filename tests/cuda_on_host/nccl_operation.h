// What one rank brings to an operation of NCCL on the host, and what is done once all have come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "nccl.h"

namespace cuda_on_host::nccl {

enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast, send, receive };
using Link = std::pair<int, int>;  // from and to; of collectives: everyone
constexpr Link everyone{-1, -1};

// What one rank brings to an operation.
struct Part {
  Kind kind;
  const void* send;
  void* receive;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int peer;  // or root
  int rank = 0;
  Link link = everyone;
  std::uint64_t turn = 0;  // which operation of its link it is
  bool done = false;

  bool is_message() const { return kind == Kind::send || kind == Kind::receive; }
};

/// Whether the library would take it from this rank; arrays may overlap only as it allows.
bool is_valid(const Part& part, int rank, int size);

/// Whether two that meet are parts of one operation.
bool agree(const Part& a, const Part& b);

/// Reads and writes the arrays of all ranks. `parts`: every rank's of a collective, or a send and
/// its receive, in any order.
void perform(std::vector<Part*> parts);

}  // namespace cuda_on_host::nccl
