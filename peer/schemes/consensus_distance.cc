#include "peer/schemes/consensus_distance.h"

#include <cmath>
#include <span>

#include "core/num/exact_sum.h"

namespace ringside::peer {

constexpr auto digits = static_cast<std::int64_t>(ExactSum::digits);

ConsensusDistance::ConsensusDistance(Device& device, std::int64_t elements,
                                     std::int64_t measurements)
    : device_(device),
      difference_(device.tensor({elements}, MemoryKind::workspace)),
      squares_(device.tensor({measurements, 2, digits}, MemoryKind::workspace, DType::f64)) {}

void ConsensusDistance::measure(const Tensor& replica, const Tensor& sum, float share) {
  const Kernels& kernels = device_.kernels();
  const std::int64_t at = 2 * digits * static_cast<std::int64_t>(shares_.size());
  kernels.copy({.in = replica, .out = difference_});
  kernels.blend({.in = sum, .out = difference_, .in_scale = -share, .out_scale = 1});
  kernels.sum_of_squares({.in = difference_, .out = squares_.range(at, digits)});
  kernels.sum_of_squares({.in = sum, .out = squares_.range(at + digits, digits)});
  shares_.push_back(share);
}

std::vector<SchemeFigure> ConsensusDistance::figures() const {
  if (!device_.has_values()) return {};
  std::vector<double> squares(static_cast<std::size_t>(squares_.count()));
  device_.read(squares_, std::as_writable_bytes(std::span(squares)));
  double total = 0;
  for (std::size_t m = 0; m < shares_.size(); ++m)
    total += std::sqrt(ExactSum::value(squares, 2 * m) / ExactSum::value(squares, 2 * m + 1)) /
             static_cast<double>(shares_[m]);
  return {{"consensus distance", "relative", total / static_cast<double>(shares_.size())}};
}

}  // namespace ringside::peer
