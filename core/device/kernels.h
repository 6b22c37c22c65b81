// Kernels: one typed slot for each operation.
#pragma once

#include <functional>
#include <string_view>

#include "core/device/ops.h"

namespace ringside {

/// The one list of operations: calls KERNEL(type of the operation, name of the kernel) for each, or
/// PRODUCT for those that are made of matrix products, for which a device may have libraries.
#define RINGSIDE_KERNELS(KERNEL, PRODUCT)                   \
  KERNEL(Fill, fill)                                        \
  KERNEL(Copy, copy)                                        \
  KERNEL(Add, add)                                          \
  KERNEL(Blend, blend)                                      \
  KERNEL(Divide, divide)                                    \
  KERNEL(CompensateDelay, compensate_delay)                 \
  KERNEL(Cast, cast)                                        \
  KERNEL(SumOfSquares, sum_of_squares)                      \
  KERNEL(Dropout, dropout)                                  \
  KERNEL(AdamW, adamw)                                      \
  KERNEL(Sgd, sgd)                                          \
  KERNEL(LambMoments, lamb_moments)                         \
  KERNEL(LambUpdate, lamb_update)                           \
  PRODUCT(LinearForward, linear_forward)                    \
  PRODUCT(LinearBackward, linear_backward)                  \
  KERNEL(EmbeddingForward, embedding_forward)               \
  KERNEL(EmbeddingBackward, embedding_backward)             \
  KERNEL(TakeRowsForward, take_rows_forward)                \
  KERNEL(TakeRowsBackward, take_rows_backward)              \
  KERNEL(CopyColumns, copy_columns)                         \
  KERNEL(LayerNormForward, layer_norm_forward)              \
  KERNEL(LayerNormBackward, layer_norm_backward)            \
  KERNEL(RmsNormForward, rms_norm_forward)                  \
  KERNEL(RmsNormBackward, rms_norm_backward)                \
  KERNEL(SwiGluForward, swiglu_forward)                     \
  KERNEL(SwiGluBackward, swiglu_backward)                   \
  KERNEL(Rotary, rotary)                                    \
  PRODUCT(AttentionForward, attention_forward)              \
  PRODUCT(AttentionBackward, attention_backward)            \
  PRODUCT(CrossAttentionForward, cross_attention_forward)   \
  PRODUCT(CrossAttentionBackward, cross_attention_backward) \
  PRODUCT(ConvolutionForward, convolution_forward)          \
  PRODUCT(ConvolutionBackward, convolution_backward)        \
  KERNEL(BatchNormStatistics, batch_norm_statistics)        \
  KERNEL(BatchNormMerge, batch_norm_merge)                  \
  KERNEL(BatchNormForward, batch_norm_forward)              \
  KERNEL(BatchNormReduce, batch_norm_reduce)                \
  KERNEL(BatchNormBackward, batch_norm_backward)            \
  KERNEL(MaxPoolForward, max_pool_forward)                  \
  KERNEL(MaxPoolBackward, max_pool_backward)                \
  KERNEL(AverageWindowsForward, average_windows_forward)    \
  KERNEL(AverageWindowsBackward, average_windows_backward)  \
  KERNEL(AveragePoolForward, average_pool_forward)          \
  KERNEL(AveragePoolBackward, average_pool_backward)        \
  KERNEL(CrossEntropy, cross_entropy)                       \
  KERNEL(SelectTopK, select_top_k)                          \
  KERNEL(DrawIndices, draw_indices)                         \
  KERNEL(DrawNormal, draw_normal)                           \
  KERNEL(TakeElements, take_elements)                       \
  KERNEL(AddElements, add_elements)                         \
  KERNEL(PackSigns, pack_signs)                             \
  KERNEL(AddSigns, add_signs)                               \
  KERNEL(Quantise, quantise)                                \
  KERNEL(AddQuantised, add_quantised)                       \
  PRODUCT(MatrixProduct, matrix_product)                    \
  KERNEL(Orthonormalise, orthonormalise)

/// Enqueues one operation on the device that the kernel belongs to.
template <class Op>
using Kernel = std::function<void(const Op&)>;

/// All operations of a device. Every device fills every slot; for_each_slot lets a test check this.
/// An operation includes whatever libraries can compute in the same call: a linear layer, for
/// instance, includes its bias and activation. A simulated device fills each slot with a function
/// that derives the operation's cost from its operands.
struct Kernels {
#define RINGSIDE_SLOT(Op, name) Kernel<Op> name{};
  RINGSIDE_KERNELS(RINGSIDE_SLOT, RINGSIDE_SLOT)
#undef RINGSIDE_SLOT
};

template <class KernelsType, class Visitor>
void for_each_slot(KernelsType& k, Visitor&& visit) {
#define RINGSIDE_VISIT(Op, name) visit(#name, k.name);
  RINGSIDE_KERNELS(RINGSIDE_VISIT, RINGSIDE_VISIT)
#undef RINGSIDE_VISIT
}

}  // namespace ringside
