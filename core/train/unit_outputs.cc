#include "core/train/unit_outputs.h"

#include <cmath>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/num/exact_sum.h"

namespace ringside {

void UnitOutputs::look_at(Device& device, const Pass& pass, std::size_t unit, std::size_t units,
                          const Tensor& output) {
  constexpr auto digits = static_cast<std::int64_t>(ExactSum::digits);
  const auto count = static_cast<std::int64_t>(units);
  if (!squares_)
    squares_ =
        device.tensor({pass.micro_batches, count, digits}, MemoryKind::workspace, DType::f64);
  const std::int64_t at = pass.micro_batch * count + static_cast<std::int64_t>(unit);
  device.kernels().sum_of_squares({.in = output, .out = squares_.range(at * digits, digits)});
}

std::string UnitOutputs::first_not_finite(const Model& model) const {
  if (squares_ && !model.units.empty()) {
    std::vector<double> squares(static_cast<std::size_t>(squares_.count()));
    model.units[0]->device().read(squares_, std::as_writable_bytes(std::span(squares)));
    for (std::size_t i = 0; i < squares.size() / ExactSum::digits; ++i)
      if (!std::isfinite(ExactSum::value(squares, i)))
        return fmt::format("the output of unit {} is the first that is not finite",
                           model.units[i % model.units.size()]->name());
  }
  return "the outputs of all units are finite";
}

}  // namespace ringside
