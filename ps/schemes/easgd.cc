#include "ps/schemes/easgd.h"

#include <optional>
#include <vector>

#include "core/scheme/rank_context.h"
#include "ps/schemes/centred.h"
#include "ps/schemes/centred_replay.h"
#include "ps/schemes/ps_parts.h"
#include "ps/schemes/worker_course.h"

namespace ringside::ps {
namespace {

class Easgd final : public CentredWorker {
 public:
  Easgd(const RankContext& context, const PsOptions& options)
      : CentredWorker(context, transport_options(context, options)),
        options_(options),
        rate_(static_cast<float>(moving_rate_of(options, context.plan.world))) {}

  void attach(Model& model) override {
    CentredWorker::attach(model);
    if (begun())
      course_.emplace(context(), client(), options_.equal_steps, options_.communication_period);
  }

  /// Every ticket is for the steps up to the next exchange, with which a worker ends.
  std::optional<StepAssignment> next_assignment(std::int64_t done) override {
    if (!begun()) return {};
    const std::int64_t step = *begun() + done;
    if (step % options_.communication_period == 0) {
      auto [steps, saves] = course_->next(step);
      if (saves) return saves;
      if (steps == 0) return {};
    }
    return StepAssignment{.step = step, .micro_batches = context().plan.train.accumulation};
  }

 private:
  std::vector<Chunk> make_chunks(const Model& model) const override {
    return chunks_of(model, context().plan.world, options_);
  }

  void exchange(const StepInfo& info) override {
    if ((info.step + 1) % options_.communication_period != 0) return;
    for (const Chunk& chunk : chunks())
      ask(chunk, about(Kind::push_pull, chunk, info.step),
          values(0).range(chunk.begin, chunk.count),
          [this](const Chunk& of, const Tensor& difference) { pull_back(of, difference); });
  }

  /// The worker's part of a chunk moves towards the centre by the rate.
  void pull_back(const Chunk& chunk, const Tensor& difference) const {
    const auto span = context().timeline.scope(Activity::encoding, "elastic force");
    kernels().blend({.in = difference,
                     .out = values(0).range(chunk.begin, chunk.count),
                     .in_scale = -rate_,
                     .out_scale = 1});
    round_parameters(0, chunk.begin, chunk.count);
  }

  PsOptions options_;
  float rate_;
  std::optional<WorkerCourse> course_;
};

/// The rule: d = x - c, c += a * d, and, once the worker reads, x -= a * d.
class ElasticDefinition final : public CentredReplay {
 public:
  ElasticDefinition(const RankContext& context, const PsOptions& options)
      : CentredReplay(context, options.communication_period, false),
        rate_(static_cast<float>(moving_rate_of(options, context.plan.defines))),
        differences_(static_cast<std::size_t>(context.plan.defines)) {
    for (std::vector<Tensor>& of_worker : differences_) of_worker.resize(ranges());
  }

 private:
  void push(std::size_t range, const RangeEvent& event) override {
    const Tensor own = replica(range, event.worker);
    Tensor& difference = difference_of(range, event.worker);
    difference = context().device.tensor(own.shape(), MemoryKind::workspace);
    kernels().copy({.in = own, .out = difference});
    add(difference, -1, centre(range));
    add(centre(range), rate_, difference);
  }
  void reply(std::size_t range, int worker) override {
    Tensor& difference = difference_of(range, worker);
    add(replica(range, worker), -rate_, difference);
    round_parameters(worker, first_of(range), difference.count());
    difference = {};
  }
  void add(const Tensor& to, float factor, const Tensor& in) const {
    kernels().blend({.in = in, .out = to, .in_scale = factor, .out_scale = 1});
  }
  Tensor& difference_of(std::size_t range, int worker) {
    return differences_[static_cast<std::size_t>(worker)][range];
  }

  float rate_;
  std::vector<std::vector<Tensor>> differences_;  // by worker and range: replies on their way
};

}  // namespace

std::unique_ptr<SyncScheme> make_easgd(const RankContext& context, const PsOptions& options) {
  return std::make_unique<Easgd>(context, options);
}

std::unique_ptr<SyncScheme> define_easgd(const RankContext& context, const PsOptions& options) {
  return std::make_unique<ElasticDefinition>(context, options);
}

}  // namespace ringside::ps
