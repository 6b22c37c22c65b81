#include "ps/protocol/gradient_sums.h"

namespace ringside::ps {

GradientSums::GradientSums(Device& device, std::int64_t count, DType dtype, const Of& of)
    : device_(device), of_(of), total_(device.tensor({count}, MemoryKind::gradient, dtype)) {
  if (of.pushes > 1) partial_ = device.tensor({count}, MemoryKind::gradient, dtype);
}

void GradientSums::add(const ChunkState& state, const PushedGradient& gradient) {
  const Tensor total = this->of(state);
  const bool first_push = gradient.update % of_.pushes == 0;
  const Tensor sum = first_push ? total : partial_.range(state.begin(), state.chunk().count);
  const Kernels& kernels = device_.kernels();
  if (of_.by_weight)
    kernels.blend({.in = gradient.values,
                   .out = sum,
                   .in_scale = gradient.weight,
                   .out_scale = gradient.first ? 0.0F : 1.0F});
  else if (gradient.first)
    kernels.copy({.in = gradient.values, .out = sum});
  else
    kernels.add({.in = gradient.values, .out = sum});
  if (state.complete() && !first_push) kernels.add({.in = sum, .out = total});
}

Tensor GradientSums::of(const ChunkState& state) const {
  return total_.range(state.begin(), state.chunk().count);
}

}  // namespace ringside::ps
