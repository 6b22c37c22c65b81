// The blocks of Inception-v3.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/models/model_config.h"
#include "core/nn/conv_norm.h"

namespace ringside::inception {

/// A convolution with batch norm and relu, as all of the model are.
struct Step {
  std::string name;
  std::int64_t out;
  Kernel2d kernel;
};
ConvNorm make_step(Unit& unit, std::int64_t in, const Step& step);

/// The operations of a branch on the block's input: a pool of 3x3, then the steps of `path` one
/// after the other. If there are `ends`, each of them takes the result of the path, and the branch
/// has their results.
struct Branch {
  enum class Pool : std::uint8_t { none, average, max };  // average at stride 1, max at stride 2
  Pool pool = Pool::none;
  std::vector<Step> path = {}, ends = {};

  /// Channels of all results together, where the block's input has `in`.
  std::int64_t channels(std::int64_t in) const;
};

/// A unit that maps [B, H, W, in] to the results of all branches, joined along the channels in
/// their order.
std::unique_ptr<Unit> make_block(const std::string& name, std::int64_t in,
                                 const std::vector<Branch>& branches, Device& device);

}  // namespace ringside::inception
