// The placement of servers, and the part of the model that each keeps.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/named_enum.h"

namespace ringside::ps {

/// The processes of servers: their own (dedicated), those of workers (colocated), or both. Mixed
/// has one server colocated with every worker, and dedicated ones (BytePS; Jiang et al., OSDI
/// 2020).
enum class Placement : std::uint8_t { dedicated, colocated, mixed };
inline constexpr std::string_view placement_names[] = {"dedicated", "colocated", "mixed"};
constexpr EnumNames names_of(Placement) { return placement_names; }
inline constexpr OldName old_placement_names[] = {{"beside", "colocated"}};
constexpr std::span<const OldName> old_names_of(Placement) { return old_placement_names; }

/// The numbers of all servers and of those colocated with workers (core/plan/places.h chooses the
/// workers); servers from number `colocated` on are dedicated. Each `group` consecutive workers
/// push as one.
struct ServerCounts {
  std::int64_t all = 0, colocated = 0;
  int group = 1;
  std::int64_t dedicated() const { return all - colocated; }
};

/// `servers` is the scheme's option: the number of all servers, but with mixed that of the
/// dedicated ones alone.
ServerCounts count_servers(Placement placement, std::int64_t servers, int world);

/// The relative sizes of the servers' parts of the model. Equal, except with mixed. There, with n
/// workers and k dedicated servers (k <= n), a dedicated one keeps 2(n - 1) parts of n^2 + kn - 2k,
/// and one colocated with a worker keeps n - k. Every link is then equally busy (section 4.1 of
/// BytePS): without dedicated servers this is `colocated` with n servers, and with k = n all values
/// lie on dedicated ones. One worker alone keeps all values itself. Where workers push in groups of
/// `group`, which divides their number, n is the number of groups: the servers colocated with the
/// workers of a group together keep n - k parts, and the links are those of the groups' machines.
std::vector<std::int64_t> shares_of_servers(Placement placement, std::int64_t servers, int world,
                                            int group = 1);

}  // namespace ringside::ps
