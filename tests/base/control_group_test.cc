#include "core/base/control_group.h"

#include <gtest/gtest.h>

#include "core/base/processor.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

/// A system whose files lie in a temporary folder.
class ControlGroups : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((folder_.path() / file).parent_path());
    folder_.write(file, text);
  }
  ControlGroup group() {
    return ControlGroup([root = folder_.path().string()](const std::string& file) {
      return read_system_file(root + file);
    });
  }
  /// A process in these groups of a system that has mounted version 2 alone.
  void second_version(const std::string& path, const std::string& root = "/") {
    write("proc/self/cgroup", "0::" + path + "\n");
    write("proc/self/mountinfo",
          "24 1 0:22 / /proc rw,nosuid shared:12 - proc proc rw\n"
          "29 22 0:26 " +
              root + " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  /// The same with version 1 for processors and memory; version 2 is there, and has no controller.
  void first_version(const std::string& path, const std::string& root = "/") {
    write("proc/self/cgroup", "9:name=systemd:/\n4:memory:" + path +
                                  "\n3:cpuset:/\n1:cpu,cpuacct:" + path + "\n0::/\n");
    write("proc/self/mountinfo",
          "32 31 0:29 " + root + " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
              "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n" + "35 31 0:32 " +
              root + " /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
              "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  }
  void first_quota(const std::string& folder, const std::string& quota, const std::string& period) {
    write("sys/fs/cgroup/cpu,cpuacct" + folder + "/cpu.cfs_quota_us", quota + "\n");
    write("sys/fs/cgroup/cpu,cpuacct" + folder + "/cpu.cfs_period_us", period + "\n");
  }

  testing::TemporaryFolder folder_;
};

TEST_F(ControlGroups, ASystemWithoutThemHasNoLimits) {
  const ControlGroup none = group();
  EXPECT_EQ(none.cores(), std::nullopt);
  EXPECT_EQ(none.cores_of(4), 4);
  EXPECT_EQ(none.memory(), std::nullopt);
  EXPECT_EQ(none.throttled_s(), 0);
  EXPECT_EQ(none.out_of_memory_kills(), std::nullopt);
}

TEST_F(ControlGroups, OfVersion2) {
  second_version("/job/step");
  write("sys/fs/cgroup/job/step/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/job/step/cpu.stat", "usage_usec 5\nthrottled_usec 2500000\n");
  write("sys/fs/cgroup/job/step/memory.max", "536870912\n");
  write("sys/fs/cgroup/job/step/memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 0\n");
  EXPECT_EQ(group().cores(), 1.5);
  EXPECT_EQ(group().cores_of(4), 1) << "the second core has no whole time";
  EXPECT_EQ(group().memory(), 536870912);
  EXPECT_EQ(group().throttled_s(), 2.5);
  EXPECT_EQ(group().out_of_memory_kills(), 2);
}

TEST_F(ControlGroups, OfVersion1) {
  first_version("/slurm/job_7");
  first_quota("/slurm/job_7", "250000", "100000");
  first_quota("", "-1", "100000");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.stat", "nr_throttled 0\nthrottled_time 0\n");
  write("sys/fs/cgroup/cpu,cpuacct/slurm/job_7/cpu.stat",
        "nr_throttled 4\nthrottled_time 1500000000\n");
  write("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "1073741824\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/slurm/job_7/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  EXPECT_EQ(group().cores(), 2.5);
  EXPECT_EQ(group().cores_of(2), 2) << "a mask of two cores is less than the quota";
  EXPECT_EQ(group().memory(), 1073741824);
  EXPECT_EQ(group().throttled_s(), 1.5);
  EXPECT_EQ(group().out_of_memory_kills(), 1);
}

TEST_F(ControlGroups, TheSmallestLimitOfAllGroupsAroundCounts) {
  second_version("/outer/middle/inner");
  write("sys/fs/cgroup/outer/cpu.max", "200000 100000\n");
  write("sys/fs/cgroup/outer/middle/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/outer/middle/inner/cpu.max", "600000 100000\n");
  write("sys/fs/cgroup/outer/memory.max", "max\n");
  write("sys/fs/cgroup/outer/middle/memory.max", "1000000\n");
  write("sys/fs/cgroup/outer/middle/inner/memory.max", "5000000\n");
  write("sys/fs/cgroup/outer/cpu.stat", "throttled_usec 3000000\n");
  write("sys/fs/cgroup/outer/middle/inner/cpu.stat", "throttled_usec 1000000\n");
  EXPECT_EQ(group().cores(), 2);
  EXPECT_EQ(group().memory(), 1000000);
  EXPECT_EQ(group().throttled_s(), 3);
  first_version("/outer/inner");
  first_quota("/outer", "50000", "100000");
  first_quota("/outer/inner", "-1", "100000");
  EXPECT_EQ(group().cores(), 0.5);
  EXPECT_EQ(group().cores_of(8), 1) << "at least one core";
}

// A container sees its own group as the root of what is mounted, whether or not it has a namespace
// of groups; if it has none, /proc/self/cgroup still has the path of the host.
TEST_F(ControlGroups, OfAContainer) {
  for (const auto& [path, root] : {std::pair("/docker/0123", "/docker/0123"),
                                   {"/", "/"},
                                   {"/../../elsewhere", "/"},
                                   {"/docker/4567", "/docker/0123"}}) {
    second_version(path, root);
    write("sys/fs/cgroup/cpu.max", "300000 100000\n");
    write("sys/fs/cgroup/memory.max", "4000000\n");
    EXPECT_EQ(group().cores(), 3) << path;
    EXPECT_EQ(group().memory(), 4000000) << path;
  }
  first_version("/docker/0123/init", "/docker/0123");
  first_quota("", "-1", "100000");
  first_quota("/init", "400000", "100000");
  EXPECT_EQ(group().cores(), 4);
}

TEST_F(ControlGroups, AMountPointMayHaveBlanks) {
  second_version("/");
  write("proc/self/mountinfo", "29 22 0:26 / /my\\040groups rw - cgroup2 cgroup2 rw\n");
  write("my groups/cpu.max", "100000 100000\n");
  EXPECT_EQ(group().cores(), 1);
}

TEST_F(ControlGroups, ThisSystemCanBeRead) {
  EXPECT_GE(ControlGroup().cores_of(4), 1);
  EXPECT_GE(allowed_cores().value_or(1), 1);
  EXPECT_GT(allowed_memory(), 0);
}

}  // namespace
}  // namespace ringside
