#include "peer/schemes/consensus_distance.h"

#include <cmath>
#include <iterator>
#include <span>

#include "core/num/exact_sum.h"
#include "peer/schemes/local_scheme.h"

namespace ringside::peer {

constexpr auto digits = static_cast<std::int64_t>(ExactSum::digits);

Fields with_distance(DistanceOptions& options, Fields own) {
  own.push_back({"distance", &options.distance,
                 "also measure how far replicas are from their mean before they exchange anything "
                 "after the last step, by an all-reduce that is a part of the step"});
  own.push_back({"distance_every", &options.distance_every,
                 "with distance: also after every so many steps; 0: after the last step alone",
                 Range::not_negative});
  return own;
}

double distance_bytes(const DistanceOptions& options, const StepShape& shape) {
  if (!options.distance || options.distance_every == 0) return 0;
  return sum_bytes(shape.world, shape.parameters, options.distance_every);
}

ConsensusDistance::ConsensusDistance(Device& device, std::int64_t elements)
    : device_(device),
      difference_(device.tensor({elements}, MemoryKind::workspace)),
      squares_(device.tensor({read_every, 2, digits}, MemoryKind::workspace, DType::f64)) {}

void ConsensusDistance::measure(const Tensor& replica, const Tensor& sum, float share) {
  const Kernels& kernels = device_.kernels();
  if (std::ssize(shares_) == read_every) {
    total_ += unread();
    shares_.clear();
  }
  const std::int64_t at = 2 * digits * static_cast<std::int64_t>(shares_.size());
  kernels.copy({.in = replica, .out = difference_});
  kernels.blend({.in = sum, .out = difference_, .in_scale = -share, .out_scale = 1});
  kernels.sum_of_squares({.in = difference_, .out = squares_.range(at, digits)});
  kernels.sum_of_squares({.in = sum, .out = squares_.range(at + digits, digits)});
  shares_.push_back(share);
  ++measured_;
}

std::vector<SchemeFigure> ConsensusDistance::figures() const {
  if (!device_.has_values() || measured_ == 0) return {};
  return {{"consensus distance", "relative", (total_ + unread()) / static_cast<double>(measured_)}};
}

double ConsensusDistance::unread() const {
  if (!device_.has_values()) return 0;
  std::vector<double> squares(static_cast<std::size_t>(squares_.count()));
  device_.read(squares_, std::as_writable_bytes(std::span(squares)));
  double total = 0;
  for (std::size_t m = 0; m < shares_.size(); ++m)
    total += std::sqrt(ExactSum::value(squares, 2 * m) / ExactSum::value(squares, 2 * m + 1)) /
             static_cast<double>(shares_[m]);
  return total;
}

}  // namespace ringside::peer
