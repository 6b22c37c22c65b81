// Slowdown: delays that make a worker slower than its processor.
#pragma once

#include <cstdint>
#include <vector>

#include "core/observe/timeline.h"
#include "core/plan/faults.h"
#include "core/plan/run_plan.h"

namespace ringside {

/// The slowdown of one worker (DeviceConfig::slow and jitter, and faults on purpose): after each
/// part of its computation the worker waits until the part has taken a multiple of its time. For
/// devices that compute while the host waits.
class Slowdown {
 public:
  /// The plan is that of all stages, and the worker's number is the one that it has there.
  Slowdown(const RunPlan& plan, int worker, Device& device);
  void begin_step(std::int64_t step);

  /// One part of the computation. Its destructor waits, in proportion to the time since
  /// construction.
  class Part {
   public:
    explicit Part(const Slowdown& slowdown) : slowdown_(slowdown), begin_(slowdown.now()) {}
    ~Part() { slowdown_.rest(begin_); }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    const Slowdown& slowdown_;
    double begin_;
  };

 private:
  double now() const { return factor_ > 1 ? device_.clock().now() : 0; }
  void rest(double begin) const;

  const RunPlan& plan_;
  int worker_;
  Device& device_;
  double slow_ = 1, factor_ = 1;
  std::vector<Fault> faults_;  // that slow this worker
};

}  // namespace ringside
