#include "ps/schemes/outer_worker.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "ps/protocol/parameter_server.h"
#include "ps/protocol/server_loop.h"
#include "ps/schemes/worker_course.h"

namespace ringside::ps {
namespace {

/// The time of a worker's local steps. The first step after an exchange also waits for the reply,
/// so it counts only where there is no other.
class StepClock {
 public:
  explicit StepClock(const Clock& clock) : clock_(clock) {}

  /// A step begins, or the worker looks for its next one; `first` after an exchange.
  void begin(bool first) {
    const double now = clock_.now();
    if (began_ && (!began_first_ || first)) step_s_ = now - *began_;
    began_ = now;
    began_first_ = first;
  }
  /// Steps a second; 0 if there were none yet.
  double speed() const { return step_s_ > 0 ? 1 / step_s_ : 0; }

 private:
  const Clock& clock_;
  std::optional<double> began_;
  bool began_first_ = false;
  double step_s_ = 0;
};

class OuterWorker final : public DifferenceWorker {
 public:
  OuterWorker(const RankContext& context, const OuterOptions& options, const LocalServers& servers,
              PushWeight weight)
      : DifferenceWorker(context, local_transport(context, servers)),
        options_(options),
        weight_(std::move(weight)),
        clock_(context.device.clock()) {}

  void attach(Model& model) override {
    DifferenceWorker::attach(model);
    course_.emplace(context(), client(), options_.equal_steps,
                    period_of(options_, context().plan.train));
  }

  std::optional<StepAssignment> next_assignment(std::int64_t done) override {
    const bool first = left_ == 0;
    clock_.begin(first);
    if (first) {
      auto [steps, saves] = course_->next(done, options_.by_speed ? clock_.speed() : 0);
      if (saves) return saves;
      left_ = local_ = steps;
    }
    if (left_ == 0) return {};
    --left_;
    return StepAssignment{.step = done, .micro_batches = context().plan.train.accumulation};
  }

 private:
  std::vector<Chunk> make_chunks(const Model& model) const override {
    return chunks_of(model, context().plan);
  }

  void exchange(const StepInfo& info) override {
    if (left_ > 0) return;
    push(Kind::push_pull, info.step, 1, weight_ ? weight_(client().worker(), local_) : 0);
  }

  OuterOptions options_;
  PushWeight weight_;
  StepClock clock_;
  std::optional<WorkerCourse> course_;
  std::int64_t local_ = 0, left_ = 0;  // steps of the next push: all, and those not yet begun
};

}  // namespace

Fields with_outer(OuterOptions& options, Fields fields) {
  Fields more = {
      {"by_speed", &options.by_speed,
       "a slower worker takes fewer local steps: the share of sync_every that takes as long as the "
       "fastest worker's (DyLU)"},
      {"equal_steps", &options.equal_steps,
       "every worker does train.steps steps; else all together do train.steps times the number of "
       "workers"},
      {"outer_lr", &options.outer_lr, "learning rate of the outer optimizer", Range::positive},
      {"outer_momentum", &options.outer_momentum,
       "Nesterov's momentum of the outer optimizer; 0: none", Range::not_negative},
      {"sync_every", &options.sync_every, "local steps of a worker from one push to its next one",
       Range::positive}};
  for (Field& field : more) fields.push_back(std::move(field));
  return fields;
}

std::int64_t period_of(const OuterOptions& options, const TrainConfig& train) {
  return std::min(options.sync_every, train.steps);
}

void check_outer(const OuterOptions& options, const RunPlan& plan) {
  if (options.outer_momentum >= 1)
    throw Error("scheme.{}.outer_momentum = {} must be less than 1", plan.scheme,
                options.outer_momentum);
  if (options.by_speed && options.equal_steps)
    throw Error(
        "scheme.{0}.by_speed gives slower workers fewer steps, scheme.{0}.equal_steps all the same "
        "number; leave one of them out",
        plan.scheme);
}

std::unique_ptr<SyncScheme> make_outer_worker(const RankContext& context,
                                              const OuterOptions& options,
                                              const LocalServers& servers, PushWeight weight) {
  return std::make_unique<OuterWorker>(context, options, servers, std::move(weight));
}

ServerConfig outer_server_config(const RankContext& context, std::uint64_t token,
                                 const OuterOptions& options) {
  ServerConfig config =
      local_server_config(context, token, outer_sgd(options.outer_lr, options.outer_momentum));
  config.period = period_of(options, context.plan.train);
  config.by_speed = options.by_speed;
  return config;
}

RankRecord serve_outer(const RankContext& context, const LocalServers& servers, Model& model,
                       const std::function<ServerConfig(std::uint64_t token)>& config) {
  const auto transport = context.links.transport<Transport>();
  const Connection connection = transport->listen(context, local_transport(context, servers));
  ParameterServer server(model, chunks_of(model, context.plan), context.device,
                         config(connection.token));
  return serve(context, *connection.channel, server, model.parameter_count());
}

void OuterReplay::attach(Model& model) {
  CentredReplay::attach(model);
  for (int w = 0; w < own_replicas(); ++w) {
    const Tensor begun = initial_centre(MemoryKind::workspace);
    set_values(w, 0, begun);
    values_of_.push_back({begun, context().device.tensor(begun.shape(), MemoryKind::workspace)});
  }
}

void OuterReplay::offer(int worker) {
  make_difference(of(worker).begun, values(worker), 1, of(worker).given);
}

void OuterReplay::reply(std::size_t range, int worker) {
  kernels().copy({.in = centre(range), .out = of_range(range, of(worker).begun)});
  set_values(worker, first_of(range), centre(range));
}

}  // namespace ringside::ps
