// PositionTable: a learned vector for each position of a sample. See core/nn/layers.h for what all
// layers do.
#pragma once

#include <string>

#include "core/nn/unit.h"

namespace ringside {

/// For values that are not looked up in a table of tokens (Embedding has positions of its own),
/// such as the patches of an image (Dosovitskiy et al. 2021). Parameter: "NAME" [positions, width].
class PositionTable {
 public:
  PositionTable(Unit& unit, const std::string& name, std::int64_t positions, std::int64_t width,
                Init init);

  /// Adds the table to every sample of x [B * positions, width].
  void forward(const Tensor& x);
  /// `dy` is the gradient of both x and the sum. The table's gradient is the sum of those of all
  /// samples, in fp32 whatever the dtype.
  void backward(const Tensor& dy, Saved& saved);

 private:
  void add_up(const Tensor& dy) const;

  Unit& unit_;
  std::size_t table_;
};

}  // namespace ringside
