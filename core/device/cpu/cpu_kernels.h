// The operations of core/device/ops.h on the CPU: one function an operation.
#pragma once

#include "core/device/device.h"
#include "core/device/ops.h"

namespace ringside::cpu {

/// The same for fp32 and bf16: what stands in memory is one or the other.
inline float load(float value) { return value; }
inline float load(bf16 value) { return to_float(value); }
inline void store(float& to, float value) { to = value; }
inline void store(bf16& to, float value) { to = to_bf16(value); }

/// Where a kernel runs: `device` gives scratch memory (kind workspace), `threads` the most
/// threads it may use. Results do not depend on `threads` except through oneDNN's products.
struct Context {
  Device& device;
  int threads = 1;
};

void fill(const Context&, const Fill&);
void copy(const Context&, const Copy&);
void add(const Context&, const Add&);
void cast(const Context&, const Cast&);
void sum_of_squares(const Context&, const SumOfSquares&);
void adamw(const Context&, const AdamW&);
void sgd(const Context&, const Sgd&);
void linear_forward(const Context&, const LinearForward&);
void linear_backward(const Context&, const LinearBackward&);
void embedding_forward(const Context&, const EmbeddingForward&);
void embedding_backward(const Context&, const EmbeddingBackward&);
void layer_norm_forward(const Context&, const LayerNormForward&);
void layer_norm_backward(const Context&, const LayerNormBackward&);
void attention_forward(const Context&, const AttentionForward&);
void attention_backward(const Context&, const AttentionBackward&);
void cross_entropy(const Context&, const CrossEntropy&);

/// Every slot, bound to the context.
Kernels make_kernels(const Context& context);

}  // namespace ringside::cpu
