// RankContext: one rank of a run, with everything that its scheme works with.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/base/interruption.h"
#include "core/base/shared.h"
#include "core/comm/store.h"
#include "core/device/host_side.h"
#include "core/models/initial_values.h"
#include "core/observe/beats.h"
#include "core/observe/timeline.h"
#include "core/plan/run_plan.h"
#include "core/scheme/links.h"

namespace ringside {

class PipelineGroup;

/// One rank of a run, and the objects that the rank works with. All of these outlive the context.
struct RankContext {
  const RunPlan& plan;
  int rank;
  Device& device;
  Store& store;
  Timeline& timeline;
  /// Objects shared between the threads of a rank that computes and serves; null if the rank has
  /// one thread.
  Shared* shared = nullptr;
  /// Given initial values; null if they are drawn with the plan's seed.
  std::shared_ptr<const InitialValues> initial_values{};
  /// Connections to the other ranks.
  Links links{};
  /// The host beside the device; null unless something is offloaded to it (train.offload).
  HostSide* host = nullptr;
  /// The commit that this rank's program was built from, which servers compare with their own;
  /// empty where all ranks are of one program.
  std::string program{};
  /// Whether no other rank shares this process, so that the process's memory is the rank's.
  bool own_process = false;
  /// Ends this rank's waits for others when the world changes; null if it never does.
  Interruption* interruption = nullptr;
  /// Tells the launcher that this rank's thread makes no progress; null: nobody asks.
  std::function<void(const Beat&)> beat{};
  /// The other stages of the model in a pipeline (core/scheme/pipeline_group.h); null without one.
  /// `plan`, `rank` and `store` are then those of the workers that have the same stages: a run
  /// along the data dimension of the mesh (data_view()).
  PipelineGroup* pipeline = nullptr;

  /// This rank's part of the plan.
  const RankPlan& self() const { return plan.ranks[static_cast<std::size_t>(rank)]; }
  /// Whether the run's trace may show what this rank does in `step`. It shows the last steps, whose
  /// spans the timeline keeps. For workers that do not wait for each other it is not known
  /// beforehand which steps these are.
  bool traces(std::int64_t step) const {
    if (plan.cluster && rank >= plan.sim.traced_ranks) return false;
    return plan.promise == Promise::replayed ||
           step + static_cast<std::int64_t>(Timeline::steps_with_spans) >= plan.train.steps;
  }
  /// Makes a communicator. Collective: every rank of the group calls this function, which blocks
  /// until all have called it, at most train.timeout_s. Throws Error that names the ranks that have
  /// not called it by then. The device and the store of this context outlive the communicator. In
  /// a pipeline the group is one of the workers with the same stages, and its name says so.
  std::unique_ptr<Communicator> communicator(const Group& group) const;
};

/// The group of all workers, including this one.
inline Group all_workers(const RankContext& context, std::string name,
                         Algorithm algorithm = Algorithm::native) {
  return {std::move(name), context.self().worker, context.plan.world, algorithm};
}

/// The values with which the parameters start.
std::shared_ptr<const InitialValues> initial_values(const RankContext& context);

}  // namespace ringside
