#include <algorithm>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"

namespace ringside::cpu {

void copy_columns(const Context& context, const CopyColumns& op) {
  const auto size = static_cast<std::int64_t>(size_of(op.in.dtype()));
  const std::int64_t in_row = op.in.shape()[1] * size, out_row = op.out.shape()[1] * size;
  const std::int64_t bytes = op.columns * size;
  const auto* in = op.in.data<std::uint8_t>() + op.from * size;
  auto* out = op.out.data<std::uint8_t>() + op.to * size;
  const std::int64_t grain = 1 + (1 << 16) / std::max<std::int64_t>(bytes, 1);
  parallel_for(context.threads, op.in.shape()[0], grain,
               [=](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t row = begin; row < end; ++row)
                   std::copy_n(in + row * in_row, bytes, out + row * out_row);
               });
}

}  // namespace ringside::cpu
