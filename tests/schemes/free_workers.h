// Runs whose workers do not wait for each other.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "core/num/random.h"
#include "core/plan/definition.h"
#include "experiments/runner/report/verdict.h"
#include "experiments/runner/run/simulation.h"
#include "ps/schemes/ps.h"
#include "tests/schemes/simulated.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/schemes/wrapped.h"
#include "tests/support/small_cluster.h"

namespace ringside::testing {

/// Options under which workers do not wait for each other at every step, by a name for tests.
struct FreeConsistency {
  std::string name;
  ps::PsOptions options;
};
inline void PrintTo(const FreeConsistency& one, std::ostream* out) { *out << one.name; }
inline std::vector<FreeConsistency> ways_to_keep_in_step() {
  using ps::Consistency;
  return {{"asp", {.consistency = Consistency::asp}},
          {"asp_compensated", {.consistency = Consistency::asp, .delay_compensation = 2}},
          {"easgd", {.consistency = Consistency::easgd, .communication_period = 2}},
          {"ssp_1", {.consistency = Consistency::ssp, .staleness_bound = 1}},
          {"ssp_3", {.consistency = Consistency::ssp, .staleness_bound = 3}},
          {"backup", {.backup_workers = 1}}};
}

inline RunPlan plan_of(runner::ExperimentConfig config, const ps::PsOptions& options, int world) {
  config.scheme_options["ps"] = options;
  if (options.consistency == ps::Consistency::easgd)  // its steps are whole periods
    while (config.train.steps % options.communication_period != 0) ++config.train.steps;
  return runner::plan_training(config, "ps", world);
}

/// Lets each unit of each worker take a time that (seed, worker, step, unit) decide, so that
/// messages come in another order for every seed.
class Hindered final : public Wrapped {
 public:
  Hindered(const RankContext& context, std::unique_ptr<SyncScheme> right, std::uint64_t seed)
      : Wrapped(context, std::move(right)),
        seed_(seed + 1000 * static_cast<std::uint64_t>(context.self().worker)) {}
  void after_forward(std::size_t unit, const Pass& pass) override {
    hold_back(2 * unit, pass);
    Wrapped::after_forward(unit, pass);
  }
  void after_backward(std::size_t unit, const Pass& pass) override {
    hold_back(2 * unit + 1, pass);
    Wrapped::after_backward(unit, pass);
  }

 private:
  void hold_back(std::size_t place, const Pass& pass) const {
    const auto at = static_cast<std::uint64_t>(pass.step) * 64 + place;
    const std::uint64_t turns = random_bits(seed_, Stream::sampler, at) % 16;
    for (std::uint64_t i = 0; i < turns * turns; ++i) std::this_thread::yield();
  }
  std::uint64_t seed_;
};

/// Runs the plan with ranks as threads, whose workers are hindered as the seed says.
inline RunRecord run_hindered(const RunPlan& plan, std::uint64_t seed) {
  SchemeInfo row = runner::find_scheme(plan.scheme);
  const auto make = row.make;
  row.make = [make, seed](const RankContext& context, const Options& options) {
    return std::make_unique<Hindered>(context, make(context, options), seed);
  };
  return run(plan, &row);
}

inline Replay replayed(const RunRecord& row,
                       const std::function<RunRecord(const RunPlan&)>& run_plan) {
  try {
    const RunRecord again = run_plan(replay_plan_of(row));
    return {again.parameter_hashes, again.loss, again.evaluations, {}};
  } catch (const Error& error) {
    return {{}, {}, {}, error.what()};
  }
}
inline RunRecord with_replay(RunRecord row) {
  row.replay = replayed(row, [](const RunPlan& plan) { return run(plan); });
  return row;
}
/// A cluster of `world` machines of one device, of which the last has half of the speed.
inline runner::ExperimentConfig with_a_slow_worker(int world) {
  auto config = simulated(tiny("gpt"), small_cluster(1));
  config.model.width = 64;
  config.model.context = 64;
  config.train.steps = 25;
  config.cluster->machines = world;
  config.cluster->nic = config.cluster->pcie = {.gbs = 1e3, .latency_us = 0.1, .step_us = 0.1};
  config.cluster->message = {};
  config.cluster->device.launch_us = 0;
  config.cluster->slow.push_back({.machine = world - 1, .device = 0, .factor = 2});
  return config;
}

/// What the report says about the run.
inline runner::Verdict verdict_of(const RunRecord& row) { return runner::verdict({&row}, {row}); }

}  // namespace ringside::testing
