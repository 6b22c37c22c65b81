// The host enqueues a whole step while the GPU stands still: nothing within a step waits for the
// GPU.
#include <gtest/gtest.h>

#include <optional>

#include "core/data/synthetic.h"
#include "core/device/cuda/cuda.h"
#include "core/models/gpt.h"
#include "core/scheme/single.h"
#include "core/train/trainer.h"
#include "peer/comm/nccl/communicator.h"
#include "peer/fsdp/fsdp.h"
#include "peer/schemes/ddp.h"
#include "tests/cuda/gate.h"
#include "tests/cuda/tiny_on_gpus.h"

namespace ringside {
namespace {

constexpr std::int64_t stopped_step = 3;

/// Wraps a scheme. During step `stopped_step` the compute stream stands still.
class Stopped : public SyncScheme {
 public:
  Stopped(const RankContext& context, std::unique_ptr<SyncScheme> inner)
      : SyncScheme(context), inner_(std::move(inner)) {}

  void attach(Model& model) override { inner_->attach(model); }
  void before_forward(std::size_t unit, const Pass& pass) override {
    if (unit == 0 && pass.micro_batch == 0 && pass.step == stopped_step)
      gate_.emplace(cuda::cuda_device(context().device).compute_stream());
    inner_->before_forward(unit, pass);
  }
  void after_forward(std::size_t unit, const Pass& pass) override {
    inner_->after_forward(unit, pass);
  }
  void before_backward(std::size_t unit, const Pass& pass) override {
    inner_->before_backward(unit, pass);
  }
  void after_backward(std::size_t unit, const Pass& pass) override {
    inner_->after_backward(unit, pass);
  }
  bool step(const StepInfo& info) override {
    const bool done = inner_->step(info);
    if (!gate_) return done;
    gate_->open();  // fails the test if the host has waited until the gate gave up
    ++stops_;
    gate_.reset();
    return done;
  }
  void drain() override { inner_->drain(); }
  void sum(std::span<double> values) override { inner_->sum(values); }
  void visit_parameters(const ParameterVisitor& visit) override { inner_->visit_parameters(visit); }

  int stops() const { return stops_; }

 private:
  std::unique_ptr<SyncScheme> inner_;
  std::optional<Gate> gate_;
  int stops_ = 0;
};

class StepsOnGpus : public ::testing::TestWithParam<std::string> {
 protected:
  static std::unique_ptr<SyncScheme> make(const RankContext& context) {
    if (GetParam() == "single") return make_single(context, {});
    if (GetParam() == "ddp") return peer::make_ddp(context, {});
    return peer::make_fsdp(context, {});
  }
};
INSTANTIATE_TEST_SUITE_P(Schemes, StepsOnGpus, ::testing::Values("single", "ddp", "fsdp"),
                         [](const auto& info) { return info.param; });

TEST_P(StepsOnGpus, AreEnqueuedWithoutAWait) {
  auto config = testing::tiny_on_gpus("gpt");
  config.train.steps = stopped_step + 2;
  config.train.accumulation = 2;
  const RunPlan plan = runner::plan_training(config, GetParam(), 1);
  const auto device = cuda::make_cuda_device({});
  Model model = make_gpt(plan.model, *device);
  const auto data =
      synthetic_dataset(1000, plan.model.context, plan.model.vocabulary, model.task, 1);
  const Loader loader(*data, *device, plan.train.global_batch, 1, Loader::Reading::ahead);
  MemoryStore store;
  Timeline timeline(*device);
  const RankContext context{plan,     0,       *device, store,
                            timeline, nullptr, {},      runner::find_device("cuda").links};
  Stopped scheme(context, make(context));
  Trainer(context, model, scheme, loader, nullptr).run([](const Progress&) {});
  EXPECT_EQ(scheme.stops(), 1);
}

}  // namespace
}  // namespace ringside
