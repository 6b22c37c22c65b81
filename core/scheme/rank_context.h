// Where a scheme finds itself.
#pragma once

#include <memory>
#include <string>

#include "core/base/shared.h"
#include "core/comm/store.h"
#include "core/device/device.h"
#include "core/models/initial_values.h"
#include "core/observe/timeline.h"
#include "core/plan/run_plan.h"
#include "core/scheme/links.h"

namespace ringside {

/// One rank of a run, and what it works with. Everything that it refers to outlives it.
struct RankContext {
  const RunPlan& plan;
  int rank;
  Device& device;
  Store& store;
  Timeline& timeline;
  /// Between the threads of a rank that computes and serves; null where a rank has one thread.
  Shared* shared = nullptr;
  /// Null: drawn by the plan's seed.
  std::shared_ptr<const InitialValues> initial_values{};
  /// To the other ranks.
  Links links{};

  /// What the plan says about this rank.
  const RankPlan& self() const { return plan.ranks[static_cast<std::size_t>(rank)]; }
  /// Collective: every rank of the group calls it, and blocks until all have, at most
  /// train.timeout_s. Throws Error that names the ranks that have not. Device and store of this
  /// context outlive the communicator.
  std::unique_ptr<Communicator> communicator(const Group& group) const {
    return links.communicator(*this, group);
  }
};

/// The group of all workers, this one among them.
inline Group all_workers(const RankContext& context, std::string name) {
  return {std::move(name), context.self().worker, context.plan.world};
}

/// What the parameters start with.
std::shared_ptr<const InitialValues> initial_values(const RankContext& context);

}  // namespace ringside
