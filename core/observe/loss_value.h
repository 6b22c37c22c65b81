// The contribution of some samples to a loss.
#pragma once

#include "core/base/fields.h"

namespace ringside {

/// The contribution of some samples to the means over the global batch.
struct LossValue {
  double loss = 0;        // the sum of all terms
  double first_term = 0;  // the loss of the first term alone, in evaluation
  double accuracy = 0;    // of the first term, in evaluation: the share of rows whose largest logit
                          // is at the target
  LossValue& operator+=(const LossValue& other) {
    loss += other.loss;
    first_term += other.first_term;
    accuracy += other.accuracy;
    return *this;
  }
};

inline Fields fields_of(LossValue& loss) {
  return {{"loss", &loss.loss}, {"first_term", &loss.first_term}, {"accuracy", &loss.accuracy}};
}

}  // namespace ringside
