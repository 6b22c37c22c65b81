#include "core/observe/over_ranks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "core/observe/parameter_digest.h"
#include "core/plan/mesh.h"

namespace ringside {
namespace {

/// The number of micro-batches of a step, over all ranks with different samples.
std::size_t micro_batches(const RunPlan& plan) {
  return static_cast<std::size_t>(plan.train.accumulation * data_world(plan));
}

/// The losses that a run does not have, of all that its replay computes: those of workers that it
/// lost, and those of earlier processes in a worker's seat.
class UnknownLosses {
 public:
  explicit UnknownLosses(const RunPlan& plan) : plan_(plan) {
    if (plan.history.empty()) return;
    for (EventReader events(plan.history[0]); const auto event = events.peek(); events.skip())
      if (event->kind == RangeEvent::Kind::came) known_from_[event->worker] = event->steps;
  }
  /// Whether they have those of this micro-batch of the step.
  bool have(std::int64_t step, std::int64_t micro_batch) const {
    if (plan_.lost.empty() && known_from_.empty()) return false;
    const std::int64_t worker = micro_batch * plan_.defines / plan_.train.accumulation;
    if (std::find(plan_.lost.begin(), plan_.lost.end(), worker) != plan_.lost.end()) return true;
    const auto known = known_from_.find(worker);
    return known != known_from_.end() && step < known->second;
  }

 private:
  const RunPlan& plan_;
  std::map<std::int64_t, std::int64_t> known_from_;  // step, by worker
};

/// The factor that makes up for shares that are missing.
double make_up(std::size_t all, std::size_t there) {
  return static_cast<double>(all) / static_cast<double>(there);
}

/// The index at which `share` of all counts are reached.
std::size_t quantile_of(const std::vector<std::int64_t>& counts, double share) {
  const auto all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const double rank = std::max(1.0, std::ceil(share * static_cast<double>(all)));
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (static_cast<double>(sum += counts[i]) >= rank) return i;
  return 0;
}

void add(Evaluation& sum, const std::vector<LossValue>& shares) {
  for (const LossValue& share : shares) {
    sum.loss += share.loss;
    sum.first_term += share.first_term;
    sum.accuracy += share.accuracy;
  }
}

void scale(Evaluation& sum, double factor) {
  sum.loss *= factor;
  sum.first_term *= factor;
  sum.accuracy *= factor;
}

/// Of each block of the parameters, the rank that keeps all of it, or -1; empty if no rank says
/// what it keeps.
std::vector<std::int64_t> keepers_of_blocks(const std::vector<RankRecord>& ranks) {
  std::int64_t all = 0;
  for (const RankRecord& rank : ranks) all = std::max(all, rank.parameters);
  const std::int64_t each = elements_of_block(all);
  std::vector<std::int64_t> keepers;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    for (const auto& [begin, count] : ranks[r].kept) {
      keepers.resize(static_cast<std::size_t>((all + each - 1) / each), -1);
      for (std::int64_t b = (begin + each - 1) / each;
           b * each < all && std::min((b + 1) * each, all) <= begin + count; ++b)
        if (auto& keeper = keepers[static_cast<std::size_t>(b)]; keeper < 0)
          keeper = static_cast<std::int64_t>(r);
    }
  return keepers;
}

/// The time of the rank's first `step` steps, in seconds.
double training_s(const RankRecord& rank, std::int64_t step) {
  double sum = 0;
  for (std::size_t s = 0; s < std::min(rank.steps.size(), static_cast<std::size_t>(step)); ++s)
    sum += rank.steps[s].total;
  return sum;
}

}  // namespace

std::vector<double> losses_of_steps(const RunPlan& plan, const std::vector<RankRecord>& ranks) {
  const auto each = static_cast<std::size_t>(plan.train.accumulation);
  const std::size_t all = micro_batches(plan);
  const UnknownLosses unknown(plan);
  std::vector<double> sums;
  std::vector<std::size_t> counts;
  for (const RankRecord& rank : ranks) {
    const auto place = [&](std::size_t i) {
      return rank.loss_places.empty() ? i : static_cast<std::size_t>(rank.loss_places[i]);
    };
    std::vector<std::size_t> order(rank.losses.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
    for (const std::size_t i : order) {
      const std::size_t step = place(i) / each;
      if (unknown.have(static_cast<std::int64_t>(step), static_cast<std::int64_t>(place(i) % each)))
        continue;
      if (sums.size() <= step) {
        sums.resize(step + 1);
        counts.resize(step + 1);
      }
      sums[step] += rank.losses[i];
      ++counts[step];
    }
  }
  for (std::size_t s = 0; s < sums.size(); ++s)
    if (counts[s] > 0 && counts[s] < all) sums[s] *= make_up(all, counts[s]);
  return sums;
}

std::vector<Evaluation> evaluations_of(const RunPlan& plan, const std::vector<RankRecord>& ranks) {
  const std::size_t all = micro_batches(plan);
  const UnknownLosses unknown(plan);
  std::map<std::int64_t, std::pair<Evaluation, std::size_t>> by_step;
  for (const RankRecord& rank : ranks) {
    std::vector<const RankRecord::Evaluation*> order;
    for (const auto& evaluation : rank.evaluations) order.push_back(&evaluation);
    std::stable_sort(order.begin(), order.end(),
                     [](const auto* a, const auto* b) { return a->first < b->first; });
    for (const RankRecord::Evaluation* from : order) {
      if (unknown.have(from->step - 1, from->first)) continue;
      auto& [sum, count] = by_step[from->step];
      sum.step = from->step;
      add(sum, from->shares);
      count += from->shares.size();
      sum.seconds = std::max(sum.seconds, from->seconds);
      sum.training_s = std::max(sum.training_s, training_s(rank, from->step));
    }
  }
  std::vector<Evaluation> out;
  for (auto& [step, evaluated] : by_step) {
    auto& [sum, count] = evaluated;
    if (count > 0 && count < all) scale(sum, make_up(all, count));
    out.push_back(sum);
  }
  return out;
}

std::vector<Evaluation> held_out_over_time(const RunPlan& plan,
                                           const std::vector<RankRecord>& ranks) {
  struct Moment {
    double training_s = 0;
    std::size_t rank = 0;
    const RankRecord::Evaluation* evaluation = nullptr;
  };
  std::vector<Moment> moments;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    for (const auto& evaluation : ranks[r].evaluations)
      moments.push_back({training_s(ranks[r], evaluation.step), r, &evaluation});
  std::stable_sort(moments.begin(), moments.end(),
                   [](const Moment& a, const Moment& b) { return a.training_s < b.training_s; });
  const auto evaluating = static_cast<std::size_t>(
      std::count_if(ranks.begin(), ranks.end(),
                    [](const RankRecord& rank) { return !rank.evaluations.empty(); }));
  std::map<std::size_t, const RankRecord::Evaluation*> latest;  // by rank
  std::vector<Evaluation> out;
  for (const Moment& moment : moments) {
    latest[moment.rank] = moment.evaluation;
    if (latest.size() < evaluating) continue;
    Evaluation sum{.seconds = moment.evaluation->seconds, .training_s = moment.training_s};
    std::int64_t steps = 0;
    for (const auto& [rank, evaluation] : latest) {
      add(sum, evaluation->shares);
      steps += evaluation->step;
    }
    if (const auto all = static_cast<std::size_t>(data_world(plan)); evaluating < all)
      scale(sum, make_up(all, evaluating));
    sum.step = steps / static_cast<std::int64_t>(evaluating);
    out.push_back(sum);
  }
  return out;
}

RunParameters parameters_at_end(const std::vector<RankRecord>& ranks,
                                std::vector<std::string>& hashes) {
  RunParameters out;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankRecord& rank = ranks[r];
    if (rank.parameter_hashes.empty()) continue;
    if (out.shown_by++ == 0) {
      hashes = rank.parameter_hashes;
      out.blocks = rank.parameter_blocks;
    } else if (rank.first_replica > 0) {
      hashes.insert(hashes.end(), rank.parameter_hashes.begin(), rank.parameter_hashes.end());
    } else if (rank.parameter_hashes != hashes) {
      out.differing.push_back(static_cast<std::int64_t>(r));
    }
  }
  if (hashes.size() > 1) out.blocks.clear();
  out.keepers = keepers_of_blocks(ranks);
  return out;
}

double stood_still_s(const RunPlan& plan, const std::vector<RankRecord>& ranks) {
  constexpr std::size_t fewest = 4;          // fewer steps do not tell what is usual
  constexpr double times = 20, least_s = 2;  // longer than most steps, and by how much
  constexpr double once = 4;                 // times as long as the second longest
  double most = 0;
  for (const RankRecord& rank : ranks) {
    // A run without warm-up has a long first step.
    const auto first = static_cast<std::size_t>(std::max<std::int64_t>(1, plan.train.warmup));
    std::vector<double> steps;
    for (std::size_t s = first; s < rank.steps.size(); ++s) steps.push_back(rank.steps[s].total);
    if (steps.size() < fewest) continue;
    std::sort(steps.begin(), steps.end());
    const double longest = steps.back(), second = steps[steps.size() - 2];
    const double usual = steps[steps.size() / 2];
    if (longest > times * usual && longest > usual + least_s && longest > once * second)
      most = std::max(most, longest - usual);
  }
  return most;
}

std::optional<RunStaleness> staleness_of(const std::vector<RankRecord>& ranks) {
  Staleness all;
  bool any = false;
  for (const RankRecord& rank : ranks) {
    if (!rank.staleness) continue;
    any = true;
    all.add(*rank.staleness);
  }
  if (!any) return {};
  const auto updates = [&](double share) {
    return static_cast<double>(quantile_of(all.updates, share));
  };
  const auto ms = [&](double share) {
    return all.times.empty() ? 0 : 1e3 * Staleness::time_of_bin(quantile_of(all.times, share));
  };
  return RunStaleness{updates(0.5), updates(0.95), updates(1), {ms(0.5), ms(0.95), ms(1)},
                      all.updates,  all.dropped};
}

}  // namespace ringside
