#include "experiments/runner/run/simulation.h"

#include <optional>

#include "core/base/error.h"
#include "core/plan/places.h"
#include "core/sim/world.h"
#include "experiments/runner/run/rank.h"

namespace ringside::runner {
namespace {

/// The first error of all actors: it explains the later ones.
using FirstError = std::optional<std::string>;

RankRecord simulate_rank(const RunPlan& plan, int rank, const RankSite& site,
                         const std::function<void(const Progress&)>& progress, FirstError& first,
                         const SchemeInfo* row) {
  const RankPlan& self = plan.ranks[static_cast<std::size_t>(rank)];
  const auto hear = [&](const std::string& error) {
    if (!first) first = fmt::format("rank {} ({}): {}", rank, self.role(), error);
  };
  try {
    RankRecord record = run_rank(plan, rank, site, {progress, hear}, row);
    record.host = fmt::format("machine {}", place_of(plan, rank).machine);
    if (rank >= plan.sim.traced_ranks) record.slices.clear();
    return record;
  } catch (const Error& error) {
    // run_rank() does not report errors of its preparations to the listener.
    hear(error.what());
    throw;
  }
}

}  // namespace

std::vector<RankRecord> simulate(const RunPlan& plan,
                                 const std::function<void(const Progress&)>& progress,
                                 const SchemeInfo* row, Store* store) {
  const auto world = sim::make_world(*plan.cluster);
  MemoryStore own;
  FirstError first;
  std::vector<RankRecord> records(plan.ranks.size());
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const int rank = static_cast<int>(r);
    world->spawn(fmt::format("rank {}", r), place_of(plan, rank), [&, r, rank] {
      records[r] =
          simulate_rank(plan, rank, {store ? *store : own, world.get()}, progress, first, row);
    });
  }
  try {
    world->run();
  } catch (const Error&) {
    if (!first) throw;
  }
  if (first) throw Error("{}", *first);
  return records;
}

}  // namespace ringside::runner
