// The placement of servers, and the part of the model that each keeps.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/named_enum.h"

namespace ringside::ps {

/// The processes of servers: their own (dedicated), those of workers (beside), or both. Mixed has
/// one server beside every worker, and dedicated ones (BytePS; Jiang et al., OSDI 2020).
enum class Placement : std::uint8_t { dedicated, beside, mixed };
inline constexpr std::string_view placement_names[] = {"dedicated", "beside", "mixed"};
constexpr EnumNames names_of(Placement) { return placement_names; }

/// The numbers of all servers and of those beside workers (core/plan/places.h chooses the workers);
/// servers from number `beside` on are dedicated. Each `group` consecutive workers push as one.
struct ServerCounts {
  std::int64_t all = 0, beside = 0;
  int group = 1;
  std::int64_t dedicated() const { return all - beside; }
};

/// `servers` is the scheme's option: the number of all servers, but with mixed that of the
/// dedicated ones alone.
ServerCounts count_servers(Placement placement, std::int64_t servers, int world);

/// The relative sizes of the servers' parts of the model. Equal, except with mixed. There, with n
/// workers and k dedicated servers (k <= n), a dedicated one keeps 2(n - 1) parts of n^2 + kn - 2k,
/// and one beside a worker keeps n - k. Every link is then equally busy (section 4.1 of the paper):
/// without dedicated servers this is `beside` with n servers, and with k = n all values lie on
/// dedicated ones. One worker alone keeps all values itself. Where workers push in groups of
/// `group`, which divides their number, n is the number of groups: the servers beside the workers
/// of a group together keep n - k parts, and the links are those of the groups' machines.
std::vector<std::int64_t> shares_of_servers(Placement placement, std::int64_t servers, int world,
                                            int group = 1);

}  // namespace ringside::ps
