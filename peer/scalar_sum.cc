#include "peer/scalar_sum.h"

#include <vector>

namespace ringside::peer {

double sum_over_ranks(Device& device, Communicator& communicator, double value) {
  constexpr std::int64_t floats = sizeof(double) / sizeof(float);
  const Tensor all = device.tensor({floats * communicator.size()}, MemoryKind::communication);
  const Tensor own = all.range(floats * communicator.rank(), floats);
  device.write(own, std::as_bytes(std::span(&value, 1)));
  communicator.all_gather(own, all)->wait();
  std::vector<double> values(static_cast<std::size_t>(communicator.size()));
  device.read(all, std::as_writable_bytes(std::span(values)));
  double sum = values[0];
  for (std::size_t r = 1; r < values.size(); ++r) sum += values[r];
  return sum;
}

}  // namespace ringside::peer
