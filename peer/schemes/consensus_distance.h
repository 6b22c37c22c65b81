// The distance of replicas from their mean.
#pragma once

#include <vector>

#include "core/device/device.h"
#include "core/observe/rank_record.h"

namespace ringside::peer {

/// Measures the consensus distance |x - mean| / |mean| of replicas x, with the Euclidean norm of
/// all parameters of the model.
class ConsensusDistance {
 public:
  /// Takes memory for one more replica of `elements` values, and for the sums of at most
  /// `measurements` measurements. The device outlives this object.
  ConsensusDistance(Device& device, std::int64_t elements, std::int64_t measurements);

  /// Measures a replica whose mean with the others is `share` * `sum`. Does not wait for the
  /// device, and changes neither tensor.
  void measure(const Tensor& replica, const Tensor& sum, float share);

  /// The figure "consensus distance": the mean over all measurements so far. Waits for the device.
  /// Empty on a device without values.
  std::vector<SchemeFigure> figures() const;

 private:
  Device& device_;
  Tensor difference_;
  Tensor squares_;             // [measurements, 2, ExactSum::digits] fp64: |x - mean|^2 and |sum|^2
  std::vector<float> shares_;  // of the measurements so far
};

}  // namespace ringside::peer
