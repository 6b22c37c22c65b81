// Digests of a replica's parameters, as a whole and block by block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/base/hash.h"

namespace ringside {

/// The elements of a block. Blocks tell where two replicas differ. There are at most 256, of equal
/// size but for the last, so that shards of a few ranks hold whole blocks and a record stays short.
std::int64_t elements_of_block(std::int64_t parameters);

/// Takes the bytes of a replica's parameters in unit order, in pieces of any length.
class ParameterDigest {
 public:
  /// Of `parameters` elements with this many bytes each.
  ParameterDigest(std::int64_t parameters, std::size_t element_bytes);
  void add(std::span<const std::byte> bytes);

  /// XXH3-128 of all bytes, 32 hexadecimal digits.
  std::string whole() const { return whole_.digest(); }
  /// The first 8 digits of the hash of each block, one after the other. After the last add().
  const std::string& blocks();

 private:
  std::size_t block_bytes_, in_block_ = 0;
  Hash whole_;
  std::optional<Hash> block_;  // of the block that is not complete
  std::string blocks_;
};

}  // namespace ringside
