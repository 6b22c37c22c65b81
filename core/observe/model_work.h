// The floating-point work of one sample, and the peak rate of a device.
#pragma once

#include <string>

#include "core/base/fields.h"

namespace ringside {

/// Floating-point operations of the products of one sample of full length, counted as
/// core/device/cost.h counts them: a multiplication and an addition are two.
struct ModelWork {
  double linear = 0, attention = 0, convolution = 0;  // of forward alone
  /// Of forward and backward as the run makes them: what is recomputed counts again, and backward
  /// of attention computes the scores again.
  double executed = 0;
  double tokens = 0;  // of such a sample; 0 for images

  double forward() const { return linear + attention + convolution; }
  /// Of a training step without recomputation: backward has two products for each one of forward.
  double model() const { return 3 * forward(); }
};

Fields fields_of(ModelWork& work);

/// The peak rate of one rank's device in products, in floating-point operations a second, and the
/// source of the figure.
struct Peak {
  double flops = 0;
  std::string dtype;  // of the products: as in DeviceSpec::tflops
  std::string source;
};

Fields fields_of(Peak& peak);

}  // namespace ringside
