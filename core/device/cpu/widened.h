// Runs layers with 16-bit operands by way of fp32: memory has 16 bits, arithmetic 32.
#pragma once

#include <utility>
#include <vector>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/operands.h"

namespace ringside::cpu {

/// Whether the tensor is bf16 or fp16. An empty tensor is neither.
inline bool is_narrow(const Tensor& tensor) {
  return tensor && (tensor.dtype() == DType::bf16 || tensor.dtype() == DType::f16);
}

/// Replaces 16-bit operands by fp32 workspace. in() and in_out() copy the operand's values into the
/// workspace. write_back() rounds what the operation wrote into the workspace of out() and
/// in_out(), and stores it in the operands. Two operands may lie in the same memory: each has its
/// own workspace, and all operands are read before any operand is written back.
class Widening {
 public:
  explicit Widening(const Context& context) : context_(context) {}

  void in(Tensor& operand) { widen(operand, true, false); }
  void out(Tensor& operand) { widen(operand, false, true); }
  void in_out(Tensor& operand) { widen(operand, true, true); }
  void write_back() const;

 private:
  void widen(Tensor& operand, bool read, bool written);

  const Context& context_;
  std::vector<std::pair<Tensor, Tensor>> results_;  // fp32 workspace, operand
};

/// Visits operands to find out whether any of them has 16 bits.
class NarrowOperands {
 public:
  bool any = false;
  void in(const Tensor& operand) { any = any || is_narrow(operand); }
  void out(const Tensor& operand) { in(operand); }
  void in_out(const Tensor& operand) { in(operand); }
};

/// Turns `kernel`, which takes fp32, into one that takes operands of any floating-point type.
template <class Op>
Kernel<Op> widened(const Context& context, void (*kernel)(const Context&, const Op&)) {
  return [context, kernel](const Op& op) {
    NarrowOperands narrow;
    visit_operands(op, narrow);
    if (!narrow.any) return kernel(context, op);
    Op wide = op;
    Widening widening(context);
    visit_operands(wide, widening);
    kernel(context, wide);
    widening.write_back();
  };
}

}  // namespace ringside::cpu
