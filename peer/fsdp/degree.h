// The degree of sharding: which parts of a model's state ranks divide among themselves.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/named_enum.h"

namespace ringside::peer {

/// Degrees of sharding, by the names of PyTorch. The stages are those of ZeRO (Rajbhandari et al.,
/// SC'20, section 5); the hybrid degrees are those of Zhao et al. (VLDB 2023, section 3.2.2), which
/// shard within a group of ranks and keep a replica in every group.
enum class Shard : std::uint8_t {
  no_shard,         // every rank keeps everything
  shard_optimizer,  // stage 1: optimizer state is sharded
  shard_grad_op,    // stage 2: gradients too
  full_shard,       // stage 3: parameters too
  on_demand,        // stage 3, without collectives: every rank serves its shard
                    // (peer/fsdp/shard_carrier.cc)
  hybrid_shard,     // stage 3, 2 and 1 within each group
  hybrid_shard_zero2,
  hybrid_shard_zero1
};
inline constexpr std::string_view shard_names[] = {
    "no_shard",  "shard_optimizer", "shard_grad_op",      "full_shard",
    "on_demand", "hybrid_shard",    "hybrid_shard_zero2", "hybrid_shard_zero1"};
constexpr EnumNames names_of(Shard) { return shard_names; }

/// Whether ranks of a group keep only their shards of parameters between forward and backward.
bool shards_parameters(Shard shard);

/// What a degree means at some world.
struct Degree {
  /// The number of consecutive ranks that share one model's optimizer state; divides the world.
  int group = 1;
  /// Whether the group shards gradients and parameters as well. In a group of one rank nothing is
  /// sharded: both are false.
  bool gradients = false, parameters = false;
  /// Whether shards move on demand, and not by collectives.
  bool on_demand = false;
};

/// `shard_group` is the option of that name: 0 stands for all ranks. A group larger than the world
/// is lowered to the world.
Degree degree_of(Shard shard, std::int64_t shard_group, int world);

/// Throws Error for a group that the degree cannot have, or that does not divide the world.
/// `scheme` is the scheme whose options these are.
void check_degree(const std::string& scheme, Shard shard, std::int64_t shard_group, int world);

}  // namespace ringside::peer
