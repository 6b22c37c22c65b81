#include "core/device/cpu/widened.h"

namespace ringside::cpu {

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

}  // namespace ringside::cpu
