#include "core/sim/cluster.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/sim/cluster_check.h"
#include "core/sim/stated_errors.h"

namespace ringside::sim {
namespace {

TEST(Efficiency, IsLinearInTheLogarithmOfTimeAndConstantBeyondItsPoints) {
  const Efficiency curve{{{1, 0.2}, {100, 0.8}}};
  EXPECT_DOUBLE_EQ(curve.at(0.01), 0.2);
  EXPECT_DOUBLE_EQ(curve.at(1), 0.2);
  EXPECT_DOUBLE_EQ(curve.at(10), 0.5);
  EXPECT_DOUBLE_EQ(curve.at(100), 0.8);
  EXPECT_DOUBLE_EQ(curve.at(1e6), 0.8);
  EXPECT_DOUBLE_EQ((Efficiency{{{5, 0.7}}}.at(3)), 0.7);
}

/// A cluster with a value in every field.
ClusterSpec whole() {
  ClusterSpec c;
  c.name = "whole";
  c.source = "made up";
  c.machines = 6;
  c.devices = 4;
  c.device = {.name = "fast",
              .kind = sim::DeviceKind::gpu,
              .cores = 1,
              .memory_gb = 80.5,
              .bandwidth_gbs = 2039,
              .launch_us = 2.5,
              .tflops = {{"fp32", 19.5}, {"bf16", 312}},
              .efficiency = {{"fp32", {{"linear", {{{1, 0.25}, {100, 0.875}}}}}},
                             {"bf16", {{"linear", {{{0.5, 0.5}}}}, {"loss", {{{3, 1.5}}}}}}},
              .error = {{"fp32", 0.25}}};
  c.host = {.name = "server",
            .kind = sim::DeviceKind::cpu,
            .cores = 32,
            .memory_gb = 512,
            .bandwidth_gbs = 12,
            .launch_us = 0.1,
            .tflops = {{"fp32", 0.1}},
            .efficiency = {{"fp32", {{"optimizer", {{{1, 0.9}}}}}}}};
  c.topology = Topology::mesh;
  c.peer = {.gbs = 22, .latency_us = 1.5, .step_us = 3.4};
  c.mesh = {{0, 1}, {0, 1}, {1, 2}, {2, 3}, {3, 0}};
  c.ring = {0, 1, 2, 3};
  c.pcie = {.gbs = 13, .latency_us = 2, .step_us = 5.7};
  c.pcie_root_gbs = 26;
  c.nics = 2;
  c.nic = {.gbs = 12.5,
           .latency_us = 1.25,
           .step_us = 9.6,
           .by_mb = {{{1, 0.5}, {64, 1}}},
           .queue_kb = 345,
           .by_queue = {{{100, 0.5}, {1000, 1}}}};
  c.machines_per_switch = 3;
  c.oversubscription = 2;
  c.collective = {.kind = sim::CollectiveKind::shm,
                  .base_us = 8.4,
                  .sum = {{{1, 0.5}}},
                  .copy = {{{2, 0.75}}},
                  .error = 0.5};
  c.speeds = {{.model = "gpt2", .precision = "bf16", .factor = 1.25}};
  c.timed = {{"0123456789abcdef", "bf16", "linear", 2e9, 3e6, 12.5, 2.5}};
  c.error = 0.125;
  c.others = {{.first = 1, .count = 1, .device = c.device}};
  c.others[0].device.memory_gb = 7;
  c.slow = {{.machine = 1, .device = 2, .factor = 1.5}, {.machine = 0, .factor = 2}};
  c.jitter = 0.05;
  c.spread = 0.02;
  c.decoded_per_s = 5000;
  c.message = {.send_us = 20, .receive_us = 30, .send_us_per_mb = 100, .receive_us_per_mb = 120};
  c.storage = {.gbs = 4, .shared_gbs = 12.5};
  c.failures = {.device_mtbf_h = 80'000, .machine_mtbf_h = 17'500, .restart_s = 600};
  return c;
}

TEST(Cluster, ComesBackFromItsJson) {
  const nlohmann::json json = to_json(whole());
  const ClusterSpec back = read_json<ClusterSpec>(nlohmann::json::parse(json.dump()));
  EXPECT_EQ(back, whole());
  EXPECT_EQ(json.at("device").at("efficiency").at("fp32").at("linear").dump(),
            "[[1.0,0.25],[100.0,0.875]]");
  EXPECT_EQ(json.at("mesh").at(4).dump(), "[3,0]");

  nlohmann::json lacking = json;
  lacking.at("nic").erase("latency_us");
  EXPECT_THROW(read_json<ClusterSpec>(lacking), nlohmann::json::exception);
  lacking = json;
  lacking["topology"] = "star";
  EXPECT_THROW(read_json<ClusterSpec>(lacking), Error);
}

TEST(Cluster, AtItsBoundsTakesItsErrorsLongerOrIsAsMuchFaster) {
  const ClusterSpec fast = at_bound(whole(), "fp32", Bound::fast),
                    slow = at_bound(whole(), "fp32", Bound::slow);
  const auto share = [](const ClusterSpec& c, const char* dtype, double us) {
    return c.device.efficiency.at(dtype).at("linear").at(us);
  };
  EXPECT_DOUBLE_EQ(share(fast, "fp32", 1), 0.25 * 1.25);
  EXPECT_DOUBLE_EQ(share(slow, "fp32", 100), 0.875 / 1.25);
  EXPECT_DOUBLE_EQ(share(slow, "bf16", 1), 0.5 / 1.25) << "a step in fp32 has such operations too";
  EXPECT_DOUBLE_EQ(slow.device.launch_us, 2.5 * 1.25);
  EXPECT_DOUBLE_EQ(slow.timed[0].us, 12.5 * 1.25);
  EXPECT_EQ(at_bound(whole(), "bf16", Bound::slow).device, whole().device)
      << "its error is unknown";
  EXPECT_DOUBLE_EQ(slow.others[0].device.efficiency.at("fp32").at("linear").at(1), 0.25 / 1.25);
  EXPECT_EQ(slow.host, whole().host);
  EXPECT_DOUBLE_EQ(slow.nic.gbs, 12.5 / 1.5);
  EXPECT_DOUBLE_EQ(fast.nic.gbs, 12.5 * 1.5);
  EXPECT_DOUBLE_EQ(fast.peer.step_us, 3.4 / 1.5);
  EXPECT_DOUBLE_EQ(slow.pcie.latency_us, 2 * 1.5);
  EXPECT_DOUBLE_EQ(slow.pcie_root_gbs, 26 / 1.5);
  EXPECT_DOUBLE_EQ(slow.collective.base_us, 8.4 * 1.5);
  EXPECT_DOUBLE_EQ(slow.collective.sum.at(1), 0.5 / 1.5);
  EXPECT_DOUBLE_EQ(slow.message.receive_us_per_mb, 120 * 1.5);
  EXPECT_NO_THROW(check(fast));
  EXPECT_NO_THROW(check(slow));
  EXPECT_TRUE(states_errors(whole(), "fp32"));
  EXPECT_FALSE(states_errors(whole(), "bf16"));
  ClusterSpec one_unknown = whole();
  one_unknown.others[0].device.error.clear();
  EXPECT_FALSE(states_errors(one_unknown, "fp32"));
}

TEST(Cluster, ThatCanBeIsAccepted) {
  EXPECT_NO_THROW(check(whole()));
  ClusterSpec one = whole();
  one.machines = 1;
  one.others.clear();
  one.slow.clear();
  one.nics = 3;  // a single machine does not use its NICs
  one.nic = {};
  EXPECT_NO_THROW(check(one));
  one.topology = Topology::pcie;
  one.mesh = {};
  one.peer = {};
  one.collective = {};
  EXPECT_NO_THROW(check(one));
}

TEST(Cluster, ThatCannotBeIsRefusedByTheNameOfTheField) {
  struct Mistake {
    std::function<void(ClusterSpec&)> make;
    std::string field, reason;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Mistake> mistakes = {
      {[](auto& c) { c.machines = 0; }, "machines", "must be more than 0, but is 0"},
      {[](auto& c) { c.devices = -1; }, "devices", "must be more than 0, but is -1"},
      {[](auto& c) { c.machines = std::int64_t{1} << 62; }, "machines",
       "must be at most 1000000, but is 4611686018427387904"},
      {[](auto& c) { c.host.cores = 1000001; }, "host.cores",
       "must be at most 1000000, but is 1000001"},
      {[](auto& c) { c.machines = 300000; }, "machines",
       "are too many: 300000 machines of 4 devices have more than 1000000 devices"},
      {[](auto& c) { c.nic.gbs = 1e300; }, "nic.bandwidth_gbs",
       "must be at most 1000000000, but is 1e+300"},
      {[](auto& c) { c.nic.gbs = 1e-300; }, "nic.bandwidth_gbs",
       "must be at least 1e-09, but is 1e-300"},
      {[](auto& c) { c.device.tflops["fp32"] = 1e300; }, "device.tflops.fp32",
       "must be at most 1000000000, but is 1e+300"},
      {[](auto& c) {
         c.device.efficiency["fp32"]["linear"].points = {{1e300, 0.5}};
       },
       "device.efficiency.fp32.linear", "must have times up to 1000000000, but one is 1e+300"},
      {[](auto& c) {
         c.device.efficiency["fp32"]["linear"].points = {{1, 1e-300}};
       },
       "device.efficiency.fp32.linear", "must have shares of at least 1e-09, but one is 1e-300"},
      {[](auto& c) { c.others = {{.first = 1, .count = c.machines, .device = c.device}}; },
       "others.0", "names machines 1 to 6, but machines are 0 to 5"},
      {[](auto& c) {
         c.others = {{.first = 1, .device = c.device}, {.first = 1, .device = c.device}};
       },
       "others.1", "names machine 1, which another entry names already"},
      {[](auto& c) { c.others = {{.first = 0, .count = 0, .device = c.device}}; }, "others.0.count",
       "must be more than 0, but is 0"},
      {[](auto& c) { c.others = {{.first = 1, .device = c.host}}; }, "others.0.device",
       "must be a gpu as the other devices are, but is a cpu"},
      {[](auto& c) {
         c.others = {{.first = 1, .device = c.device}};
         c.others[0].device.bandwidth_gbs = 0;
       },
       "others.0.device.bandwidth_gbs", "must be more than 0, but is 0"},
      {[](auto& c) { c.error = -0.1; }, "error", "must not be negative, but is -0.1"},
      {[](auto& c) { c.collective.error = 11; }, "collective.error",
       "must lie between 0 and 10, but is 11"},
      {[](auto& c) { c.device.error["bf16"] = -1; }, "device.error.bf16",
       "must lie between 0 and 10, but is -1"},
      {[](auto& c) { c.device.error["fp16"] = 0; }, "device.error.fp16",
       "is for a dtype that is missing in tflops"},
      {[](auto& c) { c.speeds[0].factor = 0; }, "speeds.0.factor", "must be more than 0, but is 0"},
      {[](auto& c) { c.speeds[0].precision = "tf32"; }, "speeds.0.precision",
       "is 'tf32', of which device fast has no tflops"},
      {[](auto& c) { c.timed[0].us = 0; }, "timed.0.us", "must be more than 0, but is 0"},
      {[](auto& c) { c.timed[0].memory_us = 13; }, "timed.0.memory_us",
       "must lie between 0 and us = 12.5, but is 13"},
      {[](auto& c) { c.timed[0].bytes = -1; }, "timed.0.bytes",
       "must be finite and not negative, but is -1"},
      {[](auto& c) { c.timed[0].dtype = "fp16"; }, "timed.0.dtype",
       "is 'fp16', of which device fast has no tflops"},
      {[](auto& c) { c.speeds.push_back(c.speeds[0]); }, "speeds.1",
       "is for model gpt2 in bf16, as is an entry before it"},
      {[](auto& c) {
         c.nic.by_mb.points = {{1, 0}};
       },
       "nic.by_mb", "must have shares above 0 and at most 16, but one is 0"},
      {[](auto& c) { c.slow = {{.machine = 6, .factor = 2}}; }, "slow.0.machine",
       "is 6, but machines are 0 to 5"},
      {[](auto& c) { c.slow = {{.machine = 1, .device = 4, .factor = 2}}; }, "slow.0.device",
       "is 4, but devices are 0 to 3; -1: all of the machine"},
      {[](auto& c) { c.slow = {{.machine = 1, .factor = 0.5}}; }, "slow.0.factor",
       "must be at least 1, but is 0.5"},
      {[](auto& c) { c.jitter = -0.1; }, "jitter", "must not be negative, but is -0.1"},
      {[](auto& c) { c.jitter = 3; }, "jitter", "must be at most 2, but is 3"},
      {[](auto& c) { c.spread = 3; }, "spread", "must be at most 2, but is 3"},
      {[](auto& c) { c.decoded_per_s = -1; }, "decoded_per_s", "must not be negative, but is -1"},
      {[](auto& c) { c.collective.device_share = 0.1; }, "collective.device_share",
       "is for kind nccl: with shm a rank's core does both"},
      {[](auto& c) { c.collective.tuning = CollectiveTuning::by_size; }, "collective.tuning",
       "is for kind nccl"},
      {[](auto& c) { c.collective.copy_out_gbs = 1; }, "collective.copy_out_gbs",
       "is for kind nccl"},
      {[](auto& c) {
         c.collective.kind = CollectiveKind::nccl;
         c.collective.device_share = 1;
       },
       "collective.device_share", "must be less than 1, but is 1"},
      {[](auto& c) { c.nics = 3; }, "nics", "must divide the 4 devices of a machine, but is 3"},
      {[](auto& c) { c.nics = 8; }, "nics", "must divide the 4 devices of a machine, but is 8"},
      {[](auto& c) { c.nic.gbs = 0; }, "nic.bandwidth_gbs", "must be more than 0, but is 0"},
      {[](auto& c) { c.nic.queue_kb = -1; }, "nic.queue_kb", "must not be negative, but is -1"},
      {[](auto& c) {
         c.nic.by_queue.points = {{345, 0}};
       },
       "nic.by_queue", "must have shares above 0 and at most 16, but one is 0"},
      {[](auto& c) { c.nic.latency_us = -1; }, "nic.latency_us", "must not be negative, but is -1"},
      {[&](auto& c) { c.pcie.gbs = nan; }, "pcie.bandwidth_gbs", "must be finite, but is nan"},
      {[](auto& c) { c.pcie_root_gbs = -2; }, "pcie_root_gbs", "must not be negative, but is -2"},
      {[](auto& c) { c.oversubscription = 0; }, "oversubscription",
       "must be more than 0, but is 0"},
      {[](auto& c) { c.peer.gbs = 0; }, "peer.bandwidth_gbs", "must be more than 0, but is 0"},
      {[](auto& c) {
         c.host.kind = sim::DeviceKind::gpu;
         c.host.cores = 1;
       },
       "host.kind", "must be cpu, but is gpu"},
      {[](auto& c) { c.device.cores = 2; }, "device.cores",
       "must be 1 for a gpu, because one rank uses a whole gpu, but is 2"},
      {[](auto& c) { c.device.memory_gb = 0; }, "device.memory_gb",
       "must be more than 0, but is 0"},
      {[](auto& c) { c.device.tflops["fp32"] = 0; }, "device.tflops.fp32",
       "must be more than 0, but is 0"},
      {[](auto& c) { c.device.tflops["fp23"] = 1; }, "device.tflops.fp23",
       "has an unknown dtype; the known dtypes are fp32, tf32, fp16, bf16"},
      {[](auto& c) { c.device.tflops = {}; }, "device.tflops", "is missing"},
      {[](auto& c) { c.device.efficiency.erase("bf16"); }, "device.efficiency.bf16", "is missing"},
      {[](auto& c) { c.device.tflops.erase("bf16"); }, "device.efficiency.bf16",
       "is for a dtype that is missing in tflops"},
      {[](auto& c) {
         c.device.efficiency["fp32"]["linear"].points = {{1, 0.5}, {1, 0.6}};
       },
       "device.efficiency.fp32.linear", "must have ascending times above 0, but 1 comes after 1"},
      {[](auto& c) {
         c.host.efficiency["fp32"]["optimizer"].points = {{1, 0}};
       },
       "host.efficiency.fp32.optimizer", "must have shares above 0 and at most 16, but one is 0"},
      {[](auto& c) {
         c.host.efficiency["fp32"]["optimizer"].points = {{1, 16.5}};
       },
       "host.efficiency.fp32.optimizer",
       "must have shares above 0 and at most 16, but one is 16.5"},
      {[](auto& c) { c.device.efficiency["fp32"]["loss"] = {}; }, "device.efficiency.fp32.loss",
       "has no points"},
      {[](auto& c) {
         c.mesh.push_back({0, 4});
       },
       "mesh", "names device 4, but devices are 0 to 3"},
      {[](auto& c) {
         c.mesh.push_back({2, 2});
       },
       "mesh", "connects device 2 with itself"},
      {[](auto& c) { c.mesh = {}; }, "mesh", "is missing"},
      {[](auto& c) { c.topology = Topology::pcie; }, "mesh",
       "is only allowed with topology mesh, but the topology is pcie"},
      {[](auto& c) {
         c.ring = {0, 1, 2, 2};
       },
       "ring", "must name each of the devices 0 to 3 once"},
      {[](auto& c) { c.collective.sum = {}; }, "collective.sum", "has no points"},
      {[](auto& c) { c.message.send_us = -1; }, "message.send_us",
       "must not be negative, but is -1"},
  };
  for (const auto& mistake : mistakes) {
    ClusterSpec cluster = whole();
    mistake.make(cluster);
    const auto problem = find_problem(cluster);
    ASSERT_TRUE(problem) << mistake.field;
    EXPECT_EQ(problem->field, mistake.field);
    EXPECT_EQ(problem->reason, mistake.reason);
    try {
      check(cluster);
      ADD_FAILURE() << mistake.field;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "cluster whole: " + mistake.field + " " + mistake.reason);
    }
  }
}

}  // namespace
}  // namespace ringside::sim
