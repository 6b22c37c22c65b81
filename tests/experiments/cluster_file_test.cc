#include "experiments/runner/config/cluster_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/device/cost.h"
#include "tests/support/temporary_folder.h"

namespace ringside::runner {
namespace {

using testing::TemporaryFolder;

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::filesystem::path shipped = RINGSIDE_CLUSTERS;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

/// A complete cluster file that includes no other. Tests below rely on its line numbers.
const std::string machine = R"([cluster]
machines = 2
devices = 4
device = "fast"
host = "server"
topology = "switch"
peer = "port"
pcie = "bus"
nics = 2
nic = "net"
[device.fast]
memory_gb = 80
bandwidth_gbs = 2000
launch_us = 3
tflops = { fp32 = 20, bf16 = 300 }
[device.fast.efficiency]
linear = [[10, 0.4], [1000, 0.9]]
attention = 0.5
normalisation = 0.6
elementwise = 0.8
optimizer = 0.7
embedding = 0.4
loss = 0.3
[device.fast.efficiency.fp32]
linear = 0.95
[device.server]
like = "fast"
kind = "cpu"
cores = 16
[link.port]
bandwidth_gbs = 200
latency_us = 1
step_us = 3.4
[link.bus]
bandwidth_gbs = 25
latency_us = 1.5
step_us = 5.7
[link.net]
like = "bus"
step_us = 9.6
[collective]
kind = "nccl"
base_us = 8.4
[message]
send_us = 10
receive_us = 20
send_us_per_mb = 30
receive_us_per_mb = 40
)";

class ClusterFile : public ::testing::Test {
 protected:
  sim::ClusterSpec read(const std::string& text) {
    return read_cluster(folder_.write("mine.toml", text));
  }

  /// Returns the error that reading `text` throws, without the folder in front; "nothing" if it
  /// throws none. The error must be one line.
  std::string complaint(const std::string& text) {
    try {
      read(text);
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
      const std::string folder = folder_.path().string() + "/";
      EXPECT_THAT(what, StartsWith(folder));
      return what.substr(std::min(folder.size(), what.size()));
    }
    return "nothing";
  }

  TemporaryFolder folder_;
};

TEST_F(ClusterFile, ReadsEveryTable) {
  const auto c = read(machine);
  EXPECT_EQ(c.name, "mine");
  EXPECT_EQ(c.machines, 2);
  EXPECT_EQ(c.devices, 4);
  EXPECT_EQ(c.nics, 2);
  EXPECT_EQ(c.topology, sim::Topology::nvlink_switch);
  EXPECT_EQ(c.device.name, "fast");
  EXPECT_EQ(c.device.kind, sim::DeviceKind::gpu);
  EXPECT_EQ(c.device.tflops.at("bf16"), 300);
  EXPECT_EQ(c.device.efficiency.size(), 2U);
  std::size_t without_stand_in = 0;  // the file leaves out the classes that have a stand-in
  for (std::size_t i = 0; i < op_classes; ++i)
    without_stand_in += stand_in(static_cast<OpClass>(i)) ? 0 : 1;
  EXPECT_EQ(c.device.efficiency.at("fp32").size(), without_stand_in);
  EXPECT_EQ(c.device.efficiency.at("bf16").size(), without_stand_in);
  EXPECT_EQ(c.peer.gbs, 200);
  EXPECT_EQ(c.peer.step_us, 3.4);
  EXPECT_EQ(c.pcie.latency_us, 1.5);
  EXPECT_EQ(c.collective.kind, sim::CollectiveKind::nccl);
  EXPECT_EQ(c.collective.base_us, 8.4);
  EXPECT_EQ(c.message.send_us, 10);
  EXPECT_EQ(c.message.receive_us_per_mb, 40);
}

TEST_F(ClusterFile, SaysHowFastItWritesAndHowOftenItFails) {
  const auto without = read(machine);
  EXPECT_EQ(without.storage, sim::StorageSpec());
  EXPECT_EQ(without.failures, sim::FailureSpec());
  const std::string more =
      machine + std::string(
                    "[storage]\ngbs = 4\nshared_gbs = 100\nassumed = [\"gbs\"]\n"
                    "[failures]\ndevice_mtbf_h = 80_000\nrestart_s = 600\n");
  const auto c = read(more);
  EXPECT_EQ(c.storage, (sim::StorageSpec{4, 100}));
  EXPECT_EQ(c.failures, (sim::FailureSpec{80'000, 0, 600}));
  ASSERT_FALSE(c.assumed.empty());
  EXPECT_EQ(c.assumed.back(), (sim::Assumed{"storage", {"gbs"}}));
  EXPECT_EQ(read(cluster_text(c, "again")), c);
  EXPECT_EQ(complaint(machine + std::string("[storage]\nshared_gbs = 3\n")),
            "mine.toml:49: [storage] lacks gbs");
  EXPECT_EQ(complaint(replaced(more, "restart_s = 600", "restart_s = -1")),
            "mine.toml:55: failures.restart_s must not be negative, but is -1");
  EXPECT_EQ(complaint(replaced(more, "gbs = 4\n", "gbs = 0\n")),
            "mine.toml:50: storage.gbs is missing: shared_gbs alone does not say what one machine "
            "writes");
}

/// Llama 3's 419 interruptions of 54 days on 16,384 GPUs: one in 49.5 hours on 1,024.
TEST_F(ClusterFile, ShippedH100FailAsOftenAsThoseOfLlama3) {
  const auto c = read_cluster(shipped / "h100-128x8.toml");
  EXPECT_EQ(c.machines * c.devices, 1024);
  const double per_h = 1024 / c.failures.device_mtbf_h + 128 / c.failures.machine_mtbf_h;
  EXPECT_NEAR(1 / per_h, 54 * 24.0 / 419 * 16, 0.01);
  EXPECT_NEAR(1024 / c.failures.device_mtbf_h / per_h, 268.0 / 419, 1e-3);
  EXPECT_EQ(c.storage.shared_gbs, 2000 * 128 / 2048.0);
}

TEST_F(ClusterFile, SaysHowFarOffItIsAndHowFastModelsAre) {
  const std::string speeds = "[[speeds]]\nmodel = \"gpt2\"\nprecision = \"bf16\"\nfactor = 1.5\n";
  std::string text = replaced(machine, "nic = \"net\"\n", "nic = \"net\"\nerror = 0.08\n");
  text = replaced(text, "base_us = 8.4\n", "base_us = 8.4\nerror = 0.1\n");
  text = replaced(text, "launch_us = 3\n", "launch_us = 3\nerror = { bf16 = 0.2 }\n");
  text = replaced(text, "[link.net]\n",
                  "[link.net]\nby_mb = [[1, 0.5], [64, 1]]\n"
                  "queue_kb = 345\nby_queue = [[100, 0.5], [1000, 1]]\n");
  const auto c = read(text + speeds);
  EXPECT_EQ(c.error, 0.08);
  EXPECT_EQ(c.collective.error, 0.1);
  EXPECT_EQ(c.device.error, (std::map<std::string, double>{{"bf16", 0.2}}));
  EXPECT_TRUE(c.host.error.empty()) << "it is `like` the device, whose error is its own";
  EXPECT_EQ(c.nic.by_mb.at(8), 0.75);
  EXPECT_EQ(c.nic.queue_kb, 345);
  EXPECT_EQ(c.nic.by_queue.points, (std::vector<std::pair<double, double>>{{100, 0.5}, {1000, 1}}));
  EXPECT_TRUE(c.pcie.by_mb.points.empty());
  EXPECT_EQ(c.speeds, (std::vector<sim::ModelSpeed>{{"gpt2", "bf16", 1.5}}));
  EXPECT_EQ(read(replaced(cluster_text(c, ""), "[cluster]\n", "[cluster]\n")), c);

  EXPECT_THAT(complaint(text + replaced(speeds, "gpt2", "gtp2")),
              HasSubstr("unknown model.preset 'gtp2'; did you mean 'gpt2'?"));
  EXPECT_THAT(complaint(text + replaced(speeds, "bf16", "fp16")),
              HasSubstr("speeds.0.precision is 'fp16', of which device fast has no tflops"));
  EXPECT_THAT(complaint(text + speeds + speeds),
              HasSubstr("speeds.1 is for model gpt2 in bf16, as is an entry before it"));
  EXPECT_THAT(complaint(replaced(text, "bf16 = 0.2", "fp16 = 0.2")),
              HasSubstr("device.error.fp16 is for a dtype that is missing in tflops"));
  EXPECT_THAT(complaint(replaced(text, "[64, 1]", "[0.5, 1]")),
              HasSubstr("nic.by_mb must have ascending"));
  EXPECT_THAT(complaint(replaced(text, "by_queue = [[100, 0.5], [1000, 1]]", "by_queue = [0.5]")),
              HasSubstr("a share or a list of [kB, share]"));
}

TEST_F(ClusterFile, KnowsOperationsThatWereTimed) {
  const std::string timed =
      "[[timed]]\ntraining = \"a\"\ndtype = \"bf16\"\nkind = \"linear\"\noperations = 1e9\n"
      "bytes = 1e6\nus = 12.5\nmemory_us = 2.5\n";
  const auto c = read(machine + timed);
  EXPECT_EQ(c.timed,
            (std::vector<sim::TimedOperation>{{"a", "bf16", "linear", 1e9, 1e6, 12.5, 2.5}}));
  EXPECT_EQ(read(cluster_text(c, "")), c);
  EXPECT_THAT(complaint(machine + replaced(timed, "linear", "liner")),
              HasSubstr("unknown class of operations 'liner'; did you mean 'linear'?"));
  EXPECT_THAT(complaint(machine + replaced(timed, "us = 12.5\n", "")), HasSubstr("lacks us"));
  EXPECT_THAT(complaint(machine + replaced(timed, "memory_us = 2.5", "memory_us = 13")),
              HasSubstr("timed.0.memory_us must lie between 0 and us = 12.5, but is 13"));
}

TEST_F(ClusterFile, AnEfficiencyOfOneDtypeWinsOverThatOfAll) {
  const auto& efficiency = read(machine).device.efficiency;
  EXPECT_EQ(efficiency.at("fp32").at("linear").at(10), 0.95);
  EXPECT_EQ(efficiency.at("bf16").at("linear").at(10), 0.4);
  EXPECT_EQ(efficiency.at("bf16").at("linear").at(1e6), 0.9);
  EXPECT_EQ(efficiency.at("bf16").at("loss").at(7), 0.3);
}

TEST_F(ClusterFile, WhatIsLikeAnotherTakesWhatItDoesNotSay) {
  const auto c = read(machine);
  EXPECT_EQ(c.host.name, "server");
  EXPECT_EQ(c.host.kind, sim::DeviceKind::cpu);
  EXPECT_EQ(c.host.cores, 16);
  EXPECT_EQ(c.host.memory_gb, 80);
  EXPECT_EQ(c.host.efficiency.at("fp32").at("linear").at(1), 0.95);
  EXPECT_EQ(c.nic.gbs, 25);
  EXPECT_EQ(c.nic.step_us, 9.6);
}

TEST_F(ClusterFile, WinsOverWhatItIncludesKeyByKey) {
  folder_.write("base.toml", machine);
  const auto c = read(
      "include = \"base.toml\"\n[cluster]\nmachines = 3\n[device.fast]\nmemory_gb = 40\n"
      "tflops.bf16 = 150\n[device.fast.efficiency]\nlinear = 0.5\n");
  EXPECT_EQ(c.name, "mine");
  EXPECT_EQ(c.machines, 3);
  EXPECT_EQ(c.devices, 4);
  EXPECT_EQ(c.device.memory_gb, 40);
  EXPECT_EQ(c.host.memory_gb, 40);  // the host is `like` the device "fast"
  EXPECT_EQ(c.device.bandwidth_gbs, 2000);
  EXPECT_EQ(c.device.tflops.at("bf16"), 150);
  EXPECT_EQ(c.device.tflops.at("fp32"), 20);
  EXPECT_EQ(c.device.efficiency.at("fp32").at("linear").at(1), 0.5);
  EXPECT_EQ(c.device.efficiency.at("bf16").at("linear").at(1), 0.5);
  EXPECT_EQ(c.device.efficiency.at("bf16").at("loss").at(1), 0.3);
}

TEST_F(ClusterFile, AFileThatIsIncludedTwiceCountsOnce) {
  folder_.write("base.toml", machine);
  folder_.write("more.toml", "include = \"base.toml\"\n[cluster]\nmachines = 7\n");
  EXPECT_EQ(read("include = [\"more.toml\", \"base.toml\"]\n").machines, 7);
}

TEST_F(ClusterFile, EveryFileThatIsShippedCanBeRead) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(shipped)) {
    if (entry.path().filename() == "catalog.toml") continue;
    ++files;
    SCOPED_TRACE(entry.path().string());
    const auto c = read_cluster(entry.path());
    EXPECT_EQ(c.name, entry.path().stem().string());
    EXPECT_NE(c.source, "");
    EXPECT_TRUE(c.device.tflops.count("fp32"));
    EXPECT_GT(c.collective.base_us, 0);
    EXPECT_GT(c.message.receive_us, 0);
  }
  EXPECT_GE(files, 15);
}

TEST_F(ClusterFile, ShippedMachinesAreWhatTheyAreCalled) {
  const auto a100 = read_cluster(shipped / "a100-128x8.toml");
  EXPECT_EQ(a100.machines * a100.devices, 1024);
  EXPECT_EQ(a100.device.memory_gb, 80);
  EXPECT_EQ(a100.nics, 8);
  EXPECT_GT(a100.machines_per_switch, 0);
  const auto dgx1 = read_cluster(shipped / "dgx-1-v100.toml");
  EXPECT_EQ(dgx1.topology, sim::Topology::mesh);
  std::vector<int> links(8);
  for (const auto& [a, b] : dgx1.mesh) {
    ++links.at(static_cast<std::size_t>(a));
    ++links.at(static_cast<std::size_t>(b));
  }
  EXPECT_THAT(links, ::testing::Each(6));  // every V100 has six NVLinks
  for (std::size_t i = 0; i < 8; ++i) {    // the ring joins pairs that have two links
    const auto a = dgx1.ring[i], b = dgx1.ring[(i + 1) % 8];
    EXPECT_EQ(
        std::count(dgx1.mesh.begin(), dgx1.mesh.end(), std::pair(std::min(a, b), std::max(a, b))),
        2);
  }
  EXPECT_EQ(read_cluster(shipped / "v100-8x1-ethernet-10.toml").nic.gbs, 1.18);
  EXPECT_EQ(read_cluster(shipped / "hgx-h200.toml").device.memory_gb, 141);
}

TEST_F(ClusterFile, EveryDeviceAndLinkOfTheCatalogIsRight) {
  for (const char* device :
       {"v100-sxm-16", "v100-sxm-32", "a100-sxm-40", "a100-sxm-80", "a100-pcie-80", "h100-sxm",
        "h100-pcie", "h200-sxm", "rtx-3090", "rtx-4090", "l4", "t4"})
    for (const char* nic : {"ethernet-1", "ethernet-10", "ethernet-25", "ethernet-100",
                            "infiniband-100", "infiniband-200", "infiniband-400"}) {
      const auto file = folder_.write(
          "any.toml", fmt::format("include = \"{}\"\n[cluster]\nmachines = 2\ndevice = \"{}\"\n"
                                  "topology = \"pcie\"\npcie = \"pcie-5\"\nnic = \"{}\"\n",
                                  (shipped / "catalog.toml").string(), device, nic));
      EXPECT_NO_THROW(read_cluster(file)) << device << " " << nic;
    }
}

/// To three digits, as the catalog writes them.
TEST_F(ClusterFile, TheH100OfTheCatalogHasTheSharesThatWereMeasuredOnOne) {
  const sim::DeviceSpec catalog = read_cluster(shipped / "dgx-h100.toml").device;
  const sim::DeviceSpec measured =
      read_cluster(shipped / "../../results/gpu/nvidia-h100-80gb-hbm3/calibration/cuda.toml")
          .device;
  EXPECT_EQ(catalog.tflops, measured.tflops);
  EXPECT_NEAR(catalog.launch_us, measured.launch_us, 0.01);
  int points = 0;
  const auto compare = [&](const std::string& dtype, const std::vector<std::string>& classes) {
    for (const std::string& name : classes) {
      const auto& here = catalog.efficiency.at(dtype).at(name).points;
      const auto& there = measured.efficiency.at(dtype).at(name).points;
      ASSERT_EQ(here.size(), there.size()) << dtype << " " << name;
      for (std::size_t i = 0; i < here.size(); ++i, ++points) {
        EXPECT_NEAR(here[i].first / there[i].first, 1, 0.006) << dtype << " " << name;
        EXPECT_NEAR(here[i].second / there[i].second, 1, 0.006) << dtype << " " << name;
      }
    }
  };
  const std::vector<std::string> of_gpt = {"linear",    "attention", "normalisation", "elementwise",
                                           "optimizer", "embedding", "loss"};
  compare("fp32", of_gpt);
  compare("tf32", {"linear", "attention"});
  compare("bf16", of_gpt);
  compare("bf16", {"convolution", "batch_normalisation", "pooling"});
  EXPECT_GT(points, 80);
}

TEST_F(ClusterFile, ItsTextIsReadBackAsTheSameCluster) {
  for (const char* name : {"dgx-1-v100.toml", "a100-128x8.toml", "t4-8x1-ethernet-10.toml"}) {
    const auto cluster = read_cluster(shipped / name);
    const auto text = cluster_text(cluster, "one\ntwo");
    EXPECT_THAT(text, StartsWith("# one\n# two\n"));
    EXPECT_THAT(text, ::testing::Not(HasSubstr("include")));
    EXPECT_EQ(read(text), cluster) << text;
  }
}

/// The keys that are assumed of a part.
std::vector<std::string> assumed(const sim::ClusterSpec& cluster, const std::string& part) {
  for (const sim::Assumed& one : cluster.assumed)
    if (one.part == part) return one.keys;
  return {};
}

TEST_F(ClusterFile, SaysWhichFiguresAreAssumed) {
  std::string base =
      replaced(machine, "nic = \"net\"\n", "nic = \"net\"\nspread = 0.1\nassumed = [\"spread\"]\n");
  base = replaced(base, "launch_us = 3\n",
                  "launch_us = 3\nassumed = [\"launch_us\", \"memory_gb\", \"efficiency.loss\", "
                  "\"efficiency.linear\", \"efficiency.fp32.linear\"]\n");
  base = replaced(base, "step_us = 9.6\n", "step_us = 9.6\nassumed = [\"latency_us\"]\n");
  base = replaced(base, "cores = 16\n",
                  "cores = 16\nmemory_gb = 100\nassumed = [\"cores\"]\n"
                  "[device.server.efficiency.fp32]\nlinear = 1\n");
  const sim::ClusterSpec c = read(base);
  EXPECT_THAT(assumed(c, "device fast"),
              ElementsAre("launch_us", "memory_gb", "efficiency.linear", "efficiency.loss"));
  // What a device has of its own is not assumed; what it takes by `like` is as it is there.
  EXPECT_THAT(assumed(c, "device server"),
              ElementsAre("cores", "launch_us", "efficiency.bf16.linear", "efficiency.loss"));
  EXPECT_THAT(assumed(c, "cluster"), ElementsAre("spread"));
  EXPECT_THAT(assumed(c, "nic"), ElementsAre("latency_us"));
  EXPECT_EQ(c.assumed.size(), 4u) << "of the parts in use alone";
  EXPECT_EQ(read(cluster_text(c, "")), c);

  folder_.write("base.toml", base);
  const sim::ClusterSpec over = read(
      "include = \"base.toml\"\n[cluster]\nspread = 0.2\nerror = 0.1\nassumed = [\"error\"]\n"
      "[device.fast.efficiency]\nlinear = 0.7\n");
  EXPECT_THAT(assumed(over, "cluster"), ElementsAre("error"));
  EXPECT_THAT(assumed(over, "device fast"),
              ElementsAre("launch_us", "memory_gb", "efficiency.loss"));
  EXPECT_THAT(complaint(replaced(base, "[\"launch_us\"", "[\"lunch_us\"")),
              StartsWith("mine.toml:17: assumed: [device.fast] has no key 'lunch_us'"));
}

TEST_F(ClusterFile, TheTextOfACpuWithSharedMemoryIsReadBack) {
  auto cluster = read(machine);
  cluster.name = "this \"machine\"";
  cluster.source = "measured";
  cluster.machines = 1;
  cluster.device = cluster.host;
  cluster.device.name = cluster.host.name = "Intel(R) Xeon(R) CPU @ 2.10GHz";
  cluster.device.efficiency["fp32"]["loss"].points = {{0.1, 0.3}, {17.25, 1.0 / 3}};
  cluster.device.efficiency["fp32"]["linear"].points = {{5, 0.7}};
  cluster.host = cluster.device;
  cluster.topology = sim::Topology::pcie;
  cluster.peer = {};
  cluster.nic = {};
  cluster.collective = {.kind = sim::CollectiveKind::shm,
                        .base_us = 0.7,
                        .sum = {{{1, 0.2}, {300, 0.8}}},
                        .copy = {{{1, 0.9}}}};
  EXPECT_EQ(read(cluster_text(cluster, "")), cluster);

  cluster.host.memory_gb = 1;
  EXPECT_THROW(cluster_text(cluster, ""), Error);
}

/// Devices of another kind in machine 1, and a slow device in machine 0. Begins in line 49.
const std::string uneven = R"([[others]]
first = 1
device = "old"
[[slow]]
machine = 0
device = 3
factor = 1.5
[device.old]
like = "fast"
memory_gb = 16
)";

TEST_F(ClusterFile, NamesMachinesWithOtherDevicesAndSlowOnes) {
  const std::string text = replaced(machine, "nics = 2", "nics = 2\njitter = 0.05") + uneven;
  const sim::ClusterSpec c = read(text);
  ASSERT_EQ(c.others.size(), 1u);
  EXPECT_EQ(c.others[0].first, 1);
  EXPECT_EQ(c.others[0].count, 1);
  EXPECT_EQ(c.others[0].device.name, "old");
  EXPECT_EQ(c.others[0].device.memory_gb, 16);
  EXPECT_EQ(c.others[0].device.tflops, c.device.tflops);
  EXPECT_EQ(c.slow, (std::vector<sim::SlowDevice>{{.machine = 0, .device = 3, .factor = 1.5}}));
  EXPECT_EQ(c.jitter, 0.05);
  EXPECT_EQ(read(cluster_text(c, "")), c);

  folder_.write("base.toml", text);
  const sim::ClusterSpec over =
      read("include = \"base.toml\"\n[[slow]]\nmachine = 1\nfactor = 2\n");
  EXPECT_EQ(over.slow, (std::vector<sim::SlowDevice>{{.machine = 1, .device = -1, .factor = 2}}))
      << "a list replaces the included one";
  EXPECT_EQ(over.others, c.others);

  sim::ClusterSpec unclear = c;
  unclear.others[0].device.name = "fast";
  EXPECT_THROW(cluster_text(unclear, ""), Error);
}

TEST_F(ClusterFile, MistakesOfUnevenMachinesAreRefusedByFileLineAndReason) {
  const std::vector<std::array<std::string, 3>> mistakes = {
      {"first = 1", "first = 2",
       "mine.toml:49: others.0 names machines 2 to 2, but machines are 0 to 1"},
      {"first = 1\n", "", "mine.toml:49: [others] lacks first"},
      {"first = 1", "first = 1\ncout = 2",
       "mine.toml:51: unknown key 'cout' in [others]; did you mean 'count'?"},
      {"\"old\"", "\"odl\"", "mine.toml:51: unknown device 'odl'; did you mean 'old'?"},
      {"memory_gb = 16", "memory_gb = -1",
       "mine.toml:58: others.0.device.memory_gb must be more than 0, but is -1"},
      {"factor = 1.5", "factor = 0.5",
       "mine.toml:55: slow.0.factor must be at least 1, but is 0.5"},
      {"device = 3", "device = 4",
       "mine.toml:54: slow.0.device is 4, but devices are 0 to 3; -1: all of the machine"},
      {"[[slow]]", "[slow]",
       "mine.toml:53: write each entry as a table [[slow]], with two brackets on each side"},
      {"[[slow]]", "[[slwo]]", "mine.toml:52: unknown key 'slwo'; did you mean 'slow'?"}};
  for (const auto& [from, to, expected] : mistakes)
    EXPECT_EQ(complaint(machine + replaced(uneven, from, to)), expected) << to;
}

TEST_F(ClusterFile, MistakesAreRefusedByFileLineAndReason) {
  struct Mistake {
    std::string from, to, complaint;
  };
  const std::vector<Mistake> mistakes = {
      // names
      {"machines = 2", "machnes = 2",
       "mine.toml:2: unknown key 'machnes' in [cluster]; did you mean 'machines'?"},
      {"memory_gb = 80", "memory_gb = 80\nmemry = 1",
       "mine.toml:13: unknown key 'memry' in [device.fast]; did you mean 'memory_gb'?"},
      {"[link.port]", "[lnk.port]", "mine.toml:31: unknown table 'lnk'; did you mean 'link'?"},
      {"[cluster]", "inclde = 3\n[cluster]",
       "mine.toml:1: unknown key 'inclde'; did you mean 'include'?"},
      {"[link.port]", "[link]",
       "mine.toml:31: 'link.bandwidth_gbs' is a table; write [link.NAME] "
       "with its keys below"},
      {"device = \"fast\"", "device = \"fats\"",
       "mine.toml:4: unknown device 'fats'; did you mean 'fast'?"},
      {"peer = \"port\"", "peer = \"prt\"",
       "mine.toml:7: unknown link 'prt'; did you mean 'port'?"},
      {"like = \"bus\"", "like = \"bas\"", "mine.toml:39: unknown link 'bas'; did you mean 'bus'?"},
      {"attention = 0.5", "atention = 0.5",
       "mine.toml:18: unknown class of operations 'atention' in efficiency of [device.fast]; did "
       "you mean 'attention'?"},
      {"[device.fast.efficiency.fp32]", "[device.fast.efficiency.fp23]",
       "mine.toml:25: unknown dtype 'fp23' in efficiency of [device.fast]; did you mean 'fp32'?"},
      {"bf16 = 300", "b16 = 300",
       "mine.toml:15: device.tflops.b16 has an unknown dtype; the known dtypes are fp32, tf32, "
       "fp16, bf16"},
      // types
      {"machines = 2", "machines = \"two\"",
       "mine.toml:2: machines must be an integer, but \"two\" is a string"},
      {"machines = 2", "machines = 2.5",
       "mine.toml:2: machines must be an integer, but 2.5 is a number with a fraction"},
      {"topology = \"switch\"", "topology = \"ring\"",
       "mine.toml:6: topology = \"ring\" is not known; choose pcie, switch or mesh"},
      {"attention = 0.5", "attention = [0.5, 1]",
       "mine.toml:18: efficiency.attention must be a share or a list of [microseconds, share], but "
       "[0.5, 1] is a list"},
      {"nics = 2", "nics = 2\nmesh = [[0, 1, 2]]",
       "mine.toml:10: mesh must be a list of pairs of numbers, as in [[0, 1], [1, 2]], but [[0, 1, "
       "2]] is a list"},
      {"bandwidth_gbs = 200\n", "bandwidth_gbs = nan\n",
       "mine.toml:31: bandwidth_gbs must be a finite number, but nan is not finite"},
      {"machines = 2", "machines = 1979-05-27",
       "mine.toml:2: no key takes a date or time; write text in quotes"},
      {"machines = 2", "machines = = 2", "mine.toml:2: "},
      // impossible values
      {"machines = 2", "machines = 0", "mine.toml:2: machines must be more than 0, but is 0"},
      {"memory_gb = 80", "memory_gb = -80",
       "mine.toml:12: device.memory_gb must be more than 0, but is -80"},
      {"bandwidth_gbs = 200\n", "bandwidth_gbs = 0\n",
       "mine.toml:31: peer.bandwidth_gbs must be more than 0, but is 0"},
      {"step_us = 9.6", "step_us = -1",
       "mine.toml:40: nic.step_us must not be negative, but is -1"},
      {"latency_us = 1.5", "latency_us = -1",
       "mine.toml:36: pcie.latency_us must not be negative, but is -1"},
      {"attention = 0.5", "attention = 0",
       "mine.toml:18: device.efficiency.bf16.attention must have shares above 0 and at most 16, "
       "but "
       "one is 0"},
      {"linear = 0.95", "linear = 17",
       "mine.toml:25: device.efficiency.fp32.linear must have shares above 0 and at most 16, but "
       "one "
       "is 17"},
      {"[1000, 0.9]", "[10, 0.9]",
       "mine.toml:17: device.efficiency.bf16.linear must have ascending times above 0, but 10 "
       "comes after 10"},
      {"nics = 2", "nics = 3",
       "mine.toml:9: nics must divide the 4 devices of a machine, but is 3"},
      {"nics = 2", "nics = 2\nring = [0, 1]",
       "mine.toml:10: ring must name each of the devices 0 to 3 once"},
      {"topology = \"switch\"", "topology = \"mesh\"\nmesh = [[0, 4]]",
       "mine.toml:7: mesh names device 4, but devices are 0 to 3"},
      {"topology = \"switch\"", "topology = \"mesh\"", "mine.toml:1: mesh is missing"},
      {"kind = \"cpu\"\ncores = 16", "", "mine.toml:26: host.kind must be cpu, but is gpu"},
      {"kind = \"nccl\"", "kind = \"mpi\"",
       "mine.toml:42: kind = \"mpi\" is not known; choose nccl or shm"},
      // what is missing
      {"device = \"fast\"\n", "", "mine.toml:1: [cluster] lacks device"},
      {"nic = \"net\"\n", "", "mine.toml:1: [cluster] lacks nic"},
      {"peer = \"port\"\n", "", "mine.toml:1: [cluster] lacks peer"},
      {"memory_gb = 80\n", "",
       "mine.toml:11: [device.fast] lacks memory_gb; did you mean 'server'?"},
      {"loss = 0.3\n", "",
       "mine.toml:11: [device.fast] lacks efficiency.loss (or efficiency.bf16.loss)"},
      {"tflops = { fp32 = 20, bf16 = 300 }\n", "",
       "mine.toml:11: [device.fast] lacks tflops.fp32; did you mean 'server'?"},
      {"bandwidth_gbs = 200\n", "",
       "mine.toml:30: [link.port] lacks bandwidth_gbs; did you mean 'net'?"},
      {"kind = \"nccl\"", "kind = \"shm\"", "mine.toml:41: [collective] lacks sum"},
      {"[collective]\nkind = \"nccl\"\nbase_us = 8.4\n", "",
       "mine.toml: the table [collective] is missing"},
      {"send_us = 10\n", "", "mine.toml:44: [message] lacks send_us"},
      // tables that are `like` others, and files that include others
      {"like = \"bus\"", "like = \"net\"",
       "mine.toml:39: link 'net' refers back to itself through `like`"},
      {"[cluster]", "include = \"absent.toml\"\n[cluster]",
       "mine.toml:1: include: cannot find the file " + (folder_.path() / "absent.toml").string()},
      {"[cluster]", "include = \"mine.toml\"\n[cluster]",
       "mine.toml:1: include: " + (folder_.path() / "mine.toml").string() +
           " includes this file already"},
      {"[cluster]", "include = 3\n[cluster]",
       "mine.toml:1: include must be a string or a list of strings, but 3 is an integer"},
  };
  for (const auto& mistake : mistakes) {
    const auto what = complaint(replaced(machine, mistake.from, mistake.to));
    EXPECT_THAT(what, StartsWith(mistake.complaint)) << mistake.to;
    if (!mistake.complaint.ends_with(' ')) {
      EXPECT_EQ(what, mistake.complaint);
    }
  }
}

TEST_F(ClusterFile, MistakesOfIncludedFilesNameThose) {
  folder_.write("base.toml", replaced(machine, "memory_gb = 80", "memory_gb = 0"));
  EXPECT_EQ(complaint("include = \"base.toml\"\n"),
            "base.toml:12: device.memory_gb must be more than 0, but is 0");
  folder_.write("base.toml", "include = \"mine.toml\"\n" + machine);
  EXPECT_THAT(complaint("\ninclude = \"base.toml\"\n"),
              ::testing::AllOf(StartsWith("base.toml:1: include: "),
                               EndsWith("mine.toml includes this file already")));
}

TEST_F(ClusterFile, LongChainsAreRefused) {
  constexpr int many = 20;
  for (int i = 0; i < many; ++i)
    folder_.write(std::to_string(i) + ".toml",
                  "include = \"" + std::to_string(i + 1) + ".toml\"\n");
  folder_.write(std::to_string(many) + ".toml", machine);
  EXPECT_THAT(complaint("include = \"0.toml\"\n"),
              EndsWith("a chain of includes is longer than 16 files"));
  EXPECT_EQ(complaint("include = \"10.toml\"\n"), "nothing");
  std::string links = machine;
  for (int i = 0; i < many; ++i) links += fmt::format("[link.l{}]\nlike = \"l{}\"\n", i, i + 1);
  links += fmt::format("[link.l{}]\nlike = \"bus\"\n", many);
  EXPECT_THAT(complaint(links), EndsWith("a chain of tables linked by `like` is longer than 16"));
}

TEST_F(ClusterFile, ThatOnlyChangesWhatThereIsNotAsksWhatWasMeant) {
  folder_.write("base.toml", machine);
  EXPECT_EQ(complaint("include = \"base.toml\"\n[device.fest]\nmemory_gb = 40\n"),
            "mine.toml:2: [device.fest] lacks bandwidth_gbs; did you mean 'fast'?");
}

TEST_F(ClusterFile, ThatIsNotThereSaysWhatToName) {
  EXPECT_THROW(read_cluster(folder_.path() / "absent.toml"), Error);
  EXPECT_THROW(read_cluster(folder_.path()), Error);
}

}  // namespace
}  // namespace ringside::runner
