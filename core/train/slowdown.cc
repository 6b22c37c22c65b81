#include "core/train/slowdown.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/sim/uneven.h"

namespace ringside {

Slowdown::Slowdown(const RunPlan& plan, int worker, Device& device)
    : plan_(plan), worker_(worker), device_(device) {
  const std::vector<double>& slow = plan.device.slow;
  if (plan.world > 1 && static_cast<std::size_t>(worker) < slow.size())
    slow_ = slow[static_cast<std::size_t>(worker)];
  if (plan.cluster) return;  // simulated devices are slower themselves
  for (const std::string& text : plan.faults.plan)
    if (const Fault fault = fault_from(text);
        fault.kind == Fault::Kind::slow && fault.number == worker)
      faults_.push_back(fault);
}

void Slowdown::begin_step(std::int64_t step) {
  factor_ = slow_;
  for (const Fault& fault : faults_)
    if (step >= fault.step) factor_ *= fault.amount;
  if (plan_.device.jitter > 0 && plan_.world > 1)
    factor_ *= sim::jitter_factor(plan_.device.jitter, static_cast<std::uint64_t>(plan_.train.seed),
                                  worker_, step);
}

void Slowdown::rest(double begin) const {
  if (factor_ <= 1) return;
  const double end = begin + factor_ * (now() - begin);
  // The last part is a busy wait, because sleeps end late.
  constexpr double awake_s = 100e-6;
  if (const double asleep = end - now() - awake_s; asleep > 0)
    std::this_thread::sleep_for(std::chrono::duration<double>(asleep));
  while (now() < end) std::this_thread::yield();
}

}  // namespace ringside
