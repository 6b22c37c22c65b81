#include "core/train/running_statistics.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/plan/slices.h"
#include "core/train/saved_state.h"

namespace ringside {

void RunningStatistics::average(const StepAssignment& assignment) {
  std::vector<const Unit::Statistic*> statistics;
  std::size_t count = 0;
  for (const auto& unit : model_.units)
    for (const Unit::Statistic& statistic : unit->statistics()) {
      statistics.push_back(&statistic);
      count += static_cast<std::size_t>(statistic.values.count());
    }
  const std::size_t micro_batches = count == 0 ? 0 : statistics[0]->later.size() + 1;
  const auto own_replicas = static_cast<std::size_t>(scheme_.own_replicas());
  // A rank that has not trained yet has no statistics of later micro-batches.
  const std::size_t each_replica =
      own_replicas > 0 ? static_cast<std::size_t>(context_.plan.train.accumulation) / own_replicas
                       : micro_batches;
  const int world = own_replicas > 0 ? 1 : context_.plan.world;
  const bool begun = micro_batches >= std::max<std::size_t>(1, own_replicas * each_replica);
  if (count == 0 || !begun || (world == 1 && each_replica <= 1)) return;
  Device& device = context_.device;
  // Where micro-batches differ in size, each counts with its number of samples; otherwise with 1.
  const bool uneven = !context_.plan.train.weights.empty();
  const auto weight = [&](std::size_t m) {
    const auto micro_batch = static_cast<std::int64_t>(m);
    return uneven ? static_cast<double>(
                        slice_of(context_.plan, context_.self().worker, 0, micro_batch).count)
                  : 1.0;
  };
  const double weights = uneven ? static_cast<double>(context_.plan.train.global_batch)
                                : world * static_cast<double>(each_replica);
  // The bits must not depend on which rank adds up which micro-batches. The sum of fp32 values with
  // weights of 2^9 together is exact in fp64 if no value is more than 2^20 times another. Otherwise
  // the mean in fp32 differs in about one of 2^28 cases.
  std::vector<double> sums(count);
  std::vector<float> values;
  const auto each = [&](std::size_t replica, const auto& visit) {
    std::size_t at = 0;
    for (const Unit::Statistic* statistic : statistics) {
      values.resize(static_cast<std::size_t>(statistic->values.count()));
      for (std::size_t m = replica * each_replica; m < (replica + 1) * each_replica; ++m)
        visit(m == 0 ? statistic->values : statistic->later[m - 1], at, weight(m));
      at += values.size();
    }
  };
  const auto first = static_cast<std::size_t>(assignment.first) / each_replica;
  const std::size_t end =
      own_replicas > 0 ? first + static_cast<std::size_t>(assignment.micro_batches) / each_replica
                       : first + 1;
  for (std::size_t replica = first; replica < end; ++replica) {
    std::fill(sums.begin(), sums.end(), 0.0);
    each(replica, [&](const Tensor& from, std::size_t at, double times) {
      device.read(from, std::as_writable_bytes(std::span(values)));
      for (std::size_t i = 0; i < values.size(); ++i) sums[at + i] += times * values[i];
    });
    if (own_replicas == 0) scheme_.sum(sums);
    each(replica, [&](const Tensor& to, std::size_t at, double) {
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(sums[at + i] / weights);
      device.write(to, std::as_bytes(std::span(values)));
    });
  }
}

void RunningStatistics::take(CheckpointPart& part) const {
  const std::int64_t first = context_.self().worker * context_.plan.train.accumulation;
  std::vector<float> values;
  for (std::int64_t m = 0; m < context_.plan.train.accumulation; ++m) {
    HostRange own{.key = {statistics_state, first + m}, .begin = 0, .values = {}};
    for (std::size_t u = 0; u < model_.units.size(); ++u) {
      const std::int64_t follows = own.begin + static_cast<std::int64_t>(own.values.size());
      if (const std::int64_t place = place_of(u, follows); place != follows) {
        part.add(std::exchange(own, {.key = own.key, .begin = place, .values = {}}));
      }
      for (const Unit::Statistic& statistic : model_.units[u]->statistics()) {
        const Tensor& from = m == 0 || statistic.later.empty()
                                 ? statistic.values
                                 : statistic.later[static_cast<std::size_t>(m - 1)];
        values.resize(static_cast<std::size_t>(from.count()));
        context_.device.read(from, std::as_writable_bytes(std::span(values)));
        own.values.insert(own.values.end(), values.begin(), values.end());
      }
    }
    part.add(std::move(own));
  }
}

std::int64_t RunningStatistics::place_of(std::size_t unit, std::int64_t follows) const {
  return model_.part ? model_.part->first_statistics[unit] : follows;
}

void RunningStatistics::restore(const Checkpoint& from) {
  const RunPlan& plan = context_.plan;
  std::int64_t count = 0;
  for (const auto& unit : model_.units)
    for (const Unit::Statistic& statistic : unit->statistics()) count += statistic.values.count();
  if (count == 0) return;
  const std::map<StateKey, std::int64_t> state = from.state();
  const auto saved = std::ranges::count_if(
      state, [](const auto& one) { return one.first.name == statistics_state; });
  if (saved != plan.world * plan.train.accumulation)
    throw Error(
        "{}: steps had {} micro-batches, each with running statistics of its own, but now they "
        "have {}; set train.micro_batch so that they have as many",
        from.path().string(), saved, plan.world * plan.train.accumulation);
  const std::int64_t first = context_.self().worker * plan.train.accumulation;
  std::vector<float> values;
  for (std::int64_t m = 0; m < plan.train.accumulation; ++m) {
    std::int64_t at = 0;
    for (std::size_t u = 0; u < model_.units.size(); ++u) {
      at = place_of(u, at);
      for (std::size_t s = 0; s < model_.units[u]->statistics().size(); ++s) {
        Unit::Statistic& statistic = model_.units[u]->statistic(s);
        while (static_cast<std::int64_t>(statistic.later.size()) < m)
          statistic.later.push_back(
              context_.device.tensor(statistic.values.shape(), MemoryKind::parameter));
        const Tensor& to =
            m == 0 ? statistic.values : statistic.later[static_cast<std::size_t>(m - 1)];
        values.resize(static_cast<std::size_t>(to.count()));
        from.read({statistics_state, first + m}, at, values);
        context_.device.write(to, std::as_bytes(std::span(values)));
        at += to.count();
      }
    }
  }
}

}  // namespace ringside
