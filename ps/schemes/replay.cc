// The definition of runs in which workers push gradients and do not wait for each other: a replay
// on one rank; and the choice of a definition by consistency.
#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/device/convert.h"
#include "core/models/model.h"
#include "core/optim/optimizer.h"
#include "core/optim/optimizers.h"
#include "core/scheme/parameter_map.h"
#include "core/scheme/rank_context.h"
#include "core/scheme/replica.h"
#include "core/scheme/single.h"
#include "ps/protocol/chunk_codes.h"
#include "ps/schemes/consistency_plan.h"
#include "ps/schemes/easgd.h"
#include "ps/schemes/ps.h"
#include "ps/schemes/ps_compression.h"
#include "ps/schemes/replay_order.h"
#include "ps/schemes/sum_group.h"

namespace ringside::ps {
namespace {

/// The servers of a replayed run (RunPlan::history), on one device: parameters, one optimizer, and
/// for every range of the record the gradients that have arrived. It shares only update_rules()
/// with ParameterServer, the rule by which an optimizer's schedules count steps.
class ReplayedServers {
 public:
  /// The context and the model outlive the servers.
  ReplayedServers(const RankContext& context, const PsOptions& options, const Model& model);

  /// Takes the range's part of a gradient that `worker` pushes for the update `number`; it counts
  /// only if it is `accepted`.
  void push(std::size_t range, int worker, std::int64_t number, const Tensor& gradient,
            bool accepted);
  /// Copies the range, as the worker reads it, into `out`.
  void read(std::size_t range, int worker, const Tensor& out);
  /// Notes that the worker has made its last push, and that a new process pushes as this worker
  /// from number `first` on.
  void leave(std::size_t range, int worker);
  void come(std::size_t range, int worker, std::int64_t first);
  /// Notes that the worker's next push has at least this number.
  void skip(std::size_t range, int worker, std::int64_t number);

  /// The newest version that the worker has read of any range.
  std::int64_t newest(int worker) const;
  const Tensor& parameters() const { return parameters_; }

 private:
  /// The state of a worker in one range.
  struct Worker {
    std::int64_t version = 0;  // of the values that it was given
    Tensor values;             // these values; empty without delay compensation
    std::int64_t next = 0;     // all its gradients have smaller numbers
    bool gone = false;
    bool begins = false;  // a process that has come has not pushed yet
  };
  struct Gradient {
    int worker = 0;
    std::int64_t update = 0;
    Tensor values;
    std::int64_t read_version = 0;
  };
  struct Range {
    Tensor parameters;
    std::int64_t begin = 0, version = 0;
    std::vector<Worker> workers{};
    std::deque<Gradient> waiting{};  // in order of arrival
  };
  Worker& worker_of(Range& range, int worker) const {
    return range.workers[static_cast<std::size_t>(worker)];
  }
  void go_on(Range& range);
  bool update(Range& range);
  void apply(Range& range, const std::vector<Gradient>& gradients);
  Tensor copy_of(const Tensor& values) const;

  Device& device_;
  PsOptions options_;
  bool asp_;
  std::size_t wanted_;  // gradients of an update
  Tensor parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<Range> ranges_;
};

ReplayedServers::ReplayedServers(const RankContext& context, const PsOptions& options,
                                 const Model& model)
    : device_(context.device), options_(options), asp_(options.consistency == Consistency::asp) {
  const RunPlan& plan = context.plan;
  const ConsistencyRules rules = rules_of(options);
  const int world = plan.defines;
  wanted_ = static_cast<std::size_t>(asp_ ? 1 : world - rules.backup_workers);
  parameters_ =
      device_.tensor({model.parameter_count()}, MemoryKind::parameter, parameter_dtype(plan.train));
  const auto initial = initial_values(context);
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const std::int64_t first = model.first_parameter(u);
    initial->write(*model.units[u], first, 0,
                   parameters_.range(first, model.units[u]->layout().count()));
  }
  for (const ChunkHistory& history : plan.history) {
    Range range{parameters_.range(history.begin, history.count), history.begin};
    range.workers.resize(static_cast<std::size_t>(world));
    for (Worker& worker : range.workers)
      if (options.delay_compensation > 0) worker.values = copy_of(range.parameters);
    ranges_.push_back(std::move(range));
  }
  const auto [optimizer, updates] = update_rules(plan.optimizer, rules, plan.train.steps, world);
  optimizer_ =
      make_optimizer(optimizer, {updates, world}, device_, parameters_, parameter_map(model));
}

void ReplayedServers::push(std::size_t index, int worker, std::int64_t number,
                           const Tensor& gradient, bool accepted) {
  Range& range = ranges_[index];
  Worker& from = worker_of(range, worker);
  from.next = number + 1;
  from.begins = false;
  if (accepted)
    range.waiting.push_back(
        {worker, asp_ ? range.version : number, copy_of(gradient), from.version});
  go_on(range);
}

void ReplayedServers::read(std::size_t index, int worker, const Tensor& out) {
  Range& range = ranges_[index];
  Worker& reader = worker_of(range, worker);
  device_.kernels().copy({.in = range.parameters, .out = out});
  reader.version = range.version;
  if (reader.values) reader.values = copy_of(range.parameters);
}

void ReplayedServers::leave(std::size_t index, int worker) {
  worker_of(ranges_[index], worker).gone = true;
  go_on(ranges_[index]);
}

void ReplayedServers::skip(std::size_t index, int worker, std::int64_t number) {
  worker_of(ranges_[index], worker).next = number;
  go_on(ranges_[index]);
}

void ReplayedServers::come(std::size_t index, int worker, std::int64_t first) {
  Worker& newcomer = worker_of(ranges_[index], worker);
  newcomer.gone = false;
  newcomer.next = first;
  newcomer.begins = options_.backup_workers > 0;
  go_on(ranges_[index]);
}

std::int64_t ReplayedServers::newest(int worker) const {
  std::int64_t newest = 0;
  for (const Range& range : ranges_)
    newest = std::max(newest, range.workers[static_cast<std::size_t>(worker)].version);
  return newest;
}

void ReplayedServers::go_on(Range& range) {
  while (update(range)) {
  }
}

/// Makes the range's next update if its gradients are there: the first ones that came, as many as
/// are wanted, or fewer if no worker is left that could push another. They are added up in the
/// order of workers.
bool ReplayedServers::update(Range& range) {
  std::vector<Gradient> gradients;
  for (const Gradient& one : range.waiting)
    if (one.update == range.version && gradients.size() < wanted_) gradients.push_back(one);
  const auto may_push = [&](const Worker& worker) {
    return !worker.gone && !worker.begins && worker.next <= range.version;
  };
  if (gradients.size() < wanted_ &&
      (range.waiting.empty() || std::any_of(range.workers.begin(), range.workers.end(), may_push)))
    return false;
  std::sort(gradients.begin(), gradients.end(),
            [](const auto& a, const auto& b) { return a.worker < b.worker; });
  if (!gradients.empty()) apply(range, gradients);
  std::erase_if(range.waiting, [&](const auto& one) { return one.update == range.version; });
  ++range.version;
  return true;
}

void ReplayedServers::apply(Range& range, const std::vector<Gradient>& gradients) {
  const Kernels& kernels = device_.kernels();
  const Tensor sum = gradients[0].values;
  for (std::size_t i = 1; i < gradients.size(); ++i)
    kernels.add({.in = gradients[i].values, .out = sum});
  const std::int64_t stale = range.version - gradients[0].read_version;
  if (options_.delay_compensation > 0 && stale > 0)
    kernels.compensate_delay({.gradients = sum,
                              .now = range.parameters,
                              .read = worker_of(range, gradients[0].worker).values,
                              .out = sum,
                              .scale = static_cast<float>(options_.delay_compensation)});
  const bool divides = asp_ && options_.staleness_lr == StalenessLr::inverse;
  optimizer_->update(
      {range.begin, range.parameters, sum},
      {.step = range.version,
       .loss_scale = static_cast<float>(gradients.size()) / static_cast<float>(wanted_),
       .lr_factor = divides ? 1 / (1 + static_cast<double>(stale)) : 1});
}

Tensor ReplayedServers::copy_of(const Tensor& values) const {
  Tensor copy = device_.tensor(values.shape(), MemoryKind::workspace, values.dtype());
  device_.kernels().copy({.in = values, .out = copy});
  return copy;
}

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
