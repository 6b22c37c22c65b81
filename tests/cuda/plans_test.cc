// Plans on machines with GPUs.
#include <gmock/gmock.h>

#include "experiments/runner/plan/planner.h"
#include "ps/schemes/ps.h"
#include "tests/cuda/fixture.h"
#include "tests/cuda_on_host/control.h"

namespace ringside::runner {
namespace {

using testing::complaint;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CudaPlans : public OnGpu {
 protected:
  void TearDown() override { cuda_on_host::set_device_count(1); }

  static ExperimentConfig experiment() {
    ExperimentConfig config;
    config.name = "trial";
    config.device.kind = "cuda";
    return config;
  }
  static std::vector<int> ordinals(const RunPlan& plan) {
    std::vector<int> out;
    for (const RankPlan& rank : plan.ranks) out.push_back(rank.ordinal);
    return out;
  }
};

TEST_F(CudaPlans, GiveRanksAGpuEach) {
  cuda_on_host::set_device_count(2);
  const RunPlan plan = plan_training(experiment(), "ddp", 2);
  EXPECT_THAT(ordinals(plan), ElementsAre(0, 1));
  EXPECT_FALSE(shares_device(plan));
  for (const RankPlan& rank : plan.ranks) EXPECT_THAT(rank.environment, IsEmpty());
}

TEST_F(CudaPlans, ShareGpusInTurnAndTellNccl) {
  cuda_on_host::set_device_count(2);
  const RunPlan plan = plan_training(experiment(), "ddp", 4);
  EXPECT_THAT(ordinals(plan), ElementsAre(0, 1, 0, 1));
  EXPECT_TRUE(shares_device(plan));
  for (const RankPlan& rank : plan.ranks)
    EXPECT_THAT(rank.environment, Contains("NCCL_HOSTID=ringside-" + std::to_string(rank.rank)));
}

TEST_F(CudaPlans, CountServersAmongTheRanksThatNeedAGpu) {
  cuda_on_host::set_device_count(4);
  ExperimentConfig config = experiment();
  config.scheme_options["ps"] = ps::PsOptions{.servers = 2};
  EXPECT_THAT(ordinals(plan_training(config, "ps", 2)), ElementsAre(0, 1, 2, 3));
  config.scheme_options["ps"] = ps::PsOptions{.servers = 2, .server_device = ps::ServerDevice::cpu};
  const RunPlan plan = plan_training(config, "ps", 2);
  EXPECT_THAT(ordinals(plan), ElementsAre(0, 1, -1, -1));
  EXPECT_EQ(device_kind(plan, plan.ranks[3]), "cpu");
  config.scheme_options["ps"] = ps::PsOptions{.servers = 2, .placement = ps::Placement::colocated};
  EXPECT_THAT(ordinals(plan_training(config, "ps", 2)), ElementsAre(0, 1));
  config.scheme_options["ps"] = ps::PsOptions{
      .servers = 1, .placement = ps::Placement::mixed, .server_device = ps::ServerDevice::cpu};
  EXPECT_THAT(ordinals(plan_training(config, "ps", 2)), ElementsAre(0, 1, -1));
}

TEST_F(CudaPlans, HaveThePrecisionsOfTheDevice) {
  ExperimentConfig config = experiment();
  config.device.tf32 = true;
  config.train.precision = Precision::bf16;
  EXPECT_EQ(parameter_dtype(plan_training(config, "ddp", 1).train), DType::bf16);
  config.train.precision = Precision::fp16;
  EXPECT_EQ(parameter_dtype(plan_training(config, "ddp", 1).train), DType::f16);
}

TEST_F(CudaPlans, NeedAGpu) {
  cuda_on_host::set_device_count(0);
  EXPECT_THAT(complaint([] { plan_training(experiment(), "ddp", 1); }),
              HasSubstr("device.kind = 'cuda': the NVIDIA driver sees no GPU"));
}

}  // namespace
}  // namespace ringside::runner
