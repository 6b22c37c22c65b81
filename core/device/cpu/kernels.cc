#include <utility>
#include <vector>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/operands.h"

namespace ringside::cpu {
namespace {

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

void Widening::widen(Tensor& operand, bool read, bool written) {
  if (!is_narrow(operand)) return;
  const Tensor wide = context_.device.tensor(operand.shape(), MemoryKind::workspace, DType::f32);
  if (read) cast(context_, {.in = operand, .out = wide});
  if (written) results_.emplace_back(wide, operand);
  operand = wide;
}

void Widening::write_back() const {
  for (const auto& [wide, operand] : results_) cast(context_, {.in = wide, .out = operand});
}

/// The kernel as a device has it. If its operands are listed (operands.h), it computes in fp32, and
/// 16-bit operands go through widened(); all others read and write every type themselves.
template <class Op>
Kernel<Op> bound(const Context& context, void (*kernel)(const Context&, const Op&)) {
  if constexpr (requires(Op op, Widening widening) { visit_operands(op, widening); })
    return widened(context, kernel);
  else
    return [context, kernel](const Op& op) { kernel(context, op); };
}

/// Rounds dy behind the activation before it is multiplied, as kernels for 16 bits do. So products
/// have the same bits in an operation of their own, which reads the rounded dy.
void round_behind_activation(Kernel<LinearBackward>& kernel) {
  kernel = [other = std::move(kernel)](const LinearBackward& op) {
    if (!is_narrow(op.dy) || op.activation == Activation::none) return other(op);
    other({.dy = op.dy, .activation = op.activation, .pre = op.pre});
    LinearBackward products = op;
    products.activation = Activation::none;
    products.pre = {};
    other(products);
  };
}

/// Replaces `kernel` by `native` for operations on bf16.
template <class Op>
void multiply_bf16(Kernel<Op>& kernel, const Context& context,
                   void (*native)(const Context&, const Op&)) {
  kernel = [context, other = std::move(kernel), native](const Op& op) {
    DType dtype = op.x.dtype();
    if constexpr (requires { op.dy; }) dtype = op.dy.dtype();  // a backward may have no x
    dtype == DType::bf16 ? native(context, op) : other(op);
  };
}

}  // namespace

Kernels make_kernels(const Context& context) {
  Kernels out;
#define RINGSIDE_BIND(Op, name) out.name = bound<Op>(context, name);
  RINGSIDE_KERNELS(RINGSIDE_BIND, RINGSIDE_BIND)
#undef RINGSIDE_BIND
  round_behind_activation(out.linear_backward);
  if (has_bf16_products()) {
    multiply_bf16(out.linear_forward, context, linear_forward_bf16);
    multiply_bf16(out.linear_backward, context, linear_backward_bf16);
    multiply_bf16(out.convolution_forward, context, convolution_forward);
    multiply_bf16(out.convolution_backward, context, convolution_backward);
  }
  return out;
}

}  // namespace ringside::cpu
