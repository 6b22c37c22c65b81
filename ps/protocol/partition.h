// The partition of a model over servers.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/named_enum.h"
#include "core/models/model.h"

namespace ringside::ps {

/// Elements [begin, begin + count) of the model's flat parameters. A chunk lies in one unit. Of
/// every `group` consecutive workers, the one with number `member` pushes and pulls it.
struct Chunk {
  std::size_t unit = 0;
  std::int64_t begin = 0, count = 0;
  int server = 0;
  int group = 1, member = 0;

  bool is_of(int worker) const { return worker % group == member; }
  bool operator==(const Chunk&) const = default;
};

/// The pieces that are given to servers: single chunks; or whole tensors, the largest first
/// (TensorFlow's GreedyLoadBalancingStrategy); or tensor i to server i mod s (the default of
/// TensorFlow's replica_device_setter).
enum class PartitionBy : std::uint8_t { parts, tensors, round_robin };
inline constexpr std::string_view partition_by_names[] = {"parts", "tensors", "round_robin"};
constexpr EnumNames names_of(PartitionBy) { return partition_by_names; }

/// The largest size of a chunk in fp32, because frames of 1 MB travel fastest. With
/// another dtype a chunk has the same elements, but another number of bytes.
inline constexpr std::int64_t max_chunk_bytes = 1 << 20;

/// Cuts every unit into as few chunks as possible, each of at most `max_bytes` in fp32. The chunks
/// of a unit are nearly equal and begin at multiples of 16 elements within the unit. Then gives
/// each chunk, from the largest to the smallest, to the server with the smallest load after taking
/// it (longest processing time first). A server's load is its number of elements divided by its
/// share. `shares` are relative; a server with share 0 gets nothing, and at least one share is
/// above 0. With s servers the largest load is less than 2 - 2 / (s + 1) times the best possible
/// (Gonzalez, Ibarra and Sahni 1977), with equal shares at most 4/3 times (Graham 1969). No server
/// holds more than its share of all elements plus s - 1 times the largest chunk. Returns the chunks
/// in the order of `begin`, the same on every rank. For n chunks the time is O(n log n + n * s).
std::vector<Chunk> partition(const std::vector<std::int64_t>& unit_counts,
                             const std::vector<std::int64_t>& shares,
                             std::int64_t max_bytes = max_chunk_bytes);
/// Cuts every tensor in the same way, and gives all chunks of a tensor to one server. `tensors` are
/// the sizes of each unit's tensors; `by` is not PartitionBy::parts. Tensors are given out like
/// chunks above, with the same bounds for tensors in place of chunks; or round robin to the servers
/// whose share is above 0, regardless of size.
std::vector<Chunk> partition_tensors(const std::vector<std::vector<std::int64_t>>& tensors,
                                     const std::vector<std::int64_t>& shares, PartitionBy by,
                                     std::int64_t max_bytes = max_chunk_bytes);
/// The same with equal shares.
std::vector<Chunk> partition(const std::vector<std::int64_t>& unit_counts, int servers,
                             std::int64_t max_bytes = max_chunk_bytes);
std::vector<Chunk> partition(const Model& model, const std::vector<std::int64_t>& shares,
                             std::int64_t max_bytes = max_chunk_bytes,
                             PartitionBy by = PartitionBy::parts);
std::vector<Chunk> partition(const Model& model, int servers,
                             std::int64_t max_bytes = max_chunk_bytes);

}  // namespace ringside::ps
