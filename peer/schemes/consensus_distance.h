// The distance of replicas from their mean.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/fields.h"
#include "core/device/device.h"
#include "core/observe/rank_record.h"
#include "core/scheme/scheme_info.h"

namespace ringside::peer {

/// The options of a scheme whose workers need a sum of their own to measure their distance. They
/// measure it after their updates of a step, before the replicas exchange anything: all-reduce and
/// bytes are a part of that step.
struct DistanceOptions {
  bool distance = false;
  std::int64_t distance_every = 0;

  /// Whether the distance is measured after `done` of so many steps.
  bool measures(std::int64_t done, std::int64_t steps) const {
    return distance && (done == steps || (distance_every > 0 && done % distance_every == 0));
  }
};

/// Adds the fields of these options to a scheme's own.
Fields with_distance(DistanceOptions& options, Fields own);

/// The bytes that a worker sends in a step to measure the distance, without the last step's.
double distance_bytes(const DistanceOptions& options, const StepShape& shape);

/// Measures the consensus distance |x - mean| / |mean| of replicas x, with the Euclidean norm of
/// all parameters of the model.
class ConsensusDistance {
 public:
  /// Takes memory for one more replica of `elements` values, and for the sums of `read_every`
  /// measurements. The device outlives this object.
  ConsensusDistance(Device& device, std::int64_t elements);

  /// Measures a replica whose mean with the others is `share` * `sum`, and changes neither tensor.
  /// Waits for the device in one of `read_every` calls.
  void measure(const Tensor& replica, const Tensor& sum, float share);

  /// The figure "consensus distance": the mean over all measurements so far. Waits for the device.
  /// Empty on a device without values.
  std::vector<SchemeFigure> figures() const;

  static constexpr std::int64_t read_every = 64;

 private:
  /// The sum of the distances that have been measured and not read.
  double unread() const;

  Device& device_;
  Tensor difference_;
  Tensor squares_;             // [read_every, 2, ExactSum::digits] fp64: |x - mean|^2 and |sum|^2
  std::vector<float> shares_;  // of the measurements that have not been read
  double total_ = 0;           // of those that have been read
  std::int64_t measured_ = 0;  // how many there are in all
};

}  // namespace ringside::peer
