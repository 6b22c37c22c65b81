// Kernels: one typed slot for each operation.
#pragma once

#include <functional>
#include <string_view>

#include "core/device/ops.h"

namespace ringside {

/// Enqueues one operation on the device that the kernel belongs to.
template <class Op>
using Kernel = std::function<void(const Op&)>;

/// All operations of a device. Every device fills every slot; for_each_slot lets a test check this.
/// An operation includes whatever libraries can compute in the same call: a linear layer, for
/// instance, includes its bias and activation. A simulated device fills each slot with a function
/// that derives the operation's cost from its operands.
struct Kernels {
  Kernel<Fill> fill{};
  Kernel<Copy> copy{};
  Kernel<Add> add{};
  Kernel<Blend> blend{};
  Kernel<CompensateDelay> compensate_delay{};
  Kernel<Cast> cast{};
  Kernel<SumOfSquares> sum_of_squares{};
  Kernel<Dropout> dropout{};
  Kernel<AdamW> adamw{};
  Kernel<Sgd> sgd{};
  Kernel<LambMoments> lamb_moments{};
  Kernel<LambUpdate> lamb_update{};
  Kernel<LinearForward> linear_forward{};
  Kernel<LinearBackward> linear_backward{};
  Kernel<EmbeddingForward> embedding_forward{};
  Kernel<EmbeddingBackward> embedding_backward{};
  Kernel<TakeRowsForward> take_rows_forward{};
  Kernel<TakeRowsBackward> take_rows_backward{};
  Kernel<CopyColumns> copy_columns{};
  Kernel<LayerNormForward> layer_norm_forward{};
  Kernel<LayerNormBackward> layer_norm_backward{};
  Kernel<RmsNormForward> rms_norm_forward{};
  Kernel<RmsNormBackward> rms_norm_backward{};
  Kernel<SwiGluForward> swiglu_forward{};
  Kernel<SwiGluBackward> swiglu_backward{};
  Kernel<Rotary> rotary{};
  Kernel<AttentionForward> attention_forward{};
  Kernel<AttentionBackward> attention_backward{};
  Kernel<CrossAttentionForward> cross_attention_forward{};
  Kernel<CrossAttentionBackward> cross_attention_backward{};
  Kernel<ConvolutionForward> convolution_forward{};
  Kernel<ConvolutionBackward> convolution_backward{};
  Kernel<BatchNormStatistics> batch_norm_statistics{};
  Kernel<BatchNormMerge> batch_norm_merge{};
  Kernel<BatchNormForward> batch_norm_forward{};
  Kernel<BatchNormReduce> batch_norm_reduce{};
  Kernel<BatchNormBackward> batch_norm_backward{};
  Kernel<MaxPoolForward> max_pool_forward{};
  Kernel<MaxPoolBackward> max_pool_backward{};
  Kernel<AverageWindowsForward> average_windows_forward{};
  Kernel<AverageWindowsBackward> average_windows_backward{};
  Kernel<AveragePoolForward> average_pool_forward{};
  Kernel<AveragePoolBackward> average_pool_backward{};
  Kernel<CrossEntropy> cross_entropy{};
};

template <class KernelsType, class Visitor>
void for_each_slot(KernelsType& k, Visitor&& visit) {
  visit("fill", k.fill);
  visit("copy", k.copy);
  visit("add", k.add);
  visit("blend", k.blend);
  visit("compensate_delay", k.compensate_delay);
  visit("cast", k.cast);
  visit("sum_of_squares", k.sum_of_squares);
  visit("dropout", k.dropout);
  visit("adamw", k.adamw);
  visit("sgd", k.sgd);
  visit("lamb_moments", k.lamb_moments);
  visit("lamb_update", k.lamb_update);
  visit("linear_forward", k.linear_forward);
  visit("linear_backward", k.linear_backward);
  visit("embedding_forward", k.embedding_forward);
  visit("embedding_backward", k.embedding_backward);
  visit("take_rows_forward", k.take_rows_forward);
  visit("take_rows_backward", k.take_rows_backward);
  visit("copy_columns", k.copy_columns);
  visit("layer_norm_forward", k.layer_norm_forward);
  visit("layer_norm_backward", k.layer_norm_backward);
  visit("rms_norm_forward", k.rms_norm_forward);
  visit("rms_norm_backward", k.rms_norm_backward);
  visit("swiglu_forward", k.swiglu_forward);
  visit("swiglu_backward", k.swiglu_backward);
  visit("rotary", k.rotary);
  visit("attention_forward", k.attention_forward);
  visit("attention_backward", k.attention_backward);
  visit("cross_attention_forward", k.cross_attention_forward);
  visit("cross_attention_backward", k.cross_attention_backward);
  visit("convolution_forward", k.convolution_forward);
  visit("convolution_backward", k.convolution_backward);
  visit("batch_norm_statistics", k.batch_norm_statistics);
  visit("batch_norm_merge", k.batch_norm_merge);
  visit("batch_norm_forward", k.batch_norm_forward);
  visit("batch_norm_reduce", k.batch_norm_reduce);
  visit("batch_norm_backward", k.batch_norm_backward);
  visit("max_pool_forward", k.max_pool_forward);
  visit("max_pool_backward", k.max_pool_backward);
  visit("average_windows_forward", k.average_windows_forward);
  visit("average_windows_backward", k.average_windows_backward);
  visit("average_pool_forward", k.average_pool_forward);
  visit("average_pool_backward", k.average_pool_backward);
  visit("cross_entropy", k.cross_entropy);
}

}  // namespace ringside
