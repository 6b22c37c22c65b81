#include "experiments/runner/hosts/placement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/device/cpu/cpu_device.h"
#include "core/plan/device_traits.h"
#include "core/plan/host_workers.h"
#include "core/plan/worlds.h"
#include "experiments/runner/hosts/job_hosts.h"
#include "experiments/runner/registry/rank_devices.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/registry/state_formula.h"

namespace ringside::runner {
namespace {

/// A host with places for ranks.
struct Host {
  std::string name;
  double memory = 0;                       // bytes; 0: not known
  std::vector<const AgentFacts*> slots{};  // the agent of each
};

std::vector<Host> hosts_with_slots(const std::vector<AgentFacts>& agents,
                                   const std::set<int>& gone = {}) {
  std::vector<Host> hosts;
  for (const JobHost& host : hosts_of(agents)) {
    Host out{host.name, static_cast<double>(host.agents.front()->memory)};
    for (const AgentFacts* agent : host.agents)
      if (!gone.contains(agent->agent))
        out.slots.insert(out.slots.end(), static_cast<std::size_t>(agent->slots), agent);
    // A process that only leads the job starts no ranks, nor does a host that is gone.
    if (!out.slots.empty()) hosts.push_back(std::move(out));
  }
  return hosts;
}

std::string describe(const std::vector<Host>& hosts) {
  std::vector<std::string> out;
  for (const Host& host : hosts) out.push_back(fmt::format("{} {}", host.name, host.slots.size()));
  return fmt::format("{}", fmt::join(out, ", "));
}

/// How many workers each host gets.
std::vector<int> workers_by_host(const RunPlan& run, const std::vector<Host>& hosts) {
  std::vector<int> slots;
  for (const Host& host : hosts) slots.push_back(static_cast<int>(host.slots.size()));
  const int all = std::accumulate(slots.begin(), slots.end(), 0);
  if (run.world > all)
    throw Error(
        "run {}: {} workers do not fit into the {} of this job ({}); start more processes, or "
        "leave this world out (--worlds)",
        run.id, run.world, counted(all, "slot"), describe(hosts));
  return workers_by_slots(run.world, slots, run.hosts.workers);
}

/// The hosts of dedicated servers, which take them in turn.
std::vector<std::size_t> hosts_of_servers(const RunPlan& run, const std::vector<int>& workers,
                                          const std::vector<Host>& hosts) {
  std::vector<std::size_t> out;
  for (std::size_t h = 0; h < workers.size(); ++h)
    if (run.hosts.servers == ServerHosts::all || workers[h] == 0) out.push_back(h);
  if (out.empty())
    throw Error(
        "run {}: hosts.servers = 'apart' needs a host without workers, but {} workers are on all "
        "hosts ({}); start the job on more hosts, or set hosts.servers = 'all'",
        run.id, run.world, describe(hosts));
  return out;
}

/// Gives ranks devices of those that their agents see.
class DeviceGiver {
 public:
  explicit DeviceGiver(const DevicesOfAgents& ask) : ask_(ask) {}

  void give(RunPlan& run) {
    number_devices(run, [&](const std::string& kind, int rank) -> const std::vector<std::string>& {
      if (!known_.contains(kind)) known_[kind] = ask_(kind);
      const RankHome& home = run.homes[static_cast<std::size_t>(rank)];
      const AgentDevices& its = known_[kind].at(static_cast<std::size_t>(home.agent));
      if (its.seen.empty())
        throw Error("run {}: rank {} cannot be on host {}: {}", run.id, rank, home.host, its.cause);
      return its.seen;
    });
    if (spans_hosts(run) && shares_device(run)) refuse_sharing(run);
  }

 private:
  [[noreturn]] static void refuse_sharing(const RunPlan& run) {
    std::map<std::string, std::pair<int, std::set<std::string>>> by_host;  // ranks and devices
    for (const RankPlan& rank : run.ranks) {
      if (rank.ordinal < 0) continue;
      const RankHome& home = run.homes[static_cast<std::size_t>(rank.rank)];
      auto& [ranks, devices] = by_host[home.host];
      ++ranks;
      devices.insert(home.device);
    }
    const auto full = std::find_if(by_host.begin(), by_host.end(), [](const auto& host) {
      return host.second.first > static_cast<int>(host.second.second.size());
    });
    const bool servers = run.ranks.size() > static_cast<std::size_t>(run.world);
    throw Error(
        "run {}: {} ranks do not fit on the {} GPUs that the job has on host {}; {}start the job "
        "with one slot for each GPU, or leave this world out (--worlds)",
        run.id, full->second.first, full->second.second.size(), full->first,
        servers ? "set server_device = 'cpu' for servers in ranks of their own, " : "");
  }

  const DevicesOfAgents& ask_;
  std::map<std::string, std::vector<AgentDevices>> known_{};
};

std::int64_t parameters_of(const ModelConfig& config) {
  const auto device = make_cpu_device(1);
  return make_model(config, *device).parameter_count();
}

void check_memory(const RunPlan& run, std::int64_t parameters, const std::vector<int>& workers,
                  const std::vector<Host>& hosts) {
  if (!device_traits(run.device.kind).on_processor) return;
  const auto state = state_formula(run, parameters);
  for (std::size_t h = 0; state && h < hosts.size(); ++h) {
    const double needed = workers[h] * state->total();
    if (hosts[h].memory > 0 && needed > hosts[h].memory)
      throw Error(
          "run {}: {} workers on host {} keep {:.3g} GB of parameters, gradients and optimizer "
          "state, and it has {:.3g} GB of memory; spread workers over more hosts (hosts.workers), "
          "take a scheme that shards, or leave this world out (--worlds)",
          run.id, workers[h], hosts[h].name, 1e-9 * needed, 1e-9 * hosts[h].memory);
  }
}

void place(RunPlan& run, const std::vector<Host>& hosts, std::int64_t parameters,
           DeviceGiver& devices) {
  const std::vector<int> workers = workers_by_host(run, hosts);
  check_memory(run, parameters, workers, hosts);
  const auto home = [&](std::size_t h, int slot) {
    const auto& slots = hosts[h].slots;
    const AgentFacts& agent = *slots[static_cast<std::size_t>(slot) % slots.size()];
    return RankHome{hosts[h].name, agent.address, agent.agent};
  };
  for (std::size_t h = 0; h < hosts.size(); ++h)
    for (int slot = 0; slot < workers[h]; ++slot) run.homes.push_back(home(h, slot));
  if (run.ranks.size() > run.homes.size()) {
    std::vector<int> taken = workers;
    const std::vector<std::size_t> of_servers = hosts_of_servers(run, workers, hosts);
    for (std::size_t server = 0; run.homes.size() < run.ranks.size(); ++server) {
      const std::size_t h = of_servers[server % of_servers.size()];
      run.homes.push_back(home(h, taken[h]++));
    }
  }
  if (run.program && spans_hosts(run))
    throw Error(
        "scheme {} is run by another program, which runs on one host alone; leave the scheme out "
        "of a job on several hosts (--schemes)",
        run.scheme);
  devices.give(run);
  if (!run.program) set_environments(run);
}

}  // namespace

std::vector<HostRoom> rooms_of(const std::vector<AgentFacts>& agents) {
  std::vector<HostRoom> out;
  for (const Host& host : hosts_with_slots(agents)) {
    std::set<std::int64_t> cores;
    for (const AgentFacts* agent : host.slots)
      cores.insert(agent->cores.begin(), agent->cores.end());
    out.push_back({static_cast<int>(host.slots.size()), static_cast<std::int64_t>(cores.size())});
  }
  return out;
}

void place_on_hosts(std::vector<RunPlan>& runs, const std::vector<AgentFacts>& agents,
                    const DevicesOfAgents& devices) {
  const std::vector<Host> hosts = hosts_with_slots(agents);
  DeviceGiver giver(devices);
  std::optional<std::pair<ModelConfig, std::int64_t>> counted;  // runs have few models
  for (RunPlan& run : runs) {
    if (run.cluster) continue;
    if (!counted || counted->first != run.model) counted = {run.model, parameters_of(run.model)};
    place(run, hosts, counted->second, giver);
  }
}

std::string words_for_left(const std::vector<AgentFacts>& agents, const std::set<int>& gone) {
  std::vector<std::string> names;
  for (const JobHost& host : hosts_of(agents))
    for (const AgentFacts* agent : host.agents)
      if (gone.contains(agent->agent))
        names.push_back(fmt::format("agent {} on {}", agent->agent, host.name));
  const std::vector<Host> left = hosts_with_slots(agents, gone);
  const std::size_t slots =
      std::accumulate(left.begin(), left.end(), std::size_t{0},
                      [](std::size_t sum, const Host& host) { return sum + host.slots.size(); });
  return fmt::format("{} {} gone, and {} slot{} left{}", fmt::join(names, ", "),
                     names.size() == 1 ? "is" : "are", slots, slots == 1 ? " is" : "s are",
                     left.empty() ? "" : fmt::format(" ({})", describe(left)));
}

RunPlan place_on_left(const RunPlan& run, const std::vector<AgentFacts>& agents,
                      const std::set<int>& gone, const DevicesOfAgents& devices) {
  const std::vector<Host> hosts = hosts_with_slots(agents, gone);
  const std::int64_t parameters = parameters_of(run.model);
  DeviceGiver giver(devices);
  std::vector<RunPlan> choice;
  for (const RunPlan& one : run.worlds) choice.push_back(at_world(run, one.world));
  if (choice.empty()) choice.push_back(run);
  std::string cause;  // of the smallest world
  for (auto plan = choice.rbegin(); plan != choice.rend(); ++plan) try {
      plan->homes.clear();
      place(*plan, hosts, parameters, giver);
      return std::move(*plan);
    } catch (const Error& error) {
      cause = error.what();
    }
  throw Error(
      "{}, of which the run cannot even have world {}, its smallest (faults.least_world): {}; "
      "start "
      "a new job with --resume",
      words_for_left(agents, gone), choice.front().world, cause);
}

}  // namespace ringside::runner
