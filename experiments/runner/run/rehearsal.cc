#include "experiments/runner/run/rehearsal.h"

#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/device/counting_device.h"
#include "core/pipeline/makers.h"
#include "core/plan/mesh.h"
#include "core/plan/pipeline_plan.h"
#include "core/train/trainer.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/run/mesh_rank.h"
#include "peer/comm/checked_communicator.h"

namespace ringside::runner {
namespace {

/// An operation that has ended when it begins.
class EndedWork final : public Work {
 public:
  void wait() override {}
  bool ready() override { return true; }
  Span span() const override { return {}; }
};

/// Peers that are not there: operations move nothing and end at once.
class AbsentPeers final : public peer::CheckedCommunicator {
 public:
  explicit AbsentPeers(const Group& group) : CheckedCommunicator(group) {
    if (group.algorithm != Algorithm::native)
      throw Error("group {}: a rehearsal does not know the memory of algorithms of messages",
                  group.name);
  }
  void barrier() override {}
  std::unique_ptr<Communicator> split(int, int) override {
    throw Error("group {}: a rehearsal does not know the parts of a group", name());
  }
  Traffic traffic() const override { return {}; }

 private:
  std::uint64_t last_call() const override { return 0; }
  WorkPtr begin(const peer::Collective&, const Tensor&, const Tensor&) override { return ended(); }
  WorkPtr begin_message(const Tensor&, int, bool) override { return ended(); }
  static WorkPtr ended() { return std::make_unique<EndedWork>(); }
};

/// The number of micro-batches with which the plan's schedule has as many under way, in each stage,
/// as with all of them.
std::int64_t enough_micro_batches(const RunPlan& plan) {
  const std::int64_t all = plan.train.accumulation;
  if (!has_pipeline(plan) || is_schedule_file(plan.pipeline.schedule)) return all;
  const pipeline::MakerInfo& maker = pipeline::find_maker(plan.pipeline.schedule);
  const auto ranks = static_cast<int>(plan.mesh.pipeline),
             chunks = static_cast<int>(plan.pipeline.chunks);
  const auto is_enough = [&](std::int64_t some) {
    for (int stage = 0; stage < ranks * chunks; ++stage)
      if (maker.in_flight(ranks, chunks, some, stage) != maker.in_flight(ranks, chunks, all, stage))
        return false;
    return true;
  };
  // A step has to come so far that micro-batches replace each other. Where a rank may have several
  // stages, they go in rounds of as many as ranks.
  const std::int64_t some = 3 * plan.mesh.pipeline;
  return some < all && is_enough(some) ? some : all;
}

/// The plan of a step of the same ranks, which leaves no files.
RunPlan one_step(RunPlan plan) {
  const std::int64_t enough = enough_micro_batches(plan);
  if (plan.train.weights.empty()) {
    plan.train.global_batch = plan.train.global_batch / plan.train.accumulation * enough;
    plan.train.accumulation = enough;
  }
  plan.train.steps = 1;
  plan.train.warmup = 0;
  plan.train.evaluate_every = 0;
  plan.checkpoint = {};
  plan.faults = {};
  plan.resume.clear();
  plan.save.clear();
  return plan;
}

MemoryUse rehearse_rank(const RunPlan& plan, int rank, const std::shared_ptr<PipelineOfRun>& run) {
  CountingDevice device;
  MemoryStore store;
  MeshRank mesh(plan, rank, store, run);
  Model model = mesh.part_of(make_model(plan.model, device));
  const Datasets data = find_dataset(plan.data.kind).make(plan.data, plan.model, model.task);
  const Loader training(*data.training, device, plan.train.global_batch,
                        static_cast<std::uint64_t>(plan.train.seed), Loader::Reading::when_asked);
  Timeline timeline(device);
  const Links links(
      [](const RankContext&, const Group& group) { return std::make_unique<AbsentPeers>(group); });
  const RankContext whole{.plan = plan,
                          .rank = rank,
                          .device = device,
                          .store = store,
                          .timeline = timeline,
                          .links = links};
  RankContext context{.plan = mesh.plan(),
                      .rank = mesh.rank(),
                      .device = device,
                      .store = mesh.store(),
                      .timeline = timeline,
                      .initial_values = mesh.values_of(nullptr, model),
                      .links = links};
  const auto pipeline = mesh.pipeline(whole);
  context.pipeline = pipeline.get();
  const auto scheme = find_scheme(plan.scheme).make(context, plan.options);
  Trainer trainer(context, model, *scheme, training, nullptr);
  return trainer.run([](const Progress&) {}).at_peak;
}

}  // namespace

std::vector<MemoryUse> rehearse(const RunPlan& plan) {
  if (plan.servers > 0 || plan.train.offload != Offload::none || plan.program)
    throw Error(
        "scheme {}: a rehearsal knows neither servers, nor hosts to which state is "
        "offloaded, nor other programs",
        plan.scheme);
  const RunPlan step = one_step(plan);
  const auto run = std::make_shared<PipelineOfRun>();
  std::vector<MemoryUse> out;
  for (int place = 0; place < static_cast<int>(step.mesh.pipeline); ++place)
    out.push_back(rehearse_rank(step, worker_at(step, {.data = 0, .pipeline = place}), run));
  return out;
}

}  // namespace ringside::runner
