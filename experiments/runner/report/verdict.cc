#include "experiments/runner/report/verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "core/compress/compressor_info.h"
#include "core/plan/device_traits.h"
#include "core/plan/mesh.h"
#include "core/plan/same_run.h"
#include "experiments/runner/report/text_table.h"

namespace ringside::runner {
namespace {

/// The run with which a record is compared; null if no such run has finished. For a scheme with an
/// algorithm of its own this is the run of the scheme's definition for the record's world. For the
/// others it is a run of `single` that trains the same, best one that adds up in the same order;
/// with any other order the record can agree to rounding only, not bit for bit. A run of `single`
/// on all cores is never a reference, because kernels of several threads may add up in another
/// order.
struct Reference {
  const RunRecord* row = nullptr;
  bool same_sums = false;
};

Reference reference_of(const RunRecord& row, const std::vector<RunRecord>& rows) {
  Reference found;
  for (const RunRecord& candidate : rows) {
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
/// not reveal a scheme that computes correct gradients and wrong losses.
bool same_bits(const RunRecord& a, const RunRecord& b) {
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
double difference_of(const RunRecord& a, const RunRecord& b) {
  const auto held_out = [](const RunRecord& row) {
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
bool close_accuracies(const RunRecord& a, const RunRecord& b) {
  return std::equal(
      a.evaluations.begin(), a.evaluations.end(), b.evaluations.begin(), b.evaluations.end(),
      [](const auto& x, const auto& y) { return std::abs(x.accuracy - y.accuracy) <= 0.01; });
}

/// Whether a run may round in another order than a reference with equal sums: on GPUs, in other
/// programs, and with reductions after every micro-batch that have no definition.
bool rounds_otherwise(const RunPlan& plan) {
  const bool other_order =
      plan.train.reduce == Reduce::every && plan.train.accumulation > 1 && !plan.sums.own_order;
  return !device_traits(plan.device.kind).repeats_bits || plan.program || other_order;
}

/// Whether kernels may round otherwise than those of the reference: with another number of threads,
/// and on hosts that may have other processors.
bool runs_otherwise(const RunPlan& plan, const RunPlan& reference) {
  const auto host = [](const RunPlan& of) { return of.homes.empty() ? "" : of.homes[0].host; };
  return plan.device.threads != reference.device.threads || spans_hosts(plan) ||
         host(plan) != host(reference);
}

/// Whether a run with the sums of its reference, but not with its bits, is another training run.
/// Losses alone cannot tell: a low learning rate makes those of any two runs agree to rounding, and
/// a run of one step has no loss after it.
bool is_another_run(const RunRecord& row, const RunRecord& reference, double difference) {
  if (rounds_otherwise(row.plan)) return false;
  if (!runs_otherwise(row.plan, reference.plan)) return true;
  return difference == 0 && row.plan.train.steps > 1 &&
         row.parameter_hashes != reference.parameter_hashes;
}

/// The ranks whose parameters differ from the reference's; none if that is not known. A
/// sharded rank is named if blocks that it alone keeps differ, and another's are all equal.
std::vector<std::int64_t> ranks_that_differ(const RunRecord& row, const RunRecord& reference) {
  std::set<std::int64_t> ranks, equal;
  const auto &own = row.parameter_hashes, &others = reference.parameter_hashes;
  const std::vector<std::int64_t>& keepers = row.at_end.keepers;
  const std::string& blocks = row.at_end.blocks;
  if (own.size() > 1 && own.size() == others.size()) {  // each worker has a replica of its own
    for (std::size_t r = 0; r < own.size(); ++r)
      (own[r] == others[r] ? equal : ranks).insert(static_cast<std::int64_t>(r));
  } else if (!keepers.empty() && blocks.size() == reference.at_end.blocks.size()) {
    const std::size_t digits = blocks.size() / keepers.size();
    for (std::size_t b = 0; b < keepers.size(); ++b) {
      if (keepers[b] < 0) continue;
      const bool same =
          blocks.compare(b * digits, digits, reference.at_end.blocks, b * digits, digits) == 0;
      (same ? equal : ranks).insert(keepers[b]);
    }
    for (const std::int64_t rank : ranks) equal.erase(rank);
  }
  if (equal.empty()) return {};
  return {ranks.begin(), ranks.end()};
}

/// The difference of two runs that must have the same bits; empty if the losses show it.
std::string what_differs(const RunRecord& row, const RunRecord& reference, double difference) {
  if (const auto ranks = ranks_that_differ(row, reference); !ranks.empty())
    return fmt::format("the parameters of {} at the end differ", ranks_text(ranks));
  if (difference > largest_rounding(row.plan)) return {};
  return row.parameter_hashes != reference.parameter_hashes
             ? "the parameters at the end differ"
             : "losses or accuracies differ, where every bit has to be equal";
}

/// The reason for which equal results prove nothing; empty if there is none.
std::string nothing_to_show(const RunRecord& row) {
  const RunPlan& plan = row.plan;
  if (plan.sums.lr == 0) return "optimizer.lr = 0, so no step changed a parameter";
  if (plan.train.steps > 0 && row.skipped_steps >= plan.train.steps)
    return "gradients overflowed in every step, so none changed a parameter";
  // One worker of each pipeline shows the whole model.
  const int showing = has_pipeline(plan) ? data_world(plan) : last_world(row);
  if (const auto shown = row.at_end.shown_by;
      plan.promise != Promise::replayed && shown > 0 && shown < showing)
    return fmt::format("of {} {} only {} showed the parameters at the end", showing,
                       has_pipeline(plan) ? "pipelines" : "workers", shown);
  const bool silent = std::all_of(row.ranks.begin(), row.ranks.end(), [](const RankRecord& rank) {
    return rank.bytes_sent_per_step == 0;
  });
  if (silent && bytes_known(row) && row.bytes_minimum_per_step > 0)
    return fmt::format(
        "no rank sent a byte in the measured steps, though the busiest has to send {} MB a step",
        megabytes(row.bytes_minimum_per_step));
  return {};
}

/// Compares a run with its replay.
Verdict replay_verdict(const RunRecord& row) {
  if (!row.replay) return {Proof::not_shown, 0, "it has not been replayed"};
  if (!row.replay->error.empty())
    return {Proof::not_shown, 0, "its replay failed: " + row.replay->error};
  RunRecord replay;
  replay.parameter_hashes = row.replay->parameter_hashes;
  replay.loss = row.replay->loss;
  replay.evaluations = row.replay->evaluations;
  const double difference = difference_of(row, replay);
  if (same_bits(row, replay)) return {Proof::identical_to_replay};
  const bool close = !device_traits(row.plan.device.kind).repeats_bits &&
                     difference <= largest_rounding(row.plan) && close_accuracies(row, replay);
  return {close ? Proof::to_rounding : Proof::different, difference,
          difference == 0 ? "the parameters at the end differ" : ""};
}

Verdict verdict(const RunRecord& row, const Reference& reference) {
  const RunPlan& plan = row.plan;
  if (!computes(plan)) return {Proof::not_shown, 0, "simulated without values"};
  if (const auto& ranks = row.at_end.differing; !ranks.empty())
    return {Proof::different, 0,
            fmt::format("the parameters of {} at the end differ from those of rank 0",
                        ranks_text(ranks))};
  if (lacks_definition(plan)) return {Proof::not_shown, 0, "no definition"};
  if (plan.promise == Promise::replayed || !row.worlds.empty()) return replay_verdict(row);
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
  if (reference.same_sums && is_another_run(row, *reference.row, difference))
    return {Proof::different, difference, what_differs(row, *reference.row, difference)};
  // Another program keeps parameters in another order, so it reports no hashes.
  const bool as_many =
      plan.program || row.parameter_hashes.size() == reference.row->parameter_hashes.size();
  const bool close =
      as_many && difference <= largest_rounding(plan) && close_accuracies(row, *reference.row);
  return {close ? Proof::to_rounding : Proof::different, difference};
}

/// Whether the scheme, whichever it is, has a compressor whose messages are added up in 16 bits.
bool sums_codes_in_16_bits(const RunPlan& plan) {
  for (const Field& field : plan.options.fields()) {
    const auto* name = std::get_if<std::string*>(&field.value);
    if (!name || field.name != "compressor" || **name == no_compressor) continue;
    for (const CompressorInfo& info : compressors())
      if (info.name == **name) return info.summed_in != DType::f32;
  }
  return false;
}

}  // namespace

double largest_rounding(const RunPlan& plan) {
  if (parameter_dtype(plan.train) != DType::f32 || reduce_dtype(plan.train) != DType::f32 ||
      sums_codes_in_16_bits(plan))
    return 1e-2;
  return !device_traits(plan.device.kind).repeats_bits || plan.program ? 1e-4 : 1e-5;
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

Verdict verdict(const std::vector<const RunRecord*>& repeats, const std::vector<RunRecord>& rows) {
  Verdict worst{Proof::reference};
  for (const RunRecord* row : repeats) {
    Verdict one = verdict(*row, reference_of(*row, rows));
    if (one.proof != Proof::reference && one.proof < Proof::not_shown)
      if (std::string cause = nothing_to_show(*row); !cause.empty())
        one = {Proof::not_shown, one.difference, std::move(cause)};
    one.difference = std::max(worst.difference, one.difference);
    if (one.proof >= worst.proof) worst = one;
    worst.difference = one.difference;
  }
  return worst;
}

}  // namespace ringside::runner
