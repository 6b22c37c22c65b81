// The definition of runs in which workers push gradients and do not wait for each other: a replay
// on one rank; and the choice of a definition by consistency.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/device/convert.h"
#include "core/scheme/replica.h"
#include "core/scheme/single.h"
#include "ps/protocol/chunk_codes.h"
#include "ps/schemes/consistency_plan.h"
#include "ps/schemes/easgd.h"
#include "ps/schemes/ps.h"
#include "ps/schemes/ps_compression.h"
#include "ps/schemes/replay_order.h"
#include "ps/schemes/replayed_servers.h"
#include "ps/schemes/sum_group.h"

namespace ringside::ps {
namespace {

/// The codes of a range: of each worker's pushes, and of what each worker reads. Empty: not
/// compressed.
struct RangeCodes {
  struct OfWorker {
    std::optional<ChunkCodes> pushes;
    std::optional<FollowedValues> pulls;
    bool anew = false;  // a process reads values next
  };
  std::vector<std::unique_ptr<OfWorker>> workers;
};

/// Replicas of all workers side by side, and the servers. A worker computes its next step once it
/// has read every range.
class ReplayDefinition final : public SyncScheme {
 public:
  ReplayDefinition(const RankContext& context, const PsOptions& options)
      : SyncScheme(context),
        options_(options),
        walk_(context.plan.history, context.plan.defines),
        workers_(static_cast<std::size_t>(context.plan.defines)) {}

  void attach(Model& model) override {
    model_ = &model;
    for (Worker& worker : workers_) worker.replica.emplace(model, context());
    servers_.emplace(context(), options_, model);
    for (const ChunkHistory& range : context().plan.history) {
      RangeCodes& codes = codes_.emplace_back();
      for (int w = 0; w < own_replicas(); ++w) codes.workers.push_back(codes_of(range, w));
    }
  }

  std::optional<StepAssignment> next_assignment(std::int64_t) override {
    walk_.go_on([this](std::size_t range, const RangeEvent& event) { repeat(range, event); });
    const std::int64_t each = context().plan.train.accumulation / own_replicas();
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      Worker& worker = workers_[w];
      if (const auto first = walk_.came(w)) worker.steps = worker.evaluated = *first;
      if (!walk_.has_read(w)) continue;
      const std::int64_t first = static_cast<std::int64_t>(w) * each;
      // A worker evaluates with the values with which it begins its next step.
      if (worker.evaluated < worker.steps)
        return StepAssignment{worker.evaluated++, first, each, false, true};
      computing_ = w;
      if (walk_.computes(w)) return StepAssignment{worker.steps, first, each, true, false};
    }
    walk_.check_end();
    return {};
  }
  Batch fetch(const BatchSlice& slice, const Loader& loader, const Pass&) override {
    return loader.read(slice);
  }

  void before_forward(std::size_t unit, const Pass& pass) override {
    model_->units[unit]->bind(replica(pass).parameters(unit), {});
  }
  void before_backward(std::size_t unit, const Pass& pass) override {
    replica(pass).before_backward(unit, within_replica(pass));
  }
  void after_backward(std::size_t unit, const Pass& pass) override {
    replica(pass).after_backward(unit, within_replica(pass));
  }
  bool step(const StepInfo&) override {
    Worker& worker = workers_[computing_];
    worker.number =
        options_.backup_workers > 0 ? servers_->newest(static_cast<int>(computing_)) : worker.steps;
    ++worker.steps;
    walk_.offer(computing_);
    walk_.ask(computing_);
    return true;
  }
  std::int64_t gradient_batch() const override {
    return ringside::ps::gradient_batch(context().plan, own_replicas(), rules_of(options_));
  }
  int own_replicas() const override { return static_cast<int>(workers_.size()); }
  void visit_parameters(const ParameterVisitor& visit) override {
    for (std::size_t u = 0; u < model_->units.size(); ++u)
      visit(0, *model_->units[u],
            servers_->parameters().range(model_->first_parameter(u),
                                         model_->units[u]->layout().count()));
  }

 private:
  struct Worker {
    std::optional<Replica> replica;
    std::int64_t steps = 0, evaluated = 0;
    std::int64_t number = 0;  // of the gradients of its latest step
  };

  Replica& replica(const Pass& pass) {
    const std::int64_t worker = pass.micro_batch * own_replicas() / pass.micro_batches;
    return *workers_[static_cast<std::size_t>(worker)].replica;
  }
  Pass within_replica(Pass pass) const {
    pass.micro_batches /= own_replicas();
    pass.micro_batch %= pass.micro_batches;
    return pass;
  }

  void repeat(std::size_t range, const RangeEvent& event) {
    const ChunkHistory& of = context().plan.history[range];
    const Worker& worker = workers_[static_cast<std::size_t>(event.worker)];
    switch (event.kind) {
      case RangeEvent::Kind::read:
        return read(range, event.worker, worker.replica->parameters().range(of.begin, of.count));
      case RangeEvent::Kind::gone:
        return servers_->leave(range, event.worker);
      case RangeEvent::Kind::skips:
        return servers_->skip(range, event.worker, event.steps);
      case RangeEvent::Kind::came:
        of_worker(range, event.worker) = codes_of(of, event.worker);
        of_worker(range, event.worker)->anew = true;
        return servers_->come(range, event.worker, event.steps);
      default:
        servers_->push(
            range, event.worker, worker.number,
            pushed(range, event.worker, worker.replica->gradients().range(of.begin, of.count)),
            event.kind == RangeEvent::Kind::accepted);
    }
  }

  std::unique_ptr<RangeCodes::OfWorker>& of_worker(std::size_t range, int worker) {
    return codes_[range].workers[static_cast<std::size_t>(worker)];
  }
  /// New codes.
  std::unique_ptr<RangeCodes::OfWorker> codes_of(const ChunkHistory& range, int worker) {
    const ChunkCompression compression = compression_of(options_, context().plan);
    auto codes = std::make_unique<RangeCodes::OfWorker>();
    Device& device = context().device;
    if (compresses(compression.pushes))
      codes->pushes.emplace(
          codes_of_pushes(compression, *model_, range.begin, range.count, device, worker));
    if (compresses(compression.pulls))
      codes->pulls.emplace(
          codes_of_pulls(compression, *model_, range.begin, range.count, device, worker),
          workers_[0].replica->parameters().range(range.begin, range.count), device);
    return codes;
  }
  /// What the servers make of a worker's gradient.
  Tensor pushed(std::size_t range, int worker, const Tensor& gradient) {
    RangeCodes::OfWorker& of = *of_worker(range, worker);
    if (!of.pushes) return gradient;
    const Tensor decoded = context().device.tensor({gradient.count()}, MemoryKind::workspace);
    of.pushes->decode(of.pushes->encode(gradient), decoded);
    return converted(context().device, decoded, gradient.dtype());
  }
  void read(std::size_t range, int worker, const Tensor& out) {
    servers_->read(range, worker, out);
    RangeCodes::OfWorker& of = *of_worker(range, worker);
    if (!of.pulls) return;
    if (std::exchange(of.anew, false)) return of.pulls->begin_with(out);
    of.pulls->follow(out);
    context().device.kernels().cast({.in = of.pulls->values(), .out = out});
  }

  PsOptions options_;
  ReplayOrder walk_;
  Model* model_ = nullptr;
  std::vector<Worker> workers_;
  std::optional<ReplayedServers> servers_;
  std::vector<RangeCodes> codes_;  // by range
  std::size_t computing_ = 0;
};

}  // namespace

std::unique_ptr<SyncScheme> define_ps(const RankContext& context, const PsOptions& options) {
  if (promise_of(options) == Promise::same_run)
    return define_in_order(context, [&plan = context.plan, options](const Model& model) {
      return std::vector{sum_over_groups(model.parameter_count(), plan.defines,
                                         sum_group_of(options, plan.defines))};
    });
  if (is_synchronous(options)) return define_compressed_ps(context, options);
  if (options.consistency == Consistency::easgd) return define_easgd(context, options);
  return std::make_unique<ReplayDefinition>(context, options);
}

}  // namespace ringside::ps
