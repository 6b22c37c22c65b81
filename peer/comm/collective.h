// Operations of a group, and the texts of errors about them, equal for every communicator.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/named_enum.h"
#include "core/base/traffic.h"
#include "core/comm/communicator.h"

namespace ringside::peer {

/// A collective operation, as one rank calls it. Plain data, because it may lie in memory that
/// processes share.
struct Collective {
  enum class Kind : std::uint32_t {
    all_reduce,
    reduce_scatter,
    all_gather,
    broadcast,
    all_to_all,
    barrier,
    split,
    expose,
    share
  };
  Kind kind = Kind::barrier;
  std::int32_t root = 0;
  std::uint64_t bytes = 0;           // of the whole array
  std::int32_t colour = 0, key = 0;  // of a split
};

inline constexpr std::string_view call_names[] = {"all_reduce", "reduce_scatter", "all_gather",
                                                  "broadcast",  "all_to_all",     "barrier",
                                                  "split",      "expose",         "share"};
constexpr EnumNames names_of(Collective::Kind) { return call_names; }

/// Whether two ranks called the same operation, that is whether kind, bytes and root are equal.
bool agree(const Collective& a, const Collective& b);
/// Whether the devices of the ranks send each other the elements of arrays.
constexpr bool moves_data(const Collective& call) {
  using enum Collective::Kind;
  return call.bytes > 0 &&
         (call.kind == all_reduce || call.kind == reduce_scatter || call.kind == all_gather ||
          call.kind == broadcast || call.kind == all_to_all);
}

/// The bytes that rank `rank` of a group of `size` sends and receives, by closed forms; an element
/// has `element` bytes.
Traffic traffic_of(const Collective& call, int rank, int size, std::size_t element);

/// The group of the ranks that gave this colour in a split, ordered by (key, rank), as `rank` of
/// `parent` sees it. The split was operation `number` of `parent`; `calls` are the calls of all
/// ranks.
Group group_of_colour(const std::string& parent, std::uint64_t number,
                      const std::vector<Collective>& calls, int colour, int rank);

/// Returns for instance "all_reduce of 4096 bytes".
std::string describe(const Collective& call);
/// Returns for instance "operation 3 (all_reduce of 4096 bytes)".
std::string describe(std::uint64_t number, const Collective& call);

/// Lists the ranks for which `which` is true: "rank 2 of 4", "ranks 1, 2 of 4"; empty if there are
/// none.
std::string list_ranks(int size, const std::function<bool(int)>& which);

// Texts of errors. `who` is a text of list_ranks().

std::string did_not_join(const std::string& group, const std::string& who, double timeout_s);
std::string ended_before(const std::string& group, const std::string& who, std::uint64_t number,
                         const Collective& call);
std::string did_not_come(const std::string& group, const std::string& who, std::uint64_t number,
                         const Collective& call, double timeout_s);
std::string ended_during(const std::string& group, const std::string& who, std::uint64_t number,
                         const Collective& call);
std::string did_not_end(const std::string& group, const std::string& who, std::uint64_t number,
                        const Collective& call, double timeout_s);
std::string did_not_go_on(const std::string& group, const std::string& who, std::uint64_t number,
                          const Collective& call, double timeout_s);
/// The text for two ranks that called different operations.
std::string disagreement(const std::string& group, std::uint64_t number, int rank,
                         const Collective& call, int other_rank, const Collective& other);

/// The identity of one message between two ranks of a group.
struct MessageName {
  std::uint64_t number = 0;  // counted from 1 for each pair and direction
  int from = 0, to = 0;
};
/// The text for a message that failed because `peer`, one of its two ranks, ended too early
/// (`gone`) or did not come within `timeout_s` (not `gone`).
std::string missed_message(const std::string& group, int size, const MessageName& message,
                           std::uint64_t bytes, int peer, bool gone, double timeout_s);
/// The text for a message whose sender and receiver gave different sizes.
std::string unequal_message(const std::string& group, const MessageName& message,
                            std::uint64_t sent, std::uint64_t received);

}  // namespace ringside::peer
