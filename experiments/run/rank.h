// One rank of a run, from its plan to its record.
#pragma once

#include <functional>
#include <string>

#include "core/comm/store.h"
#include "core/plan/run_plan.h"
#include "core/sim/world.h"
#include "core/train/trainer.h"

namespace ringside {

/// Who hears of a rank while it runs; called from any of its threads.
struct RankListener {
  std::function<void(const Progress&)> progress;
  /// Why the rank fails, said before any of it is taken down: others notice its end, and must not
  /// be heard before it.
  std::function<void(const std::string&)> error;
};

/// Where a rank meets the others.
struct RankSite {
  Store& store;
  sim::World* world = nullptr;  // of simulated ranks, which are its actors
};

/// Builds what the plan names (device, data, model, scheme), trains or serves, and returns what
/// happened. Blocks. The same code runs a rank as a thread, as a process and as an actor of a
/// simulated world. Throws Error, which
/// the listener may have heard already.
RankRecord run_rank(const RunPlan& plan, int rank, const RankSite& site,
                    const RankListener& listener);

/// All ranks of a plan as threads of this process, for tests: records by rank. Throws the first
/// rank's Error, with its rank.
std::vector<RankRecord> run_ranks_as_threads(const RunPlan& plan);

}  // namespace ringside
