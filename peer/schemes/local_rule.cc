#include "peer/schemes/local_rule.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/scheme/local_replicas.h"
#include "peer/schemes/compressed.h"
#include "peer/schemes/exposed.h"

namespace ringside::peer {
namespace {

/// The part of workers and of the definition that is the same: the rules of the rank's replicas,
/// and the steps after which fragments are given and taken.
class RuleReplicas : public LocalReplicas {
 public:
  void attach(Model& model) override {
    LocalReplicas::attach(model);
    const RunPlan& plan = context().plan;
    const int first = context().self().worker * own_replicas();
    for (int r = 0; r < own_replicas(); ++r) {
      rules_.push_back(make_(
          {context().device, model, first + r, plan.world * own_replicas(), plan.train.steps}));
      rules_.back()->attach(values(r));
    }
    fragments_ = rules_[0]->fragments();
    given_after_.resize(fragments_.size());
  }

  void before_forward(std::size_t unit, const Pass& pass) override {
    LocalReplicas::before_forward(unit, pass);
    if (pass.training && unit == 0 && pass.micro_batch == 0 && rules_[0]->delay() > 0)
      begin_all(pass.step, std::vector<bool>(fragments_.size()));
  }

  std::vector<SchemeFigure> figures() const override {
    std::vector<SchemeFigure> mean;
    for (const auto& rule : rules_) {
      const std::vector<SchemeFigure> own = rule->figures();
      if (mean.empty()) mean.resize(own.size());
      for (std::size_t i = 0; i < own.size(); ++i) {
        const double before = mean[i].value;
        mean[i] = own[i];
        mean[i].value = before + own[i].value / static_cast<double>(rules_.size());
      }
    }
    return mean;
  }

 protected:
  RuleReplicas(const RankContext& context, const char* name, RuleMaker make, int replicas)
      : LocalReplicas(context, replicas), name_(name), make_(std::move(make)) {}

  /// Gives the messages of all replicas of this rank, and begins to move them.
  virtual void begin(std::size_t fragment, std::int64_t done) = 0;
  /// Waits for what has been begun, and takes it.
  virtual void finish(std::size_t fragment, bool last) = 0;

  const LocalRule& rule(int replica) const { return *rules_[static_cast<std::size_t>(replica)]; }
  const std::vector<Fragment>& fragments() const { return fragments_; }
  /// The steps after which the fragment was given that is on its way.
  std::int64_t given_after(std::size_t fragment) const { return *given_after_[fragment]; }
  bool compresses() const { return ringside::compresses(rule(0).compression()); }
  /// The fragments as buckets, for compressors.
  std::vector<Bucket> buckets() const {
    std::vector<Bucket> out;
    for (std::size_t f = 0; f < fragments_.size(); ++f)
      out.push_back({.name = name_of_fragment(f),
                     .begin = fragments_[f].begin,
                     .count = fragments_[f].count});
    return out;
  }
  std::string name_of_fragment(std::size_t fragment) const {
    return fragments_.size() == 1 ? name_ : fmt::format("{} {}", name_, fragment);
  }

  void give(int replica, std::size_t fragment, const Tensor& message) {
    const Fragment& range = fragments_[fragment];
    const auto span = context().timeline.scope(Activity::encoding, "give " + name_);
    at(replica).give(range, range.of(values(replica)), message);
  }
  void take(int replica, std::size_t fragment, const Received& received) {
    const Fragment& range = fragments_[fragment];
    const auto span = context().timeline.scope(Activity::encoding, "take " + name_);
    at(replica).take(range, received, range.of(values(replica)));
    round_parameters(replica, range.begin, range.count);
  }

 private:
  void synchronise(const StepInfo& info) final {
    const std::int64_t done = info.step + 1;
    const bool last = done == context().plan.train.steps;
    const std::int64_t delay = rules_[0]->delay();
    // What is on its way after the last step is taken and not given again.
    std::vector<bool> taken(fragments_.size());
    for (std::size_t f = 0; f < fragments_.size(); ++f)
      if (given_after_[f] && (last || *given_after_[f] + delay == done)) taken[f] = end(f, last);
    if (!last && delay > 0) return;  // the next step begins with what is given now
    begin_all(done, taken);
    for (std::size_t f = 0; f < fragments_.size(); ++f)
      if (given_after_[f]) end(f, last);
  }
  void begin_all(std::int64_t done, const std::vector<bool>& without) {
    for (std::size_t f = 0; f < fragments_.size(); ++f)
      if (!without[f] && rules_[0]->gives(f, done)) {
        given_after_[f] = done;
        begin(f, done);
      }
  }
  bool end(std::size_t fragment, bool last) {
    finish(fragment, last);
    given_after_[fragment].reset();
    return true;
  }

  LocalRule& at(int replica) { return *rules_[static_cast<std::size_t>(replica)]; }

  std::string name_;
  RuleMaker make_;
  std::vector<std::unique_ptr<LocalRule>> rules_;  // of this rank's replicas
  std::vector<Fragment> fragments_;
  std::vector<std::optional<std::int64_t>> given_after_;  // by fragment, while it is on its way
};

class Worker final : public RuleReplicas {
 public:
  Worker(const RankContext& context, const char* name, const RuleMaker& make)
      : RuleReplicas(context, name, make, 1),
        communicator_(context.communicator(all_workers(context, context.plan.scheme))) {}

  void attach(Model& model) override {
    RuleReplicas::attach(model);
    if (compresses()) {
      sum_.emplace(context(), *communicator_, model, buckets(), rule(0).compression());
      compressed_ = sum_->operation(DType::f32, true);
    }
    for (const Fragment& fragment : fragments()) {
      OnItsWay& one = on_its_way_.emplace_back();
      one.given = message(fragment);
      if (rule(0).sums()) one.received = {one.given};
    }
  }

  void drain() override {
    for (std::size_t f = 0; f < fragments().size(); ++f) wait(f);
  }
  Traffic traffic() const override { return communicator_->traffic(); }

 private:
  /// A fragment's messages, and the operations that move them.
  struct OnItsWay {
    Tensor given;
    std::vector<Tensor> received;
    std::vector<WorkPtr> work;
  };

  Tensor message(const Fragment& fragment) const {
    return context().device.tensor({fragment.count}, MemoryKind::communication);
  }

  void start(std::size_t fragment, const std::function<WorkPtr()>& operation) {
    if (WorkPtr work = begin_traced(context().timeline, name_of_fragment(fragment), operation))
      on_its_way_[fragment].work.push_back(std::move(work));
  }

  void begin(std::size_t fragment, std::int64_t done) override {
    OnItsWay& one = on_its_way_[fragment];
    give(0, fragment, one.given);
    if (sum_) return start(fragment, [&] { return compressed_.begin(fragment, one.given); });
    if (rule(0).sums()) {
      communicator_->name_next(name_of_fragment(fragment));
      return start(fragment, [&] { return communicator_->all_reduce(one.given); });
    }
    for (int other = 0; other < communicator_->size(); ++other) {
      const std::vector<int> sources = rule(0).sources(other, done);
      if (std::find(sources.begin(), sources.end(), communicator_->rank()) != sources.end())
        start(fragment, [&] { return communicator_->send(one.given, other); });
    }
    const std::vector<int> sources = rule(0).sources(communicator_->rank(), done);
    one.received.resize(sources.size());
    for (std::size_t s = 0; s < sources.size(); ++s) {
      if (!one.received[s]) one.received[s] = message(fragments()[fragment]);
      start(fragment, [&] { return communicator_->recv(one.received[s], sources[s]); });
    }
  }

  void wait(std::size_t fragment) {
    for (WorkPtr& work : std::exchange(on_its_way_[fragment].work, {}))
      wait_exposed(context().timeline, name_of_fragment(fragment), std::move(work));
  }

  void finish(std::size_t fragment, bool last) override {
    wait(fragment);
    const OnItsWay& one = on_its_way_[fragment];
    if (sum_) {
      for (int round = 1; round < compressed_.rounds; ++round) {
        start(fragment, [&] { return compressed_.next(fragment, round, one.given); });
        wait(fragment);
      }
      compressed_.finish(fragment, one.given);
    }
    take(0, fragment, {one.received, rule(0).sums() ? Tensor() : one.given, last});
  }

  std::unique_ptr<Communicator> communicator_;
  std::optional<CompressedSum> sum_;
  Reducer::Operation compressed_;
  std::vector<OnItsWay> on_its_way_;  // by fragment
};

class Definition final : public RuleReplicas {
 public:
  Definition(const RankContext& context, const char* name, const RuleMaker& make)
      : RuleReplicas(context, name, make, context.plan.defines) {}

  void attach(Model& model) override {
    RuleReplicas::attach(model);
    if (compresses())
      sum_.emplace(context(), model, buckets(), rule(0).compression(), own_replicas());
  }

 private:
  void begin(std::size_t fragment, std::int64_t) override {
    std::vector<Tensor>& messages = messages_[fragment];
    for (int r = 0; r < own_replicas(); ++r) {
      messages.push_back(
          context().device.tensor({fragments()[fragment].count}, MemoryKind::workspace));
      give(r, fragment, messages.back());
    }
  }

  void finish(std::size_t fragment, bool last) override {
    const std::vector<Tensor> messages = std::exchange(messages_[fragment], {});
    std::vector<Tensor> sum;
    if (rule(0).sums()) sum = {sum_of(fragment, messages)};
    for (int r = 0; r < own_replicas(); ++r) {
      std::vector<Tensor> received = sum;
      if (!rule(r).sums())
        for (const int source : rule(r).sources(r, given_after(fragment)))
          received.push_back(messages[static_cast<std::size_t>(source)]);
      take(r, fragment, {received, messages[static_cast<std::size_t>(r)], last});
    }
  }

  Tensor sum_of(std::size_t fragment, const std::vector<Tensor>& messages) {
    if (!sum_) return added_up(context().device, messages);
    const Tensor sum = context().device.tensor(messages[0].shape(), MemoryKind::workspace);
    sum_->sum(fragment, messages, sum);
    return sum;
  }

  std::optional<DefinedSum> sum_;
  std::map<std::size_t, std::vector<Tensor>> messages_;  // by fragment, while it is on its way
};

}  // namespace

std::vector<Fragment> LocalRule::fragments() const {
  return {{0, context_.model.parameter_count()}};
}

std::vector<int> LocalRule::sources(int, std::int64_t) const { return {}; }

std::unique_ptr<SyncScheme> make_by_rule(const RankContext& context, const char* name,
                                         const RuleMaker& make) {
  return std::make_unique<Worker>(context, name, make);
}

std::unique_ptr<SyncScheme> define_by_rule(const RankContext& context, const char* name,
                                           const RuleMaker& make) {
  return std::make_unique<Definition>(context, name, make);
}

double sum_bytes(int workers, std::int64_t elements, std::int64_t period) {
  const double n = workers;
  return 2 * (n - 1) / n * 4 * static_cast<double>(elements) / static_cast<double>(period);
}

}  // namespace ringside::peer
