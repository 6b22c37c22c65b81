#include "experiments/job/seat.h"

#include <gtest/gtest.h>

#include "tests/support/complaint.h"

namespace ringside {
namespace {

using Environment = std::vector<std::string>;

TEST(SeatTest, AProcessThatNoLauncherStartedHasNone) {
  EXPECT_EQ(seat_of({"PATH=/usr/bin", "RANKING=3", "SLURM_JOB_ID=5"}), std::nullopt);
}

TEST(SeatTest, AProcessThatIsAloneHasNone) {
  EXPECT_EQ(seat_of({"RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=a"}), std::nullopt);
  EXPECT_EQ(seat_of({"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1"}), std::nullopt);
}

TEST(SeatTest, ByHandOrByTorchrun) {
  Environment environment = {"RANK=3", "WORLD_SIZE=8", "MASTER_ADDR=node-0", "MASTER_PORT=4000"};
  const Seat by_hand{.rank = 3,
                     .size = 8,
                     .leader = "node-0",
                     .port = 4000,
                     .told_by = "RANK and WORLD_SIZE",
                     .leader_told_by = "MASTER_ADDR"};
  EXPECT_EQ(seat_of(environment), by_hand);
  environment.emplace_back("TORCHELASTIC_USE_AGENT_STORE=True");
  Seat by_torchrun = by_hand;
  by_torchrun.port = 4001;
  EXPECT_EQ(seat_of(environment), by_torchrun);
}

TEST(SeatTest, OfTheTrainingOperatorAProcessAHost) {
  const auto seat = seat_of({"PET_NODE_RANK=1", "PET_NNODES=2", "PET_NPROC_PER_NODE=4",
                             "PET_MASTER_ADDR=job-master-0", "PET_MASTER_PORT=23456"});
  EXPECT_EQ(seat, (Seat{.rank = 1,
                        .size = 2,
                        .slots = 4,
                        .leader = "job-master-0",
                        .port = 23456,
                        .told_by = "PET_NODE_RANK and PET_NNODES",
                        .leader_told_by = "PET_MASTER_ADDR"}));
}

TEST(SeatTest, OpenMpiNamesTheAddressesOfItsFirstHost) {
  const auto seat = seat_of({"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
                             "OMPI_MCA_orte_hnp_uri=1213399040.0;tcp://10.1.0.1,10.2.0.1:56295;"
                             "tcp6://[fd00::2]:53033",
                             "PMIX_NAMESPACE=1213399041"});
  ASSERT_TRUE(seat);
  EXPECT_EQ(seat->leader, "10.1.0.1,10.2.0.1");
  EXPECT_EQ(seat->leader_told_by, "OMPI_MCA_orte_hnp_uri");
  EXPECT_GE(seat->port, 61440);
  EXPECT_LT(seat->port, 65536);
}

TEST(SeatTest, MpichSaysNothingOfTheFirstHost) {
  EXPECT_EQ(seat_of({"PMI_RANK=1", "PMI_SIZE=2"}),
            (Seat{.rank = 1, .size = 2, .told_by = "PMI_RANK and PMI_SIZE"}));
}

TEST(SeatTest, SlurmNamesItsHosts) {
  const auto first_of = [](const std::string& list) {
    return seat_of({"SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NODELIST=" + list,
                    "SLURM_JOB_ID=4099"})
        ->leader;
  };
  EXPECT_EQ(first_of("gnode[10,20-23],login"), "gnode10");
  EXPECT_EQ(first_of("gnode[008-011]"), "gnode008");
  EXPECT_EQ(first_of("a,b[1-2]"), "a");
  EXPECT_EQ(first_of("alone"), "alone");
  EXPECT_EQ(seat_of({"SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "SLURM_JOB_ID=4099"})->port,
            61443);
}

TEST(SeatTest, ABatchScriptOfSlurmIsNoStep) {
  EXPECT_EQ(seat_of({"SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_JOB_ID=5"}), std::nullopt);
}

TEST(SeatTest, TheInnermostLauncherCounts) {
  const auto seat = seat_of({"SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=2", "OMPI_COMM_WORLD_RANK=1",
                             "OMPI_COMM_WORLD_SIZE=4", "RANK=5", "WORLD_SIZE=8", "MASTER_ADDR=a"});
  EXPECT_EQ(seat->rank, 5);
  EXPECT_EQ(seat->size, 8);
}

TEST(SeatTest, MasterAddrCountsForEveryLauncher) {
  const auto seat = seat_of({"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
                             "OMPI_MCA_orte_hnp_uri=7.0;tcp://10.1.0.1:56295", "MASTER_ADDR=b",
                             "MASTER_PORT=77"});
  EXPECT_EQ(seat->leader, "b");
  EXPECT_EQ(seat->port, 77);
}

TEST(SeatTest, WrongVariablesAreNamed) {
  const auto complaint_about = [](const Environment& environment) {
    return testing::complaint([&] { static_cast<void>(seat_of(environment)); });
  };
  EXPECT_EQ(complaint_about({"RANK=1"}),
            "WORLD_SIZE is not set, but other variables of the same launcher are; set both, or "
            "none");
  EXPECT_EQ(complaint_about({"RANK=one", "WORLD_SIZE=2"}), "RANK = 'one' is no number from 0 on");
  EXPECT_EQ(complaint_about({"RANK=2", "WORLD_SIZE=2"}),
            "RANK and WORLD_SIZE: rank 2 of 2 processes cannot be");
}

}  // namespace
}  // namespace ringside
