#include "experiments/tools/bench/own_processes.h"

#include <sched.h>

#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/error_text.h"
#include "core/base/utf8.h"
#include "core/launch/rank_link.h"
#include "experiments/runner/registry/rank_devices.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/tools/bench/own_ranks.h"
#include "experiments/tools/bench/ps_bounds.h"
#include "experiments/tools/bench/ps_rank.h"

namespace ringside::tools::bench {
namespace {

/// Gives each rank a core of its own if there are enough. Ranks that wait for each other in a loop
/// would otherwise stay on one core if they wake up there.
void bind_to_core(int rank, int world) {
  cpu_set_t allowed, own;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < world) return;
  for (int core = 0, before = rank; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || before-- > 0) continue;
    CPU_ZERO(&own);
    CPU_SET(core, &own);
    sched_setaffinity(0, sizeof own, &own);
    return;
  }
}

std::unique_ptr<BenchRank> make_comm_rank(LauncherLink& link, const nlohmann::json& comm) {
  bind_to_core(link.rank(), link.plan().world);
  std::vector<Algorithm> algorithms;
  for (const std::string& name : comm.at("algorithms").get<std::vector<std::string>>())
    algorithms.push_back(*value_named<Algorithm>(name));
  return make_own_rank(link.plan(), link.rank(), link.store(), algorithms);
}

std::unique_ptr<BenchRank> make_ps_rank(LauncherLink& link, const nlohmann::json& ps) {
  const PsRoles roles{
      .rank = link.rank(),
      .workers = ps.at("workers"),
      .servers = ps.at("servers"),
      .placement = *value_named<ps::Placement>(ps.at("placement").get<std::string>()),
      .threads = ps.at("threads"),
      .timeout_s = link.plan().train.timeout_s,
      .partition_bytes = ps.at("partition_bytes"),
      .reach = {.keys = ps.at("keys")}};
  std::optional<SpinBarrier> barrier;
  if (roles.works()) barrier.emplace(link.store(), roles.rank, roles.workers, roles.timeout_s);
  return std::make_unique<PsRank>(roles, runner::find_device(link.plan().device.kind).links,
                                  link.store(), std::move(barrier));
}

std::unique_ptr<BenchRank> make_rank(LauncherLink& link, const nlohmann::json& work) {
  if (work.contains("comm")) return make_comm_rank(link, work["comm"]);
  if (work.contains("ps")) return make_ps_rank(link, work["ps"]);
  const nlohmann::json& bounds = work.at("bounds");
  bind_to_core(link.rank(), link.plan().world);
  return make_bound_rank(link.rank(), bounds.at("tcp"), bounds.at("unix"), link.store(),
                         link.plan().train.timeout_s);
}

}  // namespace

RunPlan plan_of_ranks(const DeviceConfig& device, int ranks, double timeout_s) {
  RunPlan plan;
  plan.id = "bench";
  plan.purpose = Purpose::bench;
  plan.scheme = "independent";
  plan.options = runner::default_options(plan.scheme);
  plan.world = ranks;
  plan.train.timeout_s = timeout_s;
  plan.device = device;
  for (int rank = 0; rank < ranks; ++rank) plan.ranks.push_back({.rank = rank, .worker = rank});
  const runner::DeviceRow& row = runner::find_device(device.kind);
  row.check();
  const std::vector<std::string> seen = row.devices ? row.devices() : std::vector<std::string>();
  runner::number_devices(
      plan, [&](const std::string&, int) -> const auto& { return seen; });
  runner::set_environments(plan);
  return plan;
}

std::unique_ptr<RankGroup> start_ranks(const std::string& name, const RankProgram& program,
                                       const RunPlan& plan,
                                       const std::vector<OwnProcess>& processes,
                                       Patience patience) {
  auto host = std::make_unique<LocalHost>(program);
  std::vector<std::string> names;
  for (int rank = 0; rank < plan.world; ++rank) {
    const OwnProcess& one = processes[static_cast<std::size_t>(rank)];
    host->start(plan, rank, {.files = one.files});
    host->send(rank, one.work);
    if (!one.name.empty()) names.push_back(one.name);
  }
  return std::make_unique<RankGroup>(name, std::move(host), plan.world, std::move(patience),
                                     std::move(names));
}

bool be_bench_rank(LauncherLink& link) {
  const BenchLine line{[&](double timeout_s) { return link.link().hear(timeout_s); },
                       [&](const nlohmann::json& value) { link.link().send(value); }};
  try {
    const auto work = line.hear(-1);
    if (!work) return false;
    const std::unique_ptr<BenchRank> rank = make_rank(link, *work);
    return serve(line, link.rank(), *rank);
  } catch (const std::exception& error) {
    line.say({{"error", utf8_text(error_text(error))}});
    return false;
  }
}

}  // namespace ringside::tools::bench
