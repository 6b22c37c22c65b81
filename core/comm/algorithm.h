// The names of the algorithms for collectives.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/named_enum.h"

namespace ringside {

/// `native` is whatever the communicator does by itself: one pass through shared memory, NCCL, or
/// the model of one of them. `automatic` takes one of the others for each collective, the fastest
/// by a cost model (peer/comm/algorithms/choice.h), and `native` where ranks share the memory of
/// a CPU. `library` is `native` but for the all_reduce between hosts: that of the library which
/// moves bytes between hosts, in whatever order it adds up. The others are programs of messages
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
