#include "experiments/runner/hosts/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/models/presets.h"
#include "core/plan/worlds.h"
#include "experiments/runner/plan/one_run.h"
#include "experiments/runner/registry/registry.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

/// Agents of hosts "a", "b" and so on; `hosts` says of each agent which host it is on.
std::vector<AgentFacts> agents_on(const std::vector<int>& hosts) {
  std::vector<AgentFacts> agents;
  for (const int host : hosts) {
    const std::string name(1, static_cast<char>('a' + host));
    agents.push_back({.agent = static_cast<int>(agents.size()),
                      .agents = static_cast<int>(hosts.size()),
                      .host = name,
                      .host_identity = name,
                      .address = "10.0.0." + std::to_string(host)});
  }
  return agents;
}

RunPlan run_of(int workers, int servers = 0) {
  RunPlan run;
  run.id = "ps-w4-r0";
  run.scheme = "ps";
  run.options = find_scheme("ps").defaults;
  run.world = workers;
  for (int w = 0; w < workers; ++w) run.ranks.push_back({w, w, -1});
  for (int s = 0; s < servers; ++s) run.ranks.push_back({workers + s, -1, s});
  return run;
}

std::vector<AgentDevices> nobody_asks(const std::string&) {
  throw Error("processors have no numbers");
}

/// The host and the agent of every rank: "a0 a1 b2".
std::string homes_of(RunPlan run, const std::vector<AgentFacts>& agents) {
  std::vector<RunPlan> runs = {run};
  place_on_hosts(runs, agents, nobody_asks);
  std::string out;
  for (const RankHome& home : runs.front().homes)
    out += (out.empty() ? "" : " ") + home.host + std::to_string(home.agent);
  return out;
}

TEST(PlacementTest, WorkersFillOneHostAfterTheOther) {
  EXPECT_EQ(homes_of(run_of(1), agents_on({0, 0, 1, 1})), "a0");
  EXPECT_EQ(homes_of(run_of(3), agents_on({0, 0, 1, 1})), "a0 a1 b2");
}

TEST(PlacementTest, OrSpreadOverAllOfThemInBlocks) {
  RunPlan run = run_of(3);
  run.hosts.workers = WorkerPlacement::spread;
  EXPECT_EQ(homes_of(run, agents_on({0, 0, 1, 1})), "a0 a1 b2");
  run = run_of(2);
  run.hosts.workers = WorkerPlacement::spread;
  EXPECT_EQ(homes_of(run, agents_on({0, 0, 1, 1})), "a0 b2");
  run = run_of(4);
  run.hosts.workers = WorkerPlacement::spread;
  EXPECT_EQ(homes_of(run, agents_on({0, 1, 1, 1})), "a0 b1 b2 b3");
}

TEST(PlacementTest, WorkersOfAHostFollowEachOtherHoweverItsAgentsAreNumbered) {
  EXPECT_EQ(homes_of(run_of(4), agents_on({0, 1, 0, 1})), "a0 a2 b1 b3");
}

TEST(PlacementTest, AnAgentMayStartSeveralWorkers) {
  auto agents = agents_on({0, 1});
  agents[0].slots = 2;
  EXPECT_EQ(homes_of(run_of(3), agents), "a0 a0 b1");
}

TEST(PlacementTest, ServersGoToAllHostsInTurnAndTakeNoSlots) {
  EXPECT_EQ(homes_of(run_of(2, 3), agents_on({0, 0, 1, 1})), "a0 a1 a0 b2 a1");
}

TEST(PlacementTest, OrToHostsWithoutWorkers) {
  RunPlan run = run_of(2, 2);
  run.hosts.servers = ServerHosts::apart;
  EXPECT_EQ(homes_of(run, agents_on({0, 0, 1, 1})), "a0 a1 b2 b3");
  EXPECT_EQ(testing::complaint([&] {
              homes_of(run, agents_on({0, 0}));
            }),
            "run ps-w4-r0: hosts.servers = 'apart' needs a host without workers, but 2 workers are "
            "on all hosts (a 2); start the job on more hosts, or set hosts.servers = 'all'");
}

TEST(PlacementTest, ARunThatDoesNotFitIsRefused) {
  EXPECT_EQ(testing::complaint([] {
              homes_of(run_of(4), agents_on({0, 0, 1}));
            }),
            "run ps-w4-r0: 4 workers do not fit into the 3 slots of this job (a 2, b 1); start "
            "more processes, or leave this world out (--worlds)");
}

TEST(PlacementTest, WorkersNeedMemoryForTheStateOfTheModel) {
  RunPlan run = run_of(4);
  run.id = "ddp-w4-r0";
  run.scheme = "ddp";
  run.options = find_scheme("ddp").defaults;
  run.model = find_preset("gpt2").config;
  run.optimizer.kind = "adamw";
  auto agents = agents_on({0, 0, 1, 1});
  for (AgentFacts& agent : agents) agent.memory = 4'000'000'000;
  homes_of(run, agents);
  agents[2].memory = 3'900'000'000;
  EXPECT_EQ(testing::complaint([&] { homes_of(run, agents); }),
            "run ddp-w4-r0: 2 workers on host b keep 3.98 GB of parameters, gradients and "
            "optimizer state, and it has 3.9 GB of memory; spread workers over more hosts "
            "(hosts.workers), take a scheme that shards, or leave this world out (--worlds)");
}

TEST(PlacementTest, HostsOfOneNameAreTold) {
  auto agents = agents_on({0, 1});
  agents[1].host = "a";
  EXPECT_EQ(homes_of(run_of(2), agents), "a0 a#21");
}

RunPlan run_on_gpus(int workers) {
  RunPlan run = run_of(workers);
  run.device.kind = "cuda";
  return run;
}

/// The host and the number of the GPU of every rank, where agents see these GPUs: "a0 b0 b1".
std::string gpus_of(RunPlan run, const std::vector<AgentFacts>& agents,
                    const std::vector<std::vector<std::string>>& seen) {
  std::vector<RunPlan> runs = {run};
  int asked = 0;
  place_on_hosts(runs, agents, [&](const std::string& kind) {
    EXPECT_EQ(kind, "cuda");
    ++asked;
    std::vector<AgentDevices> out;
    for (const auto& gpus : seen)
      out.push_back({gpus, gpus.empty() ? "device.kind = 'cuda': no driver" : ""});
    return out;
  });
  EXPECT_EQ(asked, 1);
  std::string out;
  for (const RankPlan& rank : runs.front().ranks)
    out += (out.empty() ? "" : " ") + runs.front().homes[static_cast<std::size_t>(rank.rank)].host +
           std::to_string(rank.ordinal);
  out += shares_device(runs.front()) ? " shared" : "";
  EXPECT_EQ(gpus(runs.front()) < run.world, shares_device(runs.front()));
  return out;
}

TEST(PlacementTest, RanksTakeTheGpusOfTheirHosts) {
  const std::vector<std::string> two = {"x", "y"};
  EXPECT_EQ(gpus_of(run_on_gpus(4), agents_on({0, 0, 1, 1}), {two, two, two, two}), "a0 a1 b0 b1");
  // Whether all of a host see all its GPUs, or each its own.
  EXPECT_EQ(gpus_of(run_on_gpus(4), agents_on({0, 0, 1, 1}), {{"x"}, {"y"}, {"x"}, {"y"}}),
            "a0 a0 b0 b0");
  EXPECT_EQ(gpus_of(run_on_gpus(2), agents_on({0, 0}), {two, {"x"}}), "a0 a0 shared");
  EXPECT_EQ(gpus_of(run_on_gpus(3), agents_on({0, 0, 0}), {two, two, two}), "a0 a1 a0 shared");
}

TEST(PlacementTest, RanksOfSeveralHostsNeedGpusOfTheirOwn) {
  const std::vector<std::string> two = {"x", "y"};
  EXPECT_EQ(testing::complaint([&] {
              gpus_of(run_on_gpus(4), agents_on({0, 1, 1, 1}), {two, two, two, two});
            }),
            "run ps-w4-r0: 3 ranks do not fit on the 2 GPUs that the job has on host b; start the "
            "job with one slot for each GPU, or leave this world out (--worlds)");
  EXPECT_EQ(testing::complaint([&] {
              gpus_of(run_on_gpus(2), agents_on({0, 1}), {two, {}});
            }),
            "run ps-w4-r0: rank 1 cannot be on host b: device.kind = 'cuda': no driver");
  // An agent that starts none of the run's ranks needs none.
  EXPECT_EQ(gpus_of(run_on_gpus(2), agents_on({0, 0, 1}), {two, two, {}}), "a0 a1");
}

TEST(PlacementTest, ServersOnProcessorsNeedNoGpus) {
  RunPlan run = run_on_gpus(2);
  run.ranks.push_back({2, -1, 0, "cpu"});
  run.hosts.servers = ServerHosts::apart;
  EXPECT_EQ(gpus_of(run, agents_on({0, 0, 1}), {{"x", "y"}, {"x", "y"}, {}}), "a0 a1 b-1");
  run.ranks.back().device.clear();
  run.hosts.servers = ServerHosts::all;
  EXPECT_EQ(testing::complaint([&] {
              gpus_of(run, agents_on({0, 1}), {{"x"}, {"y"}});
            }),
            "run ps-w4-r0: 2 ranks do not fit on the 1 GPUs that the job has on host a; set "
            "server_device = 'cpu' for servers in ranks of their own, start the job with one slot "
            "for each GPU, or leave this world out (--worlds)");
}

TEST(PlacementTest, TheDeviceOfARankIsKeptInItsPlan) {
  std::vector<RunPlan> runs = {run_on_gpus(2)};
  place_on_hosts(runs, agents_on({0, 1}), [](const std::string&) {
    return std::vector<AgentDevices>{{{"x"}, ""}, {{"y"}, ""}};
  });
  const auto written = to_json(runs.front());
  EXPECT_EQ(run_plan_from_json(written, default_options).homes, runs.front().homes);
  EXPECT_EQ(runs.front().homes[1].device, "y");
  nlohmann::json old = written;
  for (nlohmann::json& home : old["homes"]) home.erase("device");
  EXPECT_EQ(run_plan_from_json(old, default_options).homes[1].device, "");
}

TEST(PlacementTest, EnvironmentsFollowFromTheHost) {
  const auto hosts_of_nccl = [](const std::vector<AgentFacts>& agents) {
    std::vector<RunPlan> runs = {run_on_gpus(2)};
    place_on_hosts(runs, agents, [](const std::string&) {
      return std::vector<AgentDevices>{{{"x"}, ""}, {{"x"}, ""}};
    });
    return runs.front().ranks[1].environment;
  };
  EXPECT_EQ(hosts_of_nccl(agents_on({0, 1})), std::vector<std::string>{});
  const auto shared = hosts_of_nccl(agents_on({0, 0}));
  ASSERT_FALSE(shared.empty());
  EXPECT_EQ(shared.front(), "NCCL_HOSTID=ringside-1");
}

TEST(PlacementTest, AnotherProgramRunsOnOneHost) {
  RunPlan run = run_of(2);
  run.scheme = "torch-ddp";
  run.program = OtherProgram{"python3", "peers", false};
  EXPECT_EQ(homes_of(run, agents_on({0, 0})), "a0 a1");
  EXPECT_EQ(testing::complaint([&] {
              homes_of(run, agents_on({0, 1}));
            }),
            "scheme torch-ddp is run by another program, which runs on one host alone; leave the "
            "scheme out of a job on several hosts (--schemes)");
}

TEST(PlacementTest, SimulatedRunsStayWhereTheyArePlanned) {
  RunPlan run = run_of(64);
  run.cluster.emplace();
  EXPECT_EQ(homes_of(run, agents_on({0, 1})), "");
}

/// A run that can have the worlds from `least` to `world` with 12 samples a step.
RunPlan run_that_shrinks(int world, int least, bool spread = false,
                         const std::string& scheme = "ddp") {
  ExperimentConfig config;
  config.name = "trial";
  config.data.kind = "synthetic";
  config.train.global_batch = 12;
  config.train.micro_batch = 1;
  config.train.steps = 6;
  config.faults.least_world = least;
  config.hosts.workers = spread ? WorkerPlacement::spread : WorkerPlacement::fill;
  config.in_job = true;
  return plan_run(config, find_scheme(scheme), world, 0);
}

/// Where the ranks of a run are once these agents are gone: "3: a0 b1 b2", or the error.
std::string left_homes_of(const RunPlan& run, const std::vector<AgentFacts>& agents,
                          const std::set<int>& gone) {
  RunPlan left;
  try {
    left = place_on_left(run, agents, gone, nobody_asks);
  } catch (const Error& error) {
    return error.what();
  }
  EXPECT_EQ(left.homes.size(), left.ranks.size());
  EXPECT_EQ(left.train.global_batch, run.train.global_batch);
  EXPECT_FALSE(is_elastic(left)) << "its processes start anew";
  std::string out = std::to_string(left.world) + ":";
  for (const RankHome& home : left.homes) out += " " + home.host + std::to_string(home.agent);
  return out;
}

TEST(PlacementOnWhatIsLeft, TakesTheLargestWorldThatHasSlots) {
  struct Row {
    std::vector<int> hosts;
    int world, least;
    std::set<int> gone;
    std::string homes;
    bool spread = false;
  };
  const std::vector<Row> table = {
      {{0, 1, 2}, 3, 2, {1}, "2: a0 c2"},
      {{0, 1, 2}, 3, 1, {1, 2}, "1: a0"},
      {{0, 1, 2}, 2, 1, {1}, "2: a0 c2"},  // a host was free
      {{0, 1, 1, 2}, 3, 2, {3}, "3: a0 b1 b2"},
      {{0, 0, 1, 1}, 4, 2, {2, 3}, "2: a0 a1"},
      {{0, 0, 1, 1}, 4, 2, {2}, "3: a0 a1 b3"},  // a host that has lost one of its agents
      {{0, 0, 1, 1}, 2, 1, {0}, "2: a1 b2"},
      {{0, 0, 1, 1}, 4, 2, {1}, "3: a0 b2 b3", true},
      {{0, 1, 2},
       3,
       3,
       {1},
       "agent 1 on b is gone, and 2 slots are left (a 1, c 1), of which the run cannot even have "
       "world 3, its smallest (faults.least_world): run ddp-w3-r0: 3 workers do not fit into the 2 "
       "slots of this job (a 1, c 1); start more processes, or leave this world out (--worlds); "
       "start a new job with --resume"},
      {{0, 1, 1, 1},
       4,
       2,
       {1, 2, 3},
       "agent 1 on b, agent 2 on b, agent 3 on b are gone, and 1 slot is left (a 1), of which the "
       "run cannot even have world 2, its smallest (faults.least_world): run ddp-w4-r0: 2 workers "
       "do not fit into the 1 slot of this job (a 1); start more processes, or leave this world "
       "out (--worlds); start a new job with --resume"},
  };
  for (const Row& row : table)
    EXPECT_EQ(left_homes_of(run_that_shrinks(row.world, row.least, row.spread),
                            agents_on(row.hosts), row.gone),
              row.homes);
}

/// Two dedicated servers, which follow the rules of the start.
TEST(PlacementOnWhatIsLeft, ServersKeepTheirRules) {
  RunPlan run = run_that_shrinks(3, 1, false, "ps");
  EXPECT_EQ(left_homes_of(run, agents_on({0, 1, 2}), {1}), "2: a0 c2 a0 c2");
  run.hosts.servers = ServerHosts::apart;
  EXPECT_EQ(left_homes_of(run, agents_on({0, 1, 2, 3}), {}), "3: a0 b1 c2 d3 d3");
  EXPECT_EQ(left_homes_of(run, agents_on({0, 1, 2, 3}), {1}), "2: a0 c2 d3 d3")
      << "a third worker would leave no host to the servers";
}

TEST(PlacementOnWhatIsLeft, KeepsTheNamesOfHosts) {
  auto agents = agents_on({0, 1, 2});
  for (AgentFacts& agent : agents) agent.host = "node";
  EXPECT_EQ(left_homes_of(run_that_shrinks(3, 1), agents, {0}), "2: node#21 node#32");
}

TEST(PlacementOnWhatIsLeft, LeavesOutWorldsThatDoNotFitIntoMemory) {
  RunPlan run = run_that_shrinks(4, 1);
  auto agents = agents_on({0, 1, 1, 1});
  for (AgentFacts& agent : agents) agent.memory = 1;
  EXPECT_THAT(left_homes_of(run, agents, {0}),
              ::testing::HasSubstr("and it has 1e-09 GB of memory"));
}

TEST(PlacementOnWhatIsLeft, ARunOfOneWorldMoves) {
  EXPECT_EQ(left_homes_of(run_of(2, 2), agents_on({0, 1, 2}), {1}), "2: a0 c2 a0 c2");
}

}  // namespace
}  // namespace ringside::runner
