#include "ps/protocol/delay_compensation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/device/convert.h"
#include "ps/protocol/server_config.h"

namespace ringside::ps {

DelayCompensation::DelayCompensation(Device& device, int workers, double factor,
                                     const std::vector<Tensor>& values)
    : device_(device),
      workers_(static_cast<std::size_t>(workers)),
      factor_(static_cast<float>(factor)),
      dtype_(values.front().dtype()) {
  std::int64_t longest = 0;
  for (const Tensor& one : values) {
    given_.insert(given_.end(), workers_, one);
    longest = std::max(longest, one.count());
  }
  corrected_ = device.tensor({longest}, MemoryKind::workspace, dtype_);
}

Tensor& DelayCompensation::given(std::size_t chunk, int worker) {
  return given_[chunk * workers_ + static_cast<std::size_t>(worker)];
}
const Tensor& DelayCompensation::given(std::size_t chunk, int worker) const {
  return given_[chunk * workers_ + static_cast<std::size_t>(worker)];
}

Tensor DelayCompensation::corrected(std::size_t chunk, int worker, const Tensor& gradient,
                                    const Tensor& now) const {
  const Tensor out = corrected_.range(0, gradient.count());
  device_.kernels().compensate_delay({.gradients = gradient,
                                      .now = now,
                                      .read = given(chunk, worker),
                                      .out = out,
                                      .scale = factor_});
  return out;
}

void DelayCompensation::give(std::size_t chunk, int worker, Tensor values) {
  given(chunk, worker) = std::move(values);
}

void DelayCompensation::leave(int worker) {
  for (std::size_t chunk = 0; chunk < given_.size() / workers_; ++chunk) given(chunk, worker) = {};
}

/// Workers may share the memory of values that they were given alike, so each gets its own.
void DelayCompensation::visit_state(std::size_t chunk, std::int64_t begin,
                                    const StateVisitor& visit) {
  for (int worker = 0; worker < static_cast<int>(workers_); ++worker) {
    Tensor& values = given(chunk, worker);
    if (!values) continue;
    const Tensor own = device_.tensor(values.shape(), MemoryKind::communication, values.dtype());
    device_.kernels().copy({.in = values, .out = own});
    const Tensor shown = converted(device_, own, DType::f32);
    visit({.name = std::string(state_of_workers),
           .replica = worker,
           .begin = begin,
           .values = shown,
           .device = &device_,
           .holder = 1,
           .holders = 2,
           .begins_as = std::string(state_parameters),
           .of_options = true});
    values = converted(device_, shown, dtype_, MemoryKind::communication);
  }
}

}  // namespace ringside::ps
