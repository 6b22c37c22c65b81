// The verdict on whether a run computed the training that it should have computed.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/observe/row.h"

namespace ringside {

/// How a run compares with its reference: `single` over the same micro-batches. The values are
/// ordered: a later one is worse than an earlier one.
enum class Sameness : std::uint8_t {
  reference,      // the run is a reference itself
  bit_identical,  // equal parameters at the end, equal losses and evaluations
  to_rounding,    // losses differ by at most largest_rounding(), relatively
  different,
  not_computed,   // simulated without numerics
  unknown,        // no reference has finished
  own_algorithm,  // not compared: the scheme does not promise the results of `single`
};
inline constexpr std::string_view sameness_names[] = {
    "reference",    "bit-identical", "to rounding",  "DIFFERENT",
    "not computed", "no reference",  "own algorithm"};
constexpr EnumNames names_of(Sameness) { return sameness_names; }

struct Verdict {
  Sameness sameness = Sameness::unknown;
  double difference = 0;  // largest relative difference of training and held-out losses
};

/// The worst verdict of all `repeats`, which have finished. `rows` contain the references.
Verdict verdict(const std::vector<const Row*>& repeats, const std::vector<Row>& rows);

/// The largest relative difference that losses of one training run may have because sums are added
/// up in another order: 1e-5 on the CPU; 1e-4 on GPUs, whose libraries choose an order from call to
/// call; 1e-2 for 16-bit parameters (bf16 has 8 significant bits).
double largest_rounding(const RunPlan& plan);

/// The largest |a - b| / |b| over all steps; infinite if a and b differ in length.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace ringside
