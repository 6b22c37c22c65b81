// Parameters in 8 bits: what ranks gather, and compute with, in place of the values that they keep.
#pragma once

#include <cstdint>
#include <memory>

#include "core/device/device.h"
#include "core/scheme/scheme.h"

namespace ringside::peer {

/// Codes of a rank's shards (qwZ of ZeRO++: Wang et al., ICLR 2024, section 3.1): each element
/// becomes the nearest multiple of 1/127 of the largest absolute value of its block. Blocks of
/// `block` elements begin with the shard. A shard of n elements takes n + 4 n / block bytes, both
/// parts rounded up.
class WeightCodes {
 public:
  WeightCodes(Device& device, std::int64_t block) : device_(device), block_(block) {}

  /// The bytes of a shard's code, a multiple of 4.
  std::int64_t bytes(std::int64_t count) const;
  /// Writes the code of a shard of any floating-point dtype. Enqueued, as is decode().
  void encode(const Tensor& shard, const Tensor& code) const;
  /// Writes what the code stands for, rounded to the dtype of the shard.
  void decode(const Tensor& code, const Tensor& shard) const;

 private:
  Tensor norms(std::int64_t count, const Tensor& code) const;
  Tensor elements(std::int64_t count, const Tensor& code) const;

  Device& device_;
  std::int64_t block_;
};

/// The part of a definition that computes with what is left of parameters when `ranks` ranks have
/// sent each other the codes of their shards: forward and backward have these values, and updates
/// and visitors those of `inner`, which keeps a whole replica (core/scheme/single.h). FSDP units
/// have at least `least` parameters.
std::unique_ptr<SyncScheme> with_quantised_weights(const RankContext& context,
                                                   std::unique_ptr<SyncScheme> inner, int ranks,
                                                   std::int64_t least, std::int64_t block);

}  // namespace ringside::peer
