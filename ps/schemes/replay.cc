// The definition of runs in which workers do not wait for each other: a replay on one rank.
#include <algorithm>
#include <deque>

#include "core/base/error.h"
#include "core/optim/optimizers.h"
#include "core/scheme/parameter_map.h"
#include "core/scheme/replica.h"
#include "ps/schemes/consistency_plan.h"
#include "ps/schemes/ps.h"

namespace ringside::ps {
namespace {

/// One range of the parameters: what happened to it, and how far the replay has come.
struct Replayed {
  explicit Replayed(const RangeHistory& history, int workers)
      : begin(history.begin),
        count(history.count),
        events(history),
        pushes(static_cast<std::size_t>(workers)),
        reads(static_cast<std::size_t>(workers)),
        read_version(static_cast<std::size_t>(workers)),
        gone(static_cast<std::size_t>(workers)) {}

  struct Waiting {
    std::size_t worker = 0;
    std::int64_t update = 0;
    Tensor gradient;
    std::int64_t staleness = 0;
  };
  std::int64_t begin, count;
  EventReader events;
  std::int64_t version = 0;
  std::vector<std::int64_t> pushes, reads, read_version;  // by worker
  std::vector<bool> gone;
  std::deque<Waiting> waiting;  // in the order in which they came
};

/// Replicas of all workers side by side, and the servers' parameters. A worker computes its next
/// step once it has read every range; a range goes through its events as soon as the gradients are
/// computed that they are about.
class Definition final : public SyncScheme {
 public:
  Definition(const RankContext& context, const PsOptions& options)
      : SyncScheme(context),
        options_(options),
        rules_(rules_of(options)),
        workers_(context.plan.defines),
        steps_(static_cast<std::size_t>(workers_)),
        computed_(steps_.size()),
        evaluated_(steps_.size()),
        numbers_(steps_.size()) {
    for (const RangeHistory& history : context.plan.history) {
      if (history.cut) throw Error("the record of the run is not whole, so it cannot be replayed");
      ranges_.emplace_back(history, workers_);
      count_steps(history);
    }
    if (ranges_.empty()) throw Error("there is no record of a run to replay");
  }

  void attach(Model& model) override {
    model_ = &model;
    const RunPlan& plan = context().plan;
    for (int w = 0; w < workers_; ++w) replicas_.emplace_back(model, context());
    parameters_ = copy_of(replicas_[0].parameters());
    const auto [optimizer, updates] =
        update_rules(plan.optimizer, rules_, plan.train.steps, workers_);
    optimizer_ = make_optimizer(optimizer, {updates, workers_}, context().device, parameters_,
                                parameter_map(model));
  }

  std::optional<Turn> next_turn(std::int64_t) override {
    for (Replayed& range : ranges_) go_on(range);
    const std::int64_t each = context().plan.train.accumulation / workers_;
    for (std::size_t w = 0; w < steps_.size(); ++w) {
      if (!has_read(w)) continue;
      const std::int64_t first = static_cast<std::int64_t>(w) * each;
      // A worker evaluates with the values with which it begins its next step.
      if (evaluated_[w] < computed_[w]) return Turn{evaluated_[w]++, first, each, false, true};
      computing_ = w;
      if (computed_[w] < steps_[w]) return Turn{computed_[w], first, each, true, false};
    }
    check_end();
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
    const std::int64_t step = computed_[computing_]++;
    std::int64_t newest = 0;
    for (const Replayed& range : ranges_) newest = std::max(newest, range.read_version[computing_]);
    numbers_[computing_] = rules_.backup_workers > 0 ? newest : step;
    return true;
  }
  std::int64_t gradient_batch() const override {
    return ringside::ps::gradient_batch(context().plan, workers_, rules_);
  }
  int own_replicas() const override { return workers_; }
  void visit_parameters(const ParameterVisitor& visit) override {
    for (std::size_t u = 0; u < model_->units.size(); ++u)
      visit(0, *model_->units[u],
            parameters_.range(model_->first_parameter(u), model_->units[u]->layout().count()));
  }

 private:
  Replica& replica(const Pass& pass) {
    return replicas_[static_cast<std::size_t>(pass.micro_batch * workers_ / pass.micro_batches)];
  }
  Pass within_replica(Pass pass) const {
    pass.micro_batches /= workers_;
    pass.micro_batch %= pass.micro_batches;
    return pass;
  }

  /// Counts the steps whose gradients a range has seen.
  void count_steps(const RangeHistory& history) {
    std::vector<std::int64_t> pushes(steps_.size());
    for (EventReader events(history); const auto event = events.peek(); events.skip()) {
      if (event->worker >= workers_)
        throw Error("the record of the run names worker {} of {}", event->worker, workers_);
      if (event->kind == RangeEvent::Kind::accepted || event->kind == RangeEvent::Kind::dropped)
        ++pushes[static_cast<std::size_t>(event->worker)];
    }
    for (std::size_t w = 0; w < pushes.size(); ++w) steps_[w] = std::max(steps_[w], pushes[w]);
  }

  /// Whether the worker has read all ranges since its last step.
  bool has_read(std::size_t w) const {
    return std::all_of(ranges_.begin(), ranges_.end(),
                       [&](const Replayed& range) { return range.reads[w] == computed_[w]; });
  }

  void go_on(Replayed& range) {
    for (; const auto event = range.events.peek(); range.events.skip()) {
      const auto w = static_cast<std::size_t>(event->worker);
      switch (event->kind) {
        case RangeEvent::Kind::read:
          if (range.reads[w] == computed_[w]) return;
          read(range, w);
          break;
        case RangeEvent::Kind::gone:
          range.gone[w] = true;
          break;
        default:
          if (range.pushes[w] == computed_[w]) return;
          ++range.pushes[w];
          if (event->kind == RangeEvent::Kind::accepted) accept(range, w);
      }
      while (update(range)) {
      }
    }
  }

  void read(Replayed& range, std::size_t w) {
    kernels().copy({.in = parameters_.range(range.begin, range.count),
                    .out = replicas_[w].parameters().range(range.begin, range.count)});
    range.read_version[w] = range.version;
    ++range.reads[w];
  }

  void accept(Replayed& range, std::size_t w) {
    const bool asp = rules_.consistency == Consistency::asp;
    range.waiting.push_back({w, asp ? range.version : numbers_[w],
                             copy_of(replicas_[w].gradients().range(range.begin, range.count)),
                             range.version - range.read_version[w]});
  }

  /// Makes the range's next update if its gradients are there.
  bool update(Replayed& range) {
    std::vector<Replayed::Waiting> gradients;
    std::vector<bool> there = range.gone;
    for (const Replayed::Waiting& one : range.waiting)
      if (one.update == range.version) {
        gradients.push_back(one);
        there[one.worker] = true;
      }
    const bool asp = rules_.consistency == Consistency::asp;
    const auto wanted = static_cast<std::size_t>(asp ? 1 : workers_ - rules_.backup_workers);
    const bool all = std::find(there.begin(), there.end(), false) == there.end();
    const bool first_ones = asp || rules_.backup_workers > 0;
    if (gradients.empty() || !(first_ones ? gradients.size() >= wanted : all)) return false;
    if (first_ones) gradients.resize(wanted);
    std::sort(gradients.begin(), gradients.end(),
              [](const auto& a, const auto& b) { return a.worker < b.worker; });
    const Tensor sum = gradients[0].gradient;
    for (std::size_t i = 1; i < gradients.size(); ++i)
      kernels().add({.in = gradients[i].gradient, .out = sum});
    const double factor = asp ? lr_factor(options_.staleness_lr, gradients[0].staleness) : 1;
    optimizer_->update({range.begin, parameters_.range(range.begin, range.count), sum},
                       {.step = range.version, .lr_factor = factor});
    std::erase_if(range.waiting, [&](const auto& one) { return one.update == range.version; });
    ++range.version;
    return true;
  }

  /// At the end of a run worker 0 reads all ranges once more, and other workers may be lost.
  void check_end() const {
    for (const Replayed& range : ranges_) {
      EventReader left = range.events;
      for (auto event = left.peek(); event == RangeEvent{RangeEvent::Kind::read, 0} ||
                                     (event && event->kind == RangeEvent::Kind::gone);
           event = left.peek())
        left.skip();
      if (left.peek())
        throw Error(
            "the record of the run does not fit: nothing can follow version {} of the {} elements "
            "from {} on",
            range.version, range.count, range.begin);
    }
  }

  Tensor copy_of(const Tensor& values) const {
    Tensor copy = context().device.tensor(values.shape(), MemoryKind::workspace, values.dtype());
    kernels().copy({.in = values, .out = copy});
    return copy;
  }
  const Kernels& kernels() const { return context().device.kernels(); }

  PsOptions options_;
  ConsistencyRules rules_;
  int workers_;
  Model* model_ = nullptr;
  std::vector<Replica> replicas_;  // by worker
  Tensor parameters_;              // of the servers
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<Replayed> ranges_;
  std::vector<std::int64_t> steps_, computed_, evaluated_;  // by worker
  std::vector<std::int64_t> numbers_;  // by worker: of the gradients of its latest step
  std::size_t computing_ = 0;
};

}  // namespace

std::unique_ptr<SyncScheme> define_ps(const RankContext& context, const PsOptions& options) {
  return std::make_unique<Definition>(context, options);
}

}  // namespace ringside::ps
