#include "core/train/unit_outputs.h"

#include <cmath>
#include <span>
#include <vector>

#include "core/num/exact_sum.h"

namespace ringside {

void UnitOutputs::look_at(Device& device, const Pass& pass, std::size_t unit, std::size_t units,
                          const Tensor& output) {
  constexpr auto digits = static_cast<std::int64_t>(ExactSum::digits);
  const auto count = static_cast<std::int64_t>(units);
  device_ = &device;
  if (!squares_)
    squares_ =
        device.tensor({pass.micro_batches, count, digits}, MemoryKind::workspace, DType::f64);
  const std::int64_t at = pass.micro_batch * count + static_cast<std::int64_t>(unit);
  device.kernels().sum_of_squares({.in = output, .out = squares_.range(at * digits, digits)});
}

std::optional<UnitOutputs::Found> UnitOutputs::first_not_finite() const {
  if (!squares_) return {};
  std::vector<double> squares(static_cast<std::size_t>(squares_.count()));
  device_->read(squares_, std::as_writable_bytes(std::span(squares)));
  const auto units = static_cast<std::size_t>(squares_.shape()[1]);
  for (std::size_t i = 0; i < squares.size() / ExactSum::digits; ++i)
    if (!std::isfinite(ExactSum::value(squares, i)))
      return Found{static_cast<std::int64_t>(i / units), i % units};
  return {};
}

}  // namespace ringside
