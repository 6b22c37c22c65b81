#include "core/observe/machine_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_fields.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;

/// A machine of four cores, of which this process may run on the first two.
class Load : public ::testing::Test {
 protected:
  /// The times of one of the first two cores, in seconds. The other two cores are always busy.
  struct Core {
    double user = 0, system = 0, idle = 0, steal = 0;
  };
  void stat(const Core& first, const Core& second) {
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    const auto line = [&](int number, const Core& core) {
      return fmt::format("cpu{} {:.0f} 0 {:.0f} {:.0f} 9 0 0 {:.0f} 0 0\n", number,
                         core.user * ticks, core.system * ticks, core.idle * ticks,
                         core.steal * ticks);
    };
    files_["/proc/stat"] = "cpu  1 2 3 4 5 6 7 8 0 0\n" + line(0, first) + line(1, second) +
                           line(2, {100 * now_}) + line(3, {100 * now_}) + "intr 77 1 2\n";
  }
  LoadMeter meter() { return LoadMeter(source()); }
  LoadSource source() {
    LoadSource source;
    source.read = [this](const std::string& file) { return files_[file]; };
    source.own = [this] { return own_; };
    source.now_s = [this] { return now_; };
    source.cores = {0, 1};
    return source;
  }

  std::map<std::string, std::string> files_;
  LoadSource::OwnUse own_;
  double now_ = 10;
};

TEST_F(Load, WhatTheRunDidNotUseIsThatOfOthers) {
  stat({5, 5, 5}, {1, 1, 1});
  own_ = {7, 100};
  const LoadMeter load = meter();
  now_ = 12;
  stat({6.5, 5.5, 5}, {2, 1.5, 1.5});  // both cores together: 3.5 s busy, 2 s of it the run
  own_ = {9, 130};
  const MachineLoad read = load.read();
  EXPECT_DOUBLE_EQ(read.seconds, 2);
  EXPECT_EQ(read.cores, 2);
  EXPECT_NEAR(read.others_s, 1.5, 1e-9);
  EXPECT_EQ(read.stolen_s, 0);
  EXPECT_EQ(read.interruptions, 30);
  EXPECT_EQ(disturbance(read, 2), "others used 0.8 of 2 cores; ranks lost their core 30 times");
  EXPECT_NEAR(lost_share(read, 2), 1.5 / 4, 1e-9);
}

TEST_F(Load, AQuietMachineDisturbsNoRun) {
  stat({0, 0, 0}, {0, 0, 0});
  const LoadMeter load = meter();
  now_ += 2;
  stat({2.02, 0, 0}, {1.9, 0.05, 0.01});  // busy for 3.97 s: 3.8 s the run, the rest daemons
  own_ = {3.8, 5000};  // 5000 interruptions are normal if threads outnumber cores
  EXPECT_EQ(disturbance(load.read(), 2), "");
}

TEST_F(Load, SaysWhatTheHypervisorTheQuotaAndHeatTook) {
  stat({0, 0, 0}, {0, 0, 0});
  files_["/proc/self/cgroup"] = "7:blkio:/other\n0::/box\n";
  files_["/proc/self/mountinfo"] = "29 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
  files_["/sys/fs/cgroup/box/cpu.stat"] = "usage_usec 5\nnr_throttled 0\nthrottled_usec 1000000\n";
  const std::string heat = "/sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count";
  files_[heat] = "4\n";
  const LoadMeter load = meter();
  now_ += 2;
  stat({1, 0, 0.5, 0.5}, {1, 0, 1, 0});
  files_["/sys/fs/cgroup/box/cpu.stat"] = "usage_usec 9\nnr_throttled 3\nthrottled_usec 1300000\n";
  files_[heat] = "6\n";
  own_.processor_s = 2;
  const MachineLoad read = load.read();
  EXPECT_NEAR(read.stolen_s, 0.5, 1e-9);
  EXPECT_NEAR(read.throttled_s, 0.3, 1e-9);
  EXPECT_EQ(read.heat_events, 2);
  const std::string text = disturbance(read, 2);
  EXPECT_THAT(text, HasSubstr("the hypervisor took 0.2 of 2 cores"));
  EXPECT_THAT(text, HasSubstr("a quota stopped the run for 0.3 of 2.0 s"));
  EXPECT_THAT(text, HasSubstr("heat lowered the clock"));
}

TEST_F(Load, TheFirstVersionOfControlGroupsHasNanoseconds) {
  files_["/proc/self/cgroup"] = "4:cpu,cpuacct:/box\n";
  files_["/proc/self/mountinfo"] =
      "30 29 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";
  const std::string stat = "/sys/fs/cgroup/cpu/box/cpu.stat";
  files_["/sys/fs/cgroup/cpu/cpu.stat"] = "nr_throttled 0\nthrottled_time 0\n";
  files_[stat] = "nr_throttled 1\nthrottled_time 5000000000\n";
  const LoadMeter load = meter();
  files_[stat] = "nr_throttled 2\nthrottled_time 6500000000\n";
  EXPECT_NEAR(load.read().throttled_s, 1.5, 1e-9);
}

TEST_F(Load, WhatTheSystemDoesNotTellIsNothing) {
  const LoadMeter load = meter();
  now_ += 1;
  const MachineLoad read = load.read();
  EXPECT_EQ(read.others_s, 0);
  EXPECT_EQ(disturbance(read, 2), "");
}

/// Other processes may use half of the time that the run leaves idle, plus a tenth of what the run
/// itself can use. With one thread, the run can use one of the two cores.
TEST_F(Load, TheThresholdIsAShareOfWhatTheRunCanUse) {
  const auto load = [](int cores, double others_s) {
    return MachineLoad{.seconds = 10, .cores = cores, .others_s = others_s};
  };
  EXPECT_NE(disturbance(load(2, 2.1), 2), "");
  EXPECT_EQ(disturbance(load(2, 1.9), 2), "");
  EXPECT_EQ(disturbance(load(2, 1.9), 16), "");  // the run cannot use more cores than there are
  EXPECT_NE(disturbance(load(2, 6.1), 1), "") << "more than half of the idle core, and a tenth";
  EXPECT_EQ(disturbance(load(2, 5.9), 1), "");
  EXPECT_EQ(disturbance(load(64, 25), 2), "") << "the run leaves 62 cores idle";
  EXPECT_EQ(disturbance({.seconds = 0.1, .cores = 2, .others_s = 0.04}, 2), "") << "ticks";
}

TEST_F(Load, ARunThatStoodStillIsDisturbed) {
  const auto still = [](double seconds) {
    return MachineLoad{.seconds = 40, .cores = 2, .stood_still_s = seconds};
  };
  EXPECT_EQ(disturbance(still(10), 2), "the run stood still for 10.0 of 40.0 s");
  EXPECT_DOUBLE_EQ(lost_share(still(10), 2), 0.25);
  EXPECT_EQ(disturbance(still(0.7), 2), "") << "less than 2%";
}

/// The clocks of a run do not count the sleep of the machine.
TEST_F(Load, AMachineThatSleptIsADisturbance) {
  double slept = 100;
  LoadSource of = source();
  of.suspended_s = [&] { return slept; };
  const LoadMeter load(std::move(of));
  now_ += 10;
  EXPECT_EQ(disturbance(load.read(), 2), "");
  slept += 3600;
  EXPECT_DOUBLE_EQ(load.read().seconds, 10);
  EXPECT_EQ(disturbance(load.read(), 2), "the machine was suspended for 3600.0 s");
  EXPECT_GT(lost_share(load.read(), 2), 0);
}

TEST_F(Load, IsWrittenAndReadBack) {
  const MachineLoad load{2.5, 2, 0.1, 0.2, 0.3, 4, 5, 6, 7};
  const auto again = read_json<MachineLoad>(nlohmann::json::parse(to_json(load).dump()));
  EXPECT_EQ(to_json(again), to_json(load));
}

TEST_F(Load, ThisMachineCanBeRead) {
  const LoadMeter load;
  double sum = 0;
  for (int i = 1; i < 100'000; ++i) sum += 1.0 / i;
  EXPECT_GT(sum, 0);
  EXPECT_GT(processor_seconds(), 0);
  const MachineLoad read = load.read();
  EXPECT_GT(read.seconds, 0);
  EXPECT_GE(read.cores, 1);
  EXPECT_GE(read.others_s, 0);
}

}  // namespace
}  // namespace ringside
