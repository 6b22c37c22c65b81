#include "core/nn/join_channels.h"

#include "core/nn/layer_tensors.h"

namespace ringside {

Tensor join_channels(const Unit& unit, const std::vector<Tensor>& parts) {
  const Shape& first = parts.front().shape();
  std::int64_t channels = 0, to = 0;
  for (const Tensor& part : parts) channels += part.shape()[3];
  const Tensor out = layer::activation(unit, {first[0], first[1], first[2], channels});
  for (const Tensor& part : parts) {
    const std::int64_t count = part.shape()[3];
    unit.device().kernels().copy_columns({.in = layer::rows(part, count),
                                          .out = layer::rows(out, channels),
                                          .to = to,
                                          .columns = count});
    to += count;
  }
  return out;
}

Tensor take_channels(const Unit& unit, const Tensor& dy, std::int64_t from, std::int64_t count) {
  const Shape& in = dy.shape();
  const Tensor out = layer::workspace(unit, {in[0], in[1], in[2], count});
  unit.device().kernels().copy_columns({.in = layer::rows(dy, in[3]),
                                        .out = layer::rows(out, count),
                                        .from = from,
                                        .columns = count});
  return out;
}

}  // namespace ringside
