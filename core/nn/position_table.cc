#include "core/nn/position_table.h"

#include "core/nn/layer_tensors.h"

namespace ringside {

PositionTable::PositionTable(Unit& unit, const std::string& name, std::int64_t positions,
                             std::int64_t width, Init init)
    : unit_(unit), table_(unit.declare().add(name, {positions, width}, init)) {}

void PositionTable::forward(const Tensor& x) {
  const Tensor table = unit_.value(table_);
  const std::int64_t count = table.count();
  for (std::int64_t begin = 0; begin < x.count(); begin += count)
    unit_.device().kernels().add({.in = table.range(0, count), .out = x.range(begin, count)});
}

void PositionTable::backward(const Tensor& dy, Saved& saved) {
  saved.do_weights([this, dy] { add_up(dy); });
}

void PositionTable::add_up(const Tensor& dy) const {
  const Tensor gradient = unit_.gradient(table_);
  const Kernels& kernels = unit_.device().kernels();
  const std::int64_t count = gradient.count();
  const bool wide = gradient.dtype() == DType::f32;
  // A sum in 16 bits would round after every sample.
  const auto temporary = [&] { return unit_.device().tensor({count}, MemoryKind::workspace); };
  const Tensor sum = wide ? gradient.range(0, count) : temporary();
  kernels.cast({.in = dy.range(0, count), .out = sum});
  const Tensor part = wide || dy.count() == count ? Tensor{} : temporary();
  for (std::int64_t begin = count; begin < dy.count(); begin += count) {
    const Tensor next = dy.range(begin, count);
    if (part) kernels.cast({.in = next, .out = part});
    kernels.add({.in = part ? part : next, .out = sum});
  }
  if (!wide) kernels.cast({.in = sum, .out = gradient.range(0, count)});
}

}  // namespace ringside
