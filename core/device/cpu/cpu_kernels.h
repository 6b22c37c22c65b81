// The operations of core/device/kernels.h on the CPU: one function for each operation.
#pragma once

#include "core/device/device.h"
#include "core/device/kernels.h"

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

/// The device and threads on which a kernel runs. `device` provides scratch memory (kind
/// workspace); `threads` is the largest number of threads that a kernel may use. Results do not
/// depend on `threads`, except those of oneDNN's products.
struct Context {
  Device& device;
  int threads = 1;
};

#define RINGSIDE_DECLARE(Op, name) void name(const Context&, const Op&);
RINGSIDE_KERNELS(RINGSIDE_DECLARE, RINGSIDE_DECLARE)
#undef RINGSIDE_DECLARE

/// Linear layers that multiply bf16 operands directly, without converting them to fp32 first as
/// widened() in core/device/cpu/kernels.cc does. May be called only if has_bf16_products(); on such
/// processors the convolutions above take bf16 operands too.
void linear_forward_bf16(const Context&, const LinearForward&);
void linear_backward_bf16(const Context&, const LinearBackward&);
/// Whether the processor has instructions that multiply bf16, which oneDNN then uses.
bool has_bf16_products();

/// All operations, bound to `context`.
Kernels make_kernels(const Context& context);

}  // namespace ringside::cpu
