#include "experiments/report/verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/plan/same_run.h"

namespace ringside {
namespace {

/// The run that a row is held against; null if no such run has finished. For a scheme with an
/// algorithm of its own this is the run of the scheme's definition for the row's world. For the
/// others it is a run of `single` that trains the same, best one that adds up in the same order;
/// with any other order the row can agree to rounding only, not bit for bit. A run of `single` on
/// all cores is never a reference, because kernels of several threads may add up in another order.
struct Reference {
  const Row* row = nullptr;
  bool same_sums = false;
};

Reference reference_of(const Row& row, const std::vector<Row>& rows) {
  Reference found;
  for (const Row& candidate : rows) {
    const RunPlan& plan = candidate.plan;
    if (candidate.status != "ok") continue;
    if (plan.purpose == Purpose::all_cores) continue;
    const bool same_sums = must_equal(row.plan, plan);
    const bool usable = same_sums || equals_to_rounding(row.plan, plan);
    const auto worth = [&](const RunPlan& one, bool sums) {
      return std::pair(sums, one.device.threads == row.plan.device.threads);
    };
    if (usable && (!found.row || worth(plan, same_sums) > worth(found.row->plan, found.same_sums)))
      found = {&candidate, same_sums};
  }
  return found;
}

/// Compares parameters, losses and evaluations bit for bit. The hash of the parameters alone would
/// not reveal a scheme that computes right gradients and wrong losses.
bool same_bits(const Row& a, const Row& b) {
  const auto same_values = [](const Evaluation& x, const Evaluation& y) {
    return x.step == y.step && x.loss == y.loss && x.first_term == y.first_term &&
           x.accuracy == y.accuracy;
  };
  return !a.parameter_hashes.empty() && a.parameter_hashes == b.parameter_hashes &&
         a.loss == b.loss &&
         std::equal(a.evaluations.begin(), a.evaluations.end(), b.evaluations.begin(),
                    b.evaluations.end(), same_values);
}

/// The largest relative difference of the losses in training and in evaluations.
double difference_of(const Row& a, const Row& b) {
  const auto held_out = [](const Row& row) {
    std::vector<double> losses;
    for (const auto& evaluation : row.evaluations) {
      losses.push_back(evaluation.loss);
      losses.push_back(evaluation.first_term);
    }
    return losses;
  };
  return std::max(largest_difference(a.loss, b.loss), largest_difference(held_out(a), held_out(b)));
}

/// Whether accuracies differ by at most 0.01. An accuracy counts right predictions: where losses
/// agree to rounding, a few samples may still be predicted differently.
bool close_accuracies(const Row& a, const Row& b) {
  return std::equal(
      a.evaluations.begin(), a.evaluations.end(), b.evaluations.begin(), b.evaluations.end(),
      [](const auto& x, const auto& y) { return std::abs(x.accuracy - y.accuracy) <= 0.01; });
}

/// Whether nothing but an error can make the parameters differ from the reference's if all losses
/// are equal to the bit: GPUs, batch norms over several ranks, and reductions after every
/// micro-batch may round in another order, and a run of one step has no loss after it.
bool losses_show_parameters(const RunPlan& plan) {
  const bool other_order =
      plan.train.reduce == Reduce::every && plan.train.accumulation > 1 && !plan.sums.own_order;
  return plan.device.kind != "cuda" && !plan.program && plan.model.batch_norm_group == 1 &&
         !other_order && plan.train.steps > 1;
}

/// Holds a run against its replay.
Verdict replay_verdict(const Row& row) {
  if (!row.replay) return {Proof::not_shown, 0, "it has not been replayed"};
  if (!row.replay->error.empty())
    return {Proof::not_shown, 0, "its replay failed: " + row.replay->error};
  Row replay;
  replay.parameter_hashes = row.replay->parameter_hashes;
  replay.loss = row.replay->loss;
  replay.evaluations = row.replay->evaluations;
  const double difference = difference_of(row, replay);
  if (same_bits(row, replay)) return {Proof::identical_to_replay};
  const bool close = row.plan.device.kind == "cuda" && difference <= largest_rounding(row.plan) &&
                     close_accuracies(row, replay);
  return {close ? Proof::to_rounding : Proof::different, difference,
          difference == 0 ? "the parameters at the end differ" : ""};
}

Verdict verdict(const Row& row, const Reference& reference) {
  const RunPlan& plan = row.plan;
  if (!computes(plan)) return {Proof::not_shown, 0, "simulated without values"};
  if (plan.promise == Promise::replayed) return replay_verdict(row);
  if (plan.defines > 0 && plan.promise != Promise::same_run) return {Proof::reference};
  if (!reference.row)
    return {
        Proof::not_shown, 0,
        has_own_definition(plan) ? "its definition has not finished" : "no reference has finished"};
  if (reference.row == &row) return {Proof::reference};
  const double difference = difference_of(row, *reference.row);
  if (reference.same_sums && same_bits(row, *reference.row)) {
    // A repeat of the reference's own case proves nothing by having the same bits, so the repeat is
    // called a reference too.
    if (same_case(plan, reference.row->plan)) return {Proof::reference, difference};
    return {reference.row->plan.defines > 0 ? Proof::identical_to_definition
                                            : Proof::identical_to_single,
            difference};
  }
  if (reference.same_sums && difference == 0 && losses_show_parameters(plan) &&
      row.parameter_hashes != reference.row->parameter_hashes)
    return {Proof::different, 0, "the parameters at the end differ"};
  // Another program keeps parameters in another order, so it reports no hashes.
  const bool as_many =
      plan.program || row.parameter_hashes.size() == reference.row->parameter_hashes.size();
  const bool close =
      as_many && difference <= largest_rounding(plan) && close_accuracies(row, *reference.row);
  return {close ? Proof::to_rounding : Proof::different, difference};
}

}  // namespace

double largest_rounding(const RunPlan& plan) {
  if (parameter_dtype(plan.train) != DType::f32 || reduce_dtype(plan.train) != DType::f32)
    return 1e-2;
  return plan.device.kind == "cuda" || plan.program ? 1e-4 : 1e-5;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    const double difference = std::abs(a[i] - b[i]) / std::abs(b[i]);
    // A loss that is NaN differs from every other.
    largest = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                     : std::max(largest, difference);
  }
  return largest;
}

Verdict verdict(const std::vector<const Row*>& repeats, const std::vector<Row>& rows) {
  Verdict worst{Proof::reference};
  for (const Row* row : repeats) {
    Verdict one = verdict(*row, reference_of(*row, rows));
    one.difference = std::max(worst.difference, one.difference);
    if (one.proof >= worst.proof) worst = one;
    worst.difference = one.difference;
  }
  return worst;
}

}  // namespace ringside
