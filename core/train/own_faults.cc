#include "core/train/own_faults.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <span>
#include <thread>

#include "core/plan/mesh.h"

namespace ringside {
namespace {

constexpr std::uint32_t flipped_bit = 1U << 22;  // the highest of the mantissa

/// Flips one bit of the first value that is not 0.
void flip_in(Device& device, const Tensor& parameters) {
  std::vector<float> values(static_cast<std::size_t>(parameters.count()));
  device.read(parameters, std::as_writable_bytes(std::span(values)));
  const auto value = std::ranges::find_if(values, [](float one) { return one != 0; });
  if (value == values.end()) return;
  *value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(*value) ^ flipped_bit);
  device.write(parameters, std::as_bytes(std::span(values)));
}

}  // namespace

OwnFaults::OwnFaults(const RunPlan& plan, int worker) : worker_(worker) {
  const FaultsConfig& faults = plan.faults;
  for (std::size_t i = 0; i < faults.plan.size(); ++i) {
    const Fault fault = fault_from(faults.plan[i]);
    if (fault.server) continue;
    if (fault.kind == Fault::Kind::hang || fault.kind == Fault::Kind::flip) {
      if (std::ranges::find(faults.struck, static_cast<std::int64_t>(i)) == faults.struck.end())
        others_.push_back(fault);
      continue;
    }
    if (fault.kind != Fault::Kind::poison) continue;
    const std::int64_t each = plan.train.accumulation, all = data_world(plan) * each;
    const Poisoned poisoned = poisoned_by(plan, fault);
    const std::int64_t place = poisoned.worker * (all / poisoned.of);  // among those of all workers
    if (place / each == mesh_place(plan, worker).data)
      poisons_.push_back({fault.step, place % each});
  }
}

void OwnFaults::begin_step(std::int64_t step, SyncScheme& scheme, Device& device) const {
  for (const Fault& fault : others_) {
    if (fault.step != step) continue;
    const bool own = fault.number == worker_;
    if (fault.kind == Fault::Kind::hang) {
      while (own) std::this_thread::sleep_for(std::chrono::hours(1));
      continue;
    }
    bool flipped = !own;
    scheme.visit_parameters([&](int, const Unit&, const Tensor& values) {
      if (!flipped && values.count() > 0) flip_in(device, values);
      flipped = flipped || values.count() > 0;
    });
  }
}

void OwnFaults::poison(Device& device, const Tensor& output, const Pass& pass) const {
  const std::int64_t count = output.count() / pass.ranks;
  for (const Poison& one : poisons_) {
    const std::int64_t within = one.micro_batch - pass.micro_batch;
    if (one.step == pass.step && within >= 0 && within < pass.ranks)
      device.kernels().fill({.out = output.range(within * count, count),
                             .value = std::numeric_limits<float>::quiet_NaN()});
  }
}

}  // namespace ringside
