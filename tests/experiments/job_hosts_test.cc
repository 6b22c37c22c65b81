#include "experiments/runner/hosts/job_hosts.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "experiments/runner/hosts/environments.h"
#include "experiments/runner/hosts/placement.h"

namespace ringside::runner {
namespace {

using nlohmann::ordered_json;

/// Agents of hosts with these identities, all called "node".
std::vector<AgentFacts> agents_with(const std::vector<std::string>& identities) {
  std::vector<AgentFacts> out;
  for (const std::string& identity : identities)
    out.push_back({.agent = static_cast<int>(out.size()),
                   .agents = static_cast<int>(identities.size()),
                   .host = "node",
                   .host_identity = identity,
                   .address = "10.0.0." + identity});
  return out;
}

TEST(JobHostsTest, HostsOfOneNameGetNumbers) {
  const auto agents = agents_with({"5", "5", "6", "5", "7"});
  const auto hosts = hosts_of(agents);
  ASSERT_EQ(hosts.size(), 3u);
  EXPECT_EQ(hosts[0].name, "node");
  EXPECT_EQ(hosts[1].name, "node#2");
  EXPECT_EQ(hosts[2].name, "node#3");
  EXPECT_EQ(hosts[0].agents, (std::vector<const AgentFacts*>{&agents[0], &agents[1], &agents[3]}));
  EXPECT_EQ(text_of(agents),
            "node 10.0.0.5: agents 0 (leads), 1, 3; node#2 10.0.0.6: agents 2; node#3 10.0.0.7: "
            "agents 4");
}

TEST(JobHostsTest, ALeaderWithoutSlotsTakesItsNameAllTheSame) {
  auto agents = agents_with({"5", "6"});
  agents[0].slots = 0;
  std::vector<RunPlan> runs(1);
  runs[0].scheme = "ps";
  runs[0].world = 1;
  runs[0].ranks.push_back({0, 0, -1});
  place_on_hosts(runs, agents, [](const std::string&) { return std::vector<AgentDevices>(); });
  EXPECT_EQ(runs[0].homes.at(0).host, hosts_of(agents).at(1).name);
}

TEST(JobHostsTest, EnvironmentsOfHostsOfOneNameAreComparedToo) {
  const ordered_json own = {{"time", 1}, {"cpu", "fast"}, {"cores", 2}};
  std::vector<int> asked;
  const auto environment =
      with_hosts(own, agents_with({"5", "6", "6", "7"}), [&](int agent) -> ordered_json {
        asked.push_back(agent);
        return {{"time", agent}, {"cpu", agent == 1 ? "slow" : "fast"}, {"cores", 2}};
      });
  EXPECT_EQ(asked, (std::vector<int>{1, 3})) << "one agent of each host";
  EXPECT_EQ(environment["hosts"][1]["host"], "node#2");
  EXPECT_EQ(environment["hosts"][1]["environment"]["cpu"], "slow");
  EXPECT_EQ(environment.begin().key(), "hosts_differ");
  EXPECT_EQ(environment["hosts_differ"].dump(),
            R"({"cpu":{"node":"fast","node#2":"slow","node#3":"fast"}})");
  EXPECT_EQ(text_of_differences(environment),
            "Hosts differ in cpu: node has \"fast\", node#2 has \"slow\", node#3 has \"fast\"");
}

TEST(JobHostsTest, WhatTheFirstHostLacksIsADifferenceToo) {
  const auto environment =
      with_hosts({{"cores", 2}}, agents_with({"5", "6"}), [](int) -> ordered_json {
        return {{"driver", "550"}, {"cores", 2}};
      });
  EXPECT_EQ(environment["hosts_differ"].dump(), R"({"driver":{"node":null,"node#2":"550"}})");
}

TEST(JobHostsTest, OfLibrariesThoseCountThatAllHaveLoaded) {
  const auto differ = [](const ordered_json& libraries) {
    const ordered_json own = {{"libraries", {"libc.so.6", "libsimgrid.so.3.32"}}};
    return with_hosts(own, agents_with({"5", "6"}),
                      [&](int) -> ordered_json {
                        return {{"libraries", libraries}};
                      })["hosts_differ"]
        .dump();
  };
  EXPECT_EQ(differ({"libc.so.6", "libextra.so.1"}), "{}");
  EXPECT_EQ(differ({"libc.so.7"}),
            R"({"libraries":{"node":["libc.so.6"],"node#2":["libc.so.7"]}})");
}

}  // namespace
}  // namespace ringside::runner
