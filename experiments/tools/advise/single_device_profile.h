// The time and the memory that one device needs for micro-batches, without other ranks.
#pragma once

#include <map>
#include <vector>

#include "experiments/runner/run/parallel_simulations.h"
#include "experiments/tools/advise/candidate.h"

namespace ringside::tools::advise {

/// Simulates candidates' micro-batches on one device with unlimited memory. Call measure() for a
/// micro-batch before asking for its figures.
class SingleDeviceProfile {
 public:
  SingleDeviceProfile(const Question& question, const runner::Simulate& simulate);

  /// Simulates those of these micro-batches that are not known yet. Blocks. Throws Error if a
  /// simulation fails; returns false if the user interrupts.
  bool measure(const std::vector<MicroBatch>& micro_batches);

  /// Milliseconds of forward and backward; the micro-batch must be known.
  double compute_ms(const MicroBatch& micro_batch) const;
  /// Bytes of a device besides parameters, gradients and optimizer state, extrapolated from
  /// micro-batches of one and of two samples, which must be known.
  double activation_bytes(const MicroBatch& micro_batch) const;

 private:
  struct Measured {
    double compute_ms = 0;
    double activation_bytes = 0;
  };

  const Question& question_;
  const runner::Simulate& simulate_;
  std::map<MicroBatch, Measured> known_;
};

}  // namespace ringside::tools::advise
