#include "experiments/runner/plan/shares.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "core/base/error.h"
#include "experiments/runner/plan/measurements.h"
#include "experiments/runner/plan/speeds.h"

namespace ringside::runner {
namespace {

using Samples = std::vector<std::int64_t>;

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t sum_of(const Samples& all) {
  return std::accumulate(all.begin(), all.end(), std::int64_t{0});
}

/// The fewest micro-batches into which `samples` samples of a rank may be split.
std::int64_t fewest(const TrainConfig& train, std::int64_t samples) {
  const std::int64_t fitting =
      train.micro_batch > 0 ? ceil_divide(samples, train.micro_batch) : std::int64_t{1};
  return std::max(train.accumulation, fitting);
}

std::int64_t divide_equally(const TrainConfig& train, std::int64_t ranks, const std::string& who) {
  const std::string key = train.batch_per_rank > 0 ? "train.batch_per_rank" : "train.global_batch";
  if (train.global_batch % ranks != 0)
    throw Error("train.global_batch = {} is not divisible by {}; choose a multiple of {}",
                train.global_batch, who, ranks);
  const std::int64_t share = train.global_batch / ranks;
  const std::int64_t count = fewest(train, share);
  if (count > share || share % count != 0)
    throw Error(
        "{} = {} gives each rank of {} {} samples, which {} micro-batches do not "
        "divide evenly; choose another {}, train.micro_batch or "
        "train.accumulation",
        key, train.batch_per_rank > 0 ? train.batch_per_rank : train.global_batch, who, share,
        count, key);
  return count;
}

/// Replaces the weights by the sizes of micro-batches, in the same proportions.
std::int64_t divide_by_weights(TrainConfig& train) {
  const std::int64_t parts = sum_of(train.weights);
  if (train.global_batch % parts != 0)
    throw Error(
        "train.shares = [{}] divides a step into {} parts, and train.global_batch = {} is no "
        "multiple of that; choose one that is",
        fmt::join(train.weights, ", "), parts, train.global_batch);
  const std::int64_t part = train.global_batch / parts;
  const std::int64_t largest = *std::max_element(train.weights.begin(), train.weights.end());
  const std::int64_t count = fewest(train, part * largest);
  if (part % count != 0)
    throw Error(
        "train.shares = [{}] gives ranks multiples of {} samples, which {} micro-batches do not "
        "divide evenly; choose another train.global_batch, train.micro_batch or train.accumulation",
        fmt::join(train.weights, ", "), part, count);
  for (std::int64_t& weight : train.weights) weight *= part / count;
  return count;
}

/// Divides `samples` samples over ranks with these speeds in samples a second, at least one for
/// each, so that the slowest rank is as fast as possible: first in proportion, rounded down; then
/// each sample that is left goes to the rank that would finish it first.
Samples in_proportion(std::int64_t samples, const std::vector<double>& speeds) {
  const double together = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  const auto seconds = [&](const Samples& all, std::size_t rank, std::int64_t more) {
    return static_cast<double>(all[rank] + more) / speeds[rank];
  };
  Samples out;
  for (const double speed : speeds)
    out.push_back(std::max<std::int64_t>(
        1, static_cast<std::int64_t>(static_cast<double>(samples) * speed / together)));
  for (std::int64_t left = samples - sum_of(out); left != 0; left += left > 0 ? -1 : 1) {
    std::size_t best = 0;
    for (std::size_t rank = 1; rank < out.size(); ++rank)
      if (left > 0 ? seconds(out, rank, 1) < seconds(out, best, 1)
                   : seconds(out, rank, 0) > seconds(out, best, 0))
        best = rank;
    out[best] += left > 0 ? 1 : -1;
  }
  return out;
}

/// The shares of `samples` samples. Larger micro-batches are faster for each sample, so speeds are
/// measured with equal shares first, and then once more with the shares that follow from these.
Samples shares_by_speed(MicroBatchTimes& times, std::int64_t samples, std::int64_t ranks) {
  Samples shares(static_cast<std::size_t>(ranks), ceil_divide(samples, ranks));
  for (int round = 0; round < 2; ++round) {
    std::vector<double> speeds;
    for (std::size_t rank = 0; rank < shares.size(); ++rank)
      speeds.push_back(static_cast<double>(shares[rank]) /
                       times.seconds(static_cast<int>(rank), shares[rank]));
    shares = in_proportion(samples, speeds);
  }
  return shares;
}

/// Puts shares into train.weights, and returns the number of micro-batches. `shares_of` divides the
/// samples of all ranks' micro-batches.
std::int64_t divide_by(const std::function<Samples(std::int64_t)>& shares_of, TrainConfig& train,
                       std::int64_t ranks, const std::string& who) {
  const std::int64_t first = fewest(train, ceil_divide(train.global_batch, ranks));
  for (std::int64_t count = first; count <= train.global_batch / ranks; ++count) {
    if (train.global_batch % count != 0) continue;
    Samples shares = shares_of(train.global_batch / count);
    const std::int64_t largest = *std::max_element(shares.begin(), shares.end());
    if (train.micro_batch > 0 && largest > train.micro_batch) continue;
    train.weights = std::move(shares);
    return count;
  }
  throw Error(
      "train.shares = 'speed': train.global_batch = {} cannot be divided over {} into {} or more "
      "micro-batches of equal number; choose another train.global_batch, train.micro_batch or "
      "train.accumulation",
      train.global_batch, who, first);
}

std::int64_t divide_by_simulated_speed(RunPlan& plan, std::int64_t ranks, const std::string& who) {
  MicroBatchTimes times(plan);
  return divide_by([&](std::int64_t samples) { return shares_by_speed(times, samples, ranks); },
                   plan.train, ranks, who);
}

/// Leaves train.shares at Shares::speed if the speeds are not among `measured`. They are measured
/// with equal shares only, to keep the measurement short: a device that is faster with larger
/// micro-batches may get somewhat less than its due.
std::int64_t divide_by_measured_speed(RunPlan& plan, std::int64_t ranks, const std::string& who,
                                      const std::vector<MeasuredSpeeds>& measured) {
  if (plan.model.batch_norm_group > 1)
    throw Error(
        "model.batch_norm_group = {} joins micro-batches of equal size, but train.shares = 'speed' "
        "gives workers different ones; leave one of the two out",
        plan.model.batch_norm_group);
  std::vector<double> speeds(static_cast<std::size_t>(ranks), 1.0);
  const auto shares_of = [&](std::int64_t samples) { return in_proportion(samples, speeds); };
  const std::int64_t count = divide_by(shares_of, plan.train, ranks, who);
  const MeasuredSpeeds* found = find_speeds(measured, speed_setting(plan));
  if (!found) return count;
  speeds = speeds_of(*found);
  plan.train.shares = Shares::given;
  return divide_by(shares_of, plan.train, ranks, who);
}

void make_equal_if_even(TrainConfig& train) {
  const Samples& all = train.weights;
  if (std::adjacent_find(all.begin(), all.end(), std::not_equal_to<>()) != all.end()) return;
  train.shares = Shares::equal;
  train.weights.clear();
}

}  // namespace

void settle_shares(TrainConfig& train, std::int64_t ranks, const std::string& who) {
  if (ranks == 1) {
    train.shares = Shares::equal;
    train.weights.clear();
  }
  if (train.shares != Shares::given) return;
  if (static_cast<std::int64_t>(train.weights.size()) != ranks)
    throw Error("train.shares = [{}] must have one weight for each of the {} ranks of {}",
                fmt::join(train.weights, ", "), ranks, who);
  std::int64_t divisor = 0;
  for (const std::int64_t weight : train.weights) {
    if (weight < 1 || weight > train.global_batch)
      throw Error("train.shares = [{}] must have weights between 1 and train.global_batch = {}",
                  fmt::join(train.weights, ", "), train.global_batch);
    divisor = std::gcd(divisor, weight);
  }
  for (std::int64_t& weight : train.weights) weight /= divisor;
  make_equal_if_even(train);
}

std::int64_t divide(RunPlan& plan, std::int64_t ranks, const std::string& who,
                    const std::vector<MeasuredSpeeds>& measured) {
  TrainConfig& train = plan.train;
  if (train.shares == Shares::equal) return divide_equally(train, ranks, who);
  std::int64_t count = 0;
  if (train.shares == Shares::given) {
    count = divide_by_weights(train);
  } else if (plan.cluster) {
    count = divide_by_simulated_speed(plan, ranks, who);
    train.shares = Shares::given;
  } else {
    count = divide_by_measured_speed(plan, ranks, who, measured);
  }
  if (train.shares == Shares::given) make_equal_if_even(train);
  return count;
}

}  // namespace ringside::runner
