// Whether a run is the training run that it should be.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/observe/row.h"

namespace ringside {

/// What a run computed beside its reference: `single` over the same micro-batches. Of two the later
/// one is worse.
enum class Sameness : std::uint8_t {
  reference,      // it is one
  bit_identical,  // equal parameters at the end, equal losses and evaluations
  to_rounding,    // losses within largest_rounding() of each other, relatively
  different,
  not_computed,   // simulated without numerics
  unknown,        // no reference has finished
  own_algorithm,  // its scheme promises nothing else
};
std::string_view name_of(Sameness sameness);

struct Verdict {
  Sameness sameness = Sameness::unknown;
  double difference = 0;  // largest relative one of training and held-out losses
};

/// The worst one of `repeats`, which have finished; the references are among `rows`.
Verdict verdict(const std::vector<const Row*>& repeats, const std::vector<Row>& rows);

/// How far losses of one training run may be apart because sums have another order: 1e-5 on the
/// CPU, 1e-4 on GPUs, whose libraries choose their own from call to call; 1e-2 for bf16, with its 8
/// bits.
double largest_rounding(const RunPlan& plan);

/// Largest |a - b| / |b| over the steps; infinite for losses of different length.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace ringside
