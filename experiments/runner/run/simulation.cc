#include "experiments/runner/run/simulation.h"

#include <map>
#include <optional>

#include "core/base/error.h"
#include "core/plan/faults.h"
#include "core/plan/places.h"
#include "core/sim/world.h"
#include "experiments/runner/run/rank.h"
#include "ps/transport/sim/transport.h"

namespace ringside::runner {
namespace {

/// The first error of all actors: it explains the later ones.
using FirstError = std::optional<std::string>;

/// Ends the actor of a worker that a fault kills and the others go on without. No handler of errors
/// takes it.
struct Killed {
  std::int64_t after = 0;
};

RankRecord simulate_rank(const RunPlan& plan, int rank, const RankSite& site,
                         const std::function<void(const Progress&)>& progress, FirstError& first,
                         const SchemeInfo* row) {
  const RankPlan& self = plan.ranks[static_cast<std::size_t>(rank)];
  const auto hear = [&](const std::string& error) {
    if (!first) first = fmt::format("rank {} ({}): {}", rank, self.role(), error);
  };
  const std::map<int, std::int64_t> lost = lost_on_purpose(plan);
  const auto own = self.worker < 0 ? lost.end() : lost.find(self.worker);
  const auto tell = [&](const Progress& done) {
    progress(done);
    if (own == lost.end() || done.step != own->second) return;
    ps::cut_simulated(*site.world, rank);
    throw Killed{done.step};
  };
  try {
    RankRecord record = run_rank(plan, rank, site, {tell, hear}, row);
    record.host = fmt::format("machine {}", place_of(plan, rank).machine);
    if (rank >= plan.sim.traced_ranks) record.slices.clear();
    return record;
  } catch (const Killed& killed) {
    site.store.set(lost_key(self.worker), "killed on purpose");
    RankRecord record;
    record.rank = rank;
    record.role = "lost";
    record.lost_after = killed.after;
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
