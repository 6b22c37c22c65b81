// Kernels: one typed slot an operation.
#pragma once

#include <functional>
#include <string_view>

#include "core/device/ops.h"

namespace ringside {

/// Enqueues one operation on the device that it belongs to.
template <class Op>
using Kernel = std::function<void(const Op&)>;

/// What a device can compute. A device fills every slot (for_each_slot lets a test say so); the
/// level is where libraries fuse. A simulated device fills them with costs, which it reads off
/// the operation's operands.
struct Kernels {
  Kernel<Fill> fill;
  Kernel<Copy> copy;
  Kernel<Add> add;
  Kernel<Cast> cast;
  Kernel<SumOfSquares> sum_of_squares;
  Kernel<AdamW> adamw;
  Kernel<Sgd> sgd;
  Kernel<LinearForward> linear_forward;
  Kernel<LinearBackward> linear_backward;
  Kernel<EmbeddingForward> embedding_forward;
  Kernel<EmbeddingBackward> embedding_backward;
  Kernel<LayerNormForward> layer_norm_forward;
  Kernel<LayerNormBackward> layer_norm_backward;
  Kernel<AttentionForward> attention_forward;
  Kernel<AttentionBackward> attention_backward;
  Kernel<CrossEntropy> cross_entropy;
};

template <class KernelsType, class Visitor>
void for_each_slot(KernelsType& k, Visitor&& visit) {
  visit("fill", k.fill);
  visit("copy", k.copy);
  visit("add", k.add);
  visit("cast", k.cast);
  visit("sum_of_squares", k.sum_of_squares);
  visit("adamw", k.adamw);
  visit("sgd", k.sgd);
  visit("linear_forward", k.linear_forward);
  visit("linear_backward", k.linear_backward);
  visit("embedding_forward", k.embedding_forward);
  visit("embedding_backward", k.embedding_backward);
  visit("layer_norm_forward", k.layer_norm_forward);
  visit("layer_norm_backward", k.layer_norm_backward);
  visit("attention_forward", k.attention_forward);
  visit("attention_backward", k.attention_backward);
  visit("cross_entropy", k.cross_entropy);
}

}  // namespace ringside
