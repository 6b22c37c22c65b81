// The names of the algorithms for collectives.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/named_enum.h"

namespace ringside {

/// `native` is the communicator's own way: one pass through shared memory, NCCL, or the model of
/// one of them. `automatic` chooses the fastest of the algorithms of messages for each collective
/// by a cost model (peer/comm/algorithms/choice.h), and `native` where ranks share the memory of a
/// CPU. `library` is `native`, except that an all_reduce between hosts is that of the library which
/// moves the bytes, in the library's order of sums. All others are programs of messages
/// (peer/comm/algorithms).
enum class Algorithm : std::uint8_t {
  native,
  ring,
  tree,
  recursive_doubling,
  halving_doubling,
  hierarchical,
  naive,
  automatic,
  library
};
inline constexpr std::string_view algorithm_names[] = {
    "native", "ring", "tree",   "recursive-doubling", "halving-doubling", "hierarchical",
    "naive",  "auto", "library"};
constexpr EnumNames names_of(Algorithm) { return algorithm_names; }

constexpr bool is_program_of_messages(Algorithm algorithm) {
  return algorithm != Algorithm::native && algorithm != Algorithm::automatic &&
         algorithm != Algorithm::library;
}

}  // namespace ringside
