// The operations of core/device/ops.h on the CPU: one function for each operation.
#pragma once

#include "core/device/device.h"
#include "core/device/ops.h"

namespace ringside::cpu {

/// load() and store() convert between fp32 and the type in memory: fp32, bf16 or fp16.
inline float load(float value) { return value; }
inline float load(bf16 value) { return to_float(value); }
inline float load(fp16 value) { return to_float(value); }
inline void store(float& to, float value) { to = value; }
inline void store(bf16& to, float value) { to = to_bf16(value); }
inline void store(fp16& to, float value) { to = to_fp16(value); }

/// Calls body(T{}), where T is the floating-point type with this dtype.
template <class Body>
void with_float_type(DType dtype, Body&& body) {
  if (dtype == DType::bf16) return body(bf16{});
  if (dtype == DType::f16) return body(fp16{});
  body(float{});
}

/// Where a kernel runs. `device` provides scratch memory (kind workspace); `threads` is the largest
/// number of threads that a kernel may use. Results do not depend on `threads`, except those of
/// oneDNN's products.
struct Context {
  Device& device;
  int threads = 1;
};

void fill(const Context&, const Fill&);
void copy(const Context&, const Copy&);
void add(const Context&, const Add&);
void blend(const Context&, const Blend&);
void compensate_delay(const Context&, const CompensateDelay&);
void cast(const Context&, const Cast&);
void sum_of_squares(const Context&, const SumOfSquares&);
void dropout(const Context&, const Dropout&);
void adamw(const Context&, const AdamW&);
void sgd(const Context&, const Sgd&);
void lamb_moments(const Context&, const LambMoments&);
void lamb_update(const Context&, const LambUpdate&);
void linear_forward(const Context&, const LinearForward&);
void linear_backward(const Context&, const LinearBackward&);
void embedding_forward(const Context&, const EmbeddingForward&);
void embedding_backward(const Context&, const EmbeddingBackward&);
void take_rows_forward(const Context&, const TakeRowsForward&);
void take_rows_backward(const Context&, const TakeRowsBackward&);
void copy_columns(const Context&, const CopyColumns&);
void layer_norm_forward(const Context&, const LayerNormForward&);
void layer_norm_backward(const Context&, const LayerNormBackward&);
void rms_norm_forward(const Context&, const RmsNormForward&);
void rms_norm_backward(const Context&, const RmsNormBackward&);
void swiglu_forward(const Context&, const SwiGluForward&);
void swiglu_backward(const Context&, const SwiGluBackward&);
void rotary(const Context&, const Rotary&);
void attention_forward(const Context&, const AttentionForward&);
void attention_backward(const Context&, const AttentionBackward&);
void cross_attention_forward(const Context&, const CrossAttentionForward&);
void cross_attention_backward(const Context&, const CrossAttentionBackward&);
void convolution_forward(const Context&, const ConvolutionForward&);
void convolution_backward(const Context&, const ConvolutionBackward&);
void batch_norm_statistics(const Context&, const BatchNormStatistics&);
void batch_norm_merge(const Context&, const BatchNormMerge&);
void batch_norm_forward(const Context&, const BatchNormForward&);
void batch_norm_reduce(const Context&, const BatchNormReduce&);
void batch_norm_backward(const Context&, const BatchNormBackward&);
void max_pool_forward(const Context&, const MaxPoolForward&);
void max_pool_backward(const Context&, const MaxPoolBackward&);
void average_windows_forward(const Context&, const AverageWindowsForward&);
void average_windows_backward(const Context&, const AverageWindowsBackward&);
void average_pool_forward(const Context&, const AveragePoolForward&);
void average_pool_backward(const Context&, const AveragePoolBackward&);
void cross_entropy(const Context&, const CrossEntropy&);

/// Linear layers that multiply bf16 operands directly, without converting them to fp32 first as
/// core/device/cpu/widened.h does. May be called only if has_bf16_products(); on such
/// processors the convolutions above take bf16 operands too.
void linear_forward_bf16(const Context&, const LinearForward&);
void linear_backward_bf16(const Context&, const LinearBackward&);
/// Whether the processor has instructions that multiply bf16, which oneDNN then uses.
bool has_bf16_products();

/// All operations, bound to `context`.
Kernels make_kernels(const Context& context);

}  // namespace ringside::cpu
