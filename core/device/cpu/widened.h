// Layers in 16 bits by way of fp32: storage is 16 bits, arithmetic is not.
#pragma once

#include <utility>
#include <vector>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/operands.h"

namespace ringside::cpu {

/// bf16 or fp16; what is empty is not.
inline bool is_narrow(const Tensor& tensor) {
  return tensor && (tensor.dtype() == DType::bf16 || tensor.dtype() == DType::f16);
}

/// Puts fp32 workspace in the place of operands of 16 bits, with their values where the operation
/// reads them, and rounds to them what was written. Operands may lie in one place: each has
/// workspace of its own, and all were read before anything is written back.
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
  std::vector<std::pair<Tensor, Tensor>> results_;  // fp32, the operand
};

class NarrowOperands {
 public:
  bool any = false;
  void in(const Tensor& operand) { any = any || is_narrow(operand); }
  void out(const Tensor& operand) { in(operand); }
  void in_out(const Tensor& operand) { in(operand); }
};

/// `kernel`, which knows fp32, for operands of any float type.
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
