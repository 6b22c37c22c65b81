// The execution of one rank of a run, from its plan to its record.
#pragma once

#include <functional>
#include <string>

#include "core/comm/store.h"
#include "core/models/dataset_info.h"
#include "core/observe/beats.h"
#include "core/plan/run_plan.h"
#include "core/sim/world.h"
#include "core/train/trainer.h"

namespace ringside {
struct SchemeInfo;
}

namespace ringside::runner {

/// Callbacks for the progress and the error of a rank. Any thread of the rank may call them.
struct RankListener {
  std::function<void(const Progress&)> progress;
  /// Called with the cause when training or serving fails, before any part of the rank is
  /// destroyed. Its destruction makes other ranks fail too, and this cause must be reported before
  /// their errors.
  std::function<void(const std::string&)> error;
  /// Called by another thread while the rank makes no progress (core/observe/beats.h); null: nobody
  /// asks.
  std::function<void(const Beat&)> beat{};
};

/// The objects through which a rank reaches the others.
struct RankSite {
  Store& store;
  sim::World* world = nullptr;           // the world of a simulated rank; null for a real rank
  std::string program{};                 // RankContext::program
  bool own_process = false;              // RankContext::own_process
  Interruption* interruption = nullptr;  // RankContext::interruption
  /// The run's samples, if the process has read them already; null: the rank reads them itself.
  const Datasets* data = nullptr;
};

/// Builds the device, data, model and scheme of the plan, trains or serves, and returns the rank's
/// record. Blocks. The same code runs a rank as a thread, as a process and as an actor of a
/// simulated world. Throws Error; if training or serving failed, the listener already has the
/// cause. A rank of an elastic run also returns where the world changes (RankRecord::left). `row`
/// is the scheme that runs; if it is null, the scheme of the registry that the plan names. Tests
/// give a SchemeInfo of their own, which takes the options of the plan's scheme.
RankRecord run_rank(const RunPlan& plan, int rank, const RankSite& site,
                    const RankListener& listener, const SchemeInfo* row = nullptr);

/// Runs all ranks of a plan as threads of this process, for tests; blocks. Returns the records by
/// rank. Throws the Error of the first rank that failed, with its number. `row` is as above.
std::vector<RankRecord> run_ranks_as_threads(const RunPlan& plan, const SchemeInfo* row = nullptr);

}  // namespace ringside::runner
