// The cost of an operation, derived from its operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/named_enum.h"
#include "core/device/ops.h"

namespace ringside {

/// Classes of operations. Operations of one class reach about the same share of a device's
/// roofline.
enum class OpClass : std::uint8_t {
  linear,  // matrix products of layers
  attention,
  normalisation,        // in rows: layer norm, RMS norm
  batch_normalisation,  // in columns, whose statistics are a pass of their own
  elementwise,          // add, copy, copies of columns, dropout, swiglu, rotary
  optimizer,
  embedding,
  loss,
  convolution,
  grouped_convolution,  // with several groups of channels
  pooling
};
inline constexpr std::size_t op_classes = 11;
inline constexpr std::string_view op_class_names[op_classes] = {
    "linear",    "attention", "normalisation", "batch_normalisation", "elementwise", "optimizer",
    "embedding", "loss",      "convolution",   "grouped_convolution", "pooling"};
constexpr EnumNames names_of(OpClass) { return op_class_names; }

/// Whether operations of this class are products. Products are computed in the dtype of their
/// operands (on tensor cores, if the device has them); all other operations are computed in fp32,
/// whatever dtype their operands have.
bool is_product(OpClass kind);
/// The class whose efficiency is used if that of `kind` was not measured: a convolution with groups
/// counts as one without, a convolution as a product of matrices, a batch norm as another norm,
/// pooling as an elementwise operation. None for other classes.
std::optional<OpClass> stand_in(OpClass kind);

/// Floating-point operations, and bytes that must be read or written at least once. For linear
/// layers, attention and convolutions only the products count. Linear layers and convolutions have
/// one product in forward and two in backward: one for the gradient of the input and one for that
/// of the weight, each of which counts where it is asked for. A product of a linear layer takes
/// rows * in * out multiplications and as many additions; one of a convolution takes B * P * Q * K
/// * R * S * C multiplications (extents as in ops/images.h) and as many additions, where a group
/// with fewer than 32 output channels counts as one with 32. Attention has 2 products in forward
/// and 5 in backward, which computes the scores again; for every pair of a query and a key that the
/// query sees, each product takes 2 * B * H * D operations (B samples, H heads of width D). For all
/// other operations the terms of the operation's formula count; a root or an exponential counts as
/// one operation.
struct OpCost {
  OpClass kind = OpClass::elementwise;
  double operations = 0;
  double bytes = 0;
  DType dtype = DType::f32;  // of activations and parameters
};

OpCost cost(const Fill&);
OpCost cost(const Copy&);
OpCost cost(const Add&);
OpCost cost(const Blend&);
OpCost cost(const Divide&);
OpCost cost(const CompensateDelay&);
OpCost cost(const Cast&);
OpCost cost(const SumOfSquares&);
OpCost cost(const Dropout&);
OpCost cost(const AdamW&);
OpCost cost(const Sgd&);
OpCost cost(const LambMoments&);
OpCost cost(const LambUpdate&);
OpCost cost(const LinearForward&);
OpCost cost(const LinearBackward&);
OpCost cost(const EmbeddingForward&);
OpCost cost(const EmbeddingBackward&);
OpCost cost(const TakeRowsForward&);
OpCost cost(const TakeRowsBackward&);
OpCost cost(const CopyColumns&);
OpCost cost(const LayerNormForward&);
OpCost cost(const LayerNormBackward&);
OpCost cost(const RmsNormForward&);
OpCost cost(const RmsNormBackward&);
OpCost cost(const SwiGluForward&);
OpCost cost(const SwiGluBackward&);
OpCost cost(const Rotary&);
OpCost cost(const AttentionForward&);
OpCost cost(const AttentionBackward&);
OpCost cost(const CrossAttentionForward&);
OpCost cost(const CrossAttentionBackward&);
OpCost cost(const ConvolutionForward&);
OpCost cost(const ConvolutionBackward&);
OpCost cost(const BatchNormStatistics&);
OpCost cost(const BatchNormMerge&);
OpCost cost(const BatchNormForward&);
OpCost cost(const BatchNormReduce&);
OpCost cost(const BatchNormBackward&);
OpCost cost(const MaxPoolForward&);
OpCost cost(const MaxPoolBackward&);
OpCost cost(const AverageWindowsForward&);
OpCost cost(const AverageWindowsBackward&);
OpCost cost(const AveragePoolForward&);
OpCost cost(const AveragePoolBackward&);
OpCost cost(const CrossEntropy&);
OpCost cost(const SelectTopK&);
OpCost cost(const DrawIndices&);
OpCost cost(const DrawNormal&);
OpCost cost(const TakeElements&);
OpCost cost(const AddElements&);
OpCost cost(const PackSigns&);
OpCost cost(const AddSigns&);
OpCost cost(const Quantise&);
OpCost cost(const AddQuantised&);
OpCost cost(const MatrixProduct&);
OpCost cost(const Orthonormalise&);

}  // namespace ringside
