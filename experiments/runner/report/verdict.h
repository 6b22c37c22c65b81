// The verdict on whether a run computed what its scheme promises.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/observe/run_record.h"

namespace ringside::runner {

/// The possible verdicts on a run: whether it computed what its scheme promises. The definition of
/// a scheme that promises the same run is `single` over the same micro-batches, unless the scheme
/// has an order of sums of its own (see SumTree). The values are ordered: a later one is worse than
/// an earlier one.
enum class Proof : std::uint8_t {
  reference,                // other runs are compared with this run
  identical_to_single,      // equal parameters at the end, equal losses and evaluations
  identical_to_definition,  // the same for a scheme with a definition of its own
  identical_to_replay,      // the same, with a definition that repeats the record of the run
  to_rounding,              // losses differ by at most largest_rounding(), relatively
  not_shown,                // nothing was computed, or there is no run with which to compare
  different
};
inline constexpr std::string_view proof_names[] = {"reference",
                                                   "bit-identical to single",
                                                   "bit-identical to its definition",
                                                   "bit-identical to its definition (replayed)",
                                                   "to rounding",
                                                   "not shown",
                                                   "DIFFERENT"};
constexpr EnumNames names_of(Proof) { return proof_names; }

struct Verdict {
  Proof proof = Proof::not_shown;
  double difference = 0;  // largest relative difference of training and held-out losses
  std::string cause{};    // why nothing is shown, or what differs if losses do not
};

/// The worst verdict of all `repeats`, which have finished. `rows` contain the references.
Verdict verdict(const std::vector<const RunRecord*>& repeats, const std::vector<RunRecord>& rows);

/// The largest relative difference that losses of one training run may have because sums are added
/// up in another order: 1e-5 on the CPU; 1e-4 on GPUs, whose libraries choose an order from call to
/// call, and for the kernels of another program (RunPlan::program); 1e-2 for parameters or sums of
/// 16 bits (bf16 has 8 significant bits), which are those of some compressors too.
double largest_rounding(const RunPlan& plan);

/// The largest |a - b| / |b| over all steps; infinite if a and b differ in length.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace ringside::runner
