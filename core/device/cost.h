// What an operation costs: read off its operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/device/ops.h"

namespace ringside {

/// Operations of one class reach about the same share of a device's roofline.
enum class OpClass : std::uint8_t {
  linear,  // matrix products of layers
  attention,
  normalisation,
  elementwise,  // add, copy, fill
  optimizer,
  embedding,
  loss
};
inline constexpr std::size_t op_classes = 7;
std::string_view name_of(OpClass kind);

/// Floating-point operations, and bytes that must be read and written at least once. Of linear
/// layers and attention the products alone count: M in out multiplications and additions for each
/// of one product in forward and two in backward; 2 B H D for each pair of a query and a key that
/// it may look at, 2 products in forward and 5 in backward (which computes the scores again). Of
/// the rest, what stands in the formula, a root or an exponential being one.
struct OpCost {
  OpClass kind = OpClass::elementwise;
  double operations = 0;
  double bytes = 0;
};

OpCost cost(const Fill&);
OpCost cost(const Copy&);
OpCost cost(const Add&);
OpCost cost(const Cast&);
OpCost cost(const SumOfSquares&);
OpCost cost(const AdamW&);
OpCost cost(const Sgd&);
OpCost cost(const LinearForward&);
OpCost cost(const LinearBackward&);
OpCost cost(const EmbeddingForward&);
OpCost cost(const EmbeddingBackward&);
OpCost cost(const LayerNormForward&);
OpCost cost(const LayerNormBackward&);
OpCost cost(const AttentionForward&);
OpCost cost(const AttentionBackward&);
OpCost cost(const CrossEntropy&);

}  // namespace ringside
