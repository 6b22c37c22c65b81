#include "experiments/runner/hosts/launcher_env.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using ::testing::HasSubstr;
using Environment = std::vector<std::string>;

TEST(LauncherEnvTest, AProcessThatNoLauncherStartedHasNone) {
  EXPECT_EQ(launcher_env_of({"PATH=/usr/bin", "RANKING=3", "SLURM_JOB_ID=5"}), std::nullopt);
}

TEST(LauncherEnvTest, AProcessThatIsAloneHasNone) {
  EXPECT_EQ(launcher_env_of({"RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=a"}), std::nullopt);
  EXPECT_EQ(launcher_env_of({"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1"}), std::nullopt);
}

TEST(LauncherEnvTest, ByHandOrByTorchrun) {
  Environment environment = {"RANK=3", "WORLD_SIZE=8", "MASTER_ADDR=node-0", "MASTER_PORT=4000"};
  const LauncherEnv by_hand{.rank = 3,
                            .size = 8,
                            .leader = "node-0",
                            .port = 4000,
                            .told_by = "RANK and WORLD_SIZE",
                            .leader_told_by = "MASTER_ADDR"};
  EXPECT_EQ(launcher_env_of(environment), by_hand);
  environment.emplace_back("TORCHELASTIC_USE_AGENT_STORE=True");
  LauncherEnv by_torchrun = by_hand;
  by_torchrun.port = 4001;
  EXPECT_EQ(launcher_env_of(environment), by_torchrun);
}

TEST(LauncherEnvTest, OfTheTrainingOperatorAProcessAHost) {
  const auto seat = launcher_env_of({"PET_NODE_RANK=1", "PET_NNODES=2", "PET_NPROC_PER_NODE=4",
                                     "PET_MASTER_ADDR=job-master-0", "PET_MASTER_PORT=23456"});
  EXPECT_EQ(seat, (LauncherEnv{.rank = 1,
                               .size = 2,
                               .slots = 4,
                               .leader = "job-master-0",
                               .port = 23456,
                               .told_by = "PET_NODE_RANK and PET_NNODES",
                               .leader_told_by = "PET_MASTER_ADDR"}));
}

TEST(LauncherEnvTest, OpenMpiNamesTheAddressesOfItsFirstHost) {
  const auto seat =
      launcher_env_of({"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
                       "OMPI_MCA_orte_hnp_uri=1213399040.0;tcp://10.1.0.1,10.2.0.1:56295;"
                       "tcp6://[fd00::2]:53033",
                       "PMIX_NAMESPACE=1213399041"});
  ASSERT_TRUE(seat);
  EXPECT_EQ(seat->leader, "10.1.0.1,10.2.0.1");
  EXPECT_EQ(seat->leader_told_by, "OMPI_MCA_orte_hnp_uri");
  EXPECT_GE(seat->port, 61440);
  EXPECT_LT(seat->port, 65536);
}

TEST(LauncherEnvTest, MpichSaysNothingOfTheFirstHost) {
  EXPECT_EQ(launcher_env_of({"PMI_RANK=1", "PMI_SIZE=2"}),
            (LauncherEnv{.rank = 1, .size = 2, .told_by = "PMI_RANK and PMI_SIZE"}));
}

TEST(LauncherEnvTest, SlurmNamesItsHosts) {
  const auto first_of = [](const std::string& list) {
    return launcher_env_of({"SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2",
                            "SLURM_STEP_NODELIST=" + list, "SLURM_JOB_ID=4099"})
        ->leader;
  };
  EXPECT_EQ(first_of("gnode[10,20-23],login"), "gnode10");
  EXPECT_EQ(first_of("gnode[008-011]"), "gnode008");
  EXPECT_EQ(first_of("a,b[1-2]"), "a");
  EXPECT_EQ(first_of("alone"), "alone");
  EXPECT_EQ(
      launcher_env_of({"SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "SLURM_JOB_ID=4099"})->port,
      61443);
}

TEST(LauncherEnvTest, ABatchScriptOfSlurmIsNoStep) {
  EXPECT_EQ(launcher_env_of({"SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_JOB_ID=5"}), std::nullopt);
}

TEST(LauncherEnvTest, TheInnermostLauncherCounts) {
  const auto seat =
      launcher_env_of({"SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=2", "OMPI_COMM_WORLD_RANK=1",
                       "OMPI_COMM_WORLD_SIZE=4", "RANK=5", "WORLD_SIZE=8", "MASTER_ADDR=a"});
  EXPECT_EQ(seat->rank, 5);
  EXPECT_EQ(seat->size, 8);
}

TEST(LauncherEnvTest, MasterAddrCountsForEveryLauncher) {
  const auto seat = launcher_env_of({"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
                                     "OMPI_MCA_orte_hnp_uri=7.0;tcp://10.1.0.1:56295",
                                     "MASTER_ADDR=b", "MASTER_PORT=77"});
  EXPECT_EQ(seat->leader, "b");
  EXPECT_EQ(seat->port, 77);
}

TEST(LauncherEnvTest, TheFormsOfTorchrunAreTaken) {
  const auto seat = [](const std::string& nodes, const std::string& processes) {
    return launcher_env_of(
        {"PET_NODE_RANK=1", "PET_NNODES=" + nodes, "PET_NPROC_PER_NODE=" + processes});
  };
  EXPECT_EQ(seat("2:2", "3")->size, 2);
  EXPECT_EQ(seat("2:2", "3")->slots, 3);
  for (const char* word : {"auto", "cpu", "gpu"}) EXPECT_EQ(seat("2", word)->slots_as, word);
  EXPECT_EQ(seat("2", "4")->slots_as, "");
}

TEST(LauncherEnvTest, AJobOfOnePodIsAlone) {
  EXPECT_EQ(launcher_env_of({"PET_NNODES=1:1", "PET_NPROC_PER_NODE=auto"}), std::nullopt);
  EXPECT_EQ(launcher_env_of({"PET_NNODES=1", "PET_NODE_RANK=0", "PET_NPROC_PER_NODE=4",
                             "PET_MASTER_ADDR=job-node-0-0", "PET_MASTER_PORT=29400"}),
            std::nullopt);
}

TEST(LauncherEnvTest, WrongVariablesAreNamed) {
  const auto complaint_about = [](const Environment& environment) {
    return testing::complaint([&] { static_cast<void>(launcher_env_of(environment)); });
  };
  EXPECT_EQ(
      complaint_about({"RANK=0"}),
      "RANK = 0 is set, but WORLD_SIZE is not, and launchers set both; set both, or unset RANK");
  EXPECT_EQ(complaint_about({"WORLD_SIZE=2"}),
            "WORLD_SIZE = 2 is set, but RANK is not, and launchers set both; set both, or unset "
            "WORLD_SIZE");
  for (const char* of : {"OMPI_COMM_WORLD_RANK=0", "PMI_RANK=0", "PET_NODE_RANK=0", "PET_NNODES=2"})
    EXPECT_THAT(complaint_about({of}), HasSubstr("and launchers set both")) << of;
  EXPECT_EQ(complaint_about({"RANK=one", "WORLD_SIZE=2"}),
            "RANK = 'one' is no number from 0 to 999999");
  EXPECT_EQ(complaint_about({"RANK=0", "WORLD_SIZE=99999999999"}),
            "WORLD_SIZE = '99999999999' is no number from 1 to 1000000");
  EXPECT_EQ(complaint_about({"RANK=2", "WORLD_SIZE=2"}),
            "RANK and WORLD_SIZE: rank 2 of 2 processes cannot be");
  const auto of_nodes = [&](const std::string& variable) {
    return complaint_about({"PET_NODE_RANK=0", "PET_NNODES=2", variable});
  };
  EXPECT_EQ(of_nodes("PET_NPROC_PER_NODE=tpu"),
            "PET_NPROC_PER_NODE = 'tpu' is neither a number nor auto, cpu or gpu");
  EXPECT_EQ(of_nodes("PET_NPROC_PER_NODE=0"),
            "PET_NPROC_PER_NODE = '0' is no number from 1 to 1000000");
  EXPECT_EQ(
      complaint_about({"PET_NNODES=1:4", "PET_NPROC_PER_NODE=1"}),
      "PET_NNODES = 1:4 is a range: torchrun may change the number of nodes while a job runs, "
      "and a comparison cannot go on with another; set one number, as 1, or 1:1");
  EXPECT_EQ(complaint_about({"PET_NNODES=few", "PET_NODE_RANK=0"}),
            "PET_NNODES = 'few' is no number from 1 to 1000000");
}

TEST(LauncherEnvTest, APortHas16Bits) {
  const auto complaint_about = [](const Environment& more) {
    Environment environment = {"RANK=0", "WORLD_SIZE=2"};
    environment.insert(environment.end(), more.begin(), more.end());
    return testing::complaint([&] { static_cast<void>(launcher_env_of(environment)); });
  };
  for (const char* port : {"0", "-1", "65536", "95036", "4294967297", "29500/tcp"})
    EXPECT_EQ(complaint_about({std::string("MASTER_PORT=") + port}),
              fmt::format("MASTER_PORT = '{}' is no number from 1 to 65535", port));
  EXPECT_EQ(complaint_about({"MASTER_PORT=65535"}), "nothing");
  EXPECT_EQ(complaint_about({"MASTER_PORT=65535", "TORCHELASTIC_USE_AGENT_STORE=True"}),
            "MASTER_PORT = 65535 is torchrun's, and there is no next port for the job; set a lower "
            "one");
  EXPECT_EQ(testing::complaint([] {
              static_cast<void>(
                  launcher_env_of({"PET_NODE_RANK=0", "PET_NNODES=2", "PET_MASTER_PORT=70000"}));
            }),
            "PET_MASTER_PORT = '70000' is no number from 1 to 65535");
}

}  // namespace
}  // namespace ringside::runner
