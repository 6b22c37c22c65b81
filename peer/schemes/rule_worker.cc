// The worker of a scheme with a LocalRule: messages move by a communicator.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "peer/schemes/compressed.h"
#include "peer/schemes/exposed.h"
#include "peer/schemes/local_scheme.h"
#include "peer/schemes/rule_replicas.h"

namespace ringside::peer {
namespace {

class RuleWorker final : public RuleReplicas {
 public:
  RuleWorker(const RankContext& context, const char* name, const RuleMaker& make)
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
      one.given = message(rule(0).message_size(fragment));
      if (rule(0).sums()) one.received = {one.given};
    }
    if (measures()) all_replicas_ = message(model.parameter_count());
    split_groups();
  }

  void drain() override {
    for (std::size_t f = 0; f < fragments().size(); ++f) wait(f);
  }
  Traffic traffic() const override {
    Traffic out = communicator_->traffic();
    for (const auto& [size, group] : groups_) out = out + group->traffic();
    return out;
  }

 private:
  /// A fragment's messages, and the operations that move them.
  struct OnItsWay {
    Tensor given;
    std::vector<Tensor> received;
    int summed = 1;
    std::vector<WorkPtr> work;
  };

  Tensor message(std::int64_t size) const {
    return context().device.tensor({size}, MemoryKind::communication);
  }

  /// Makes a communicator of the own group of every size in which messages are summed.
  void split_groups() {
    if (!rule(0).sums()) return;
    for (std::int64_t done = 0; done <= context().plan.train.steps; ++done) {
      const int size = rule(0).sum_group(done);
      const bool given = gives_any(done) && size < communicator_->size();
      if (given && !groups_.contains(size))
        groups_[size] = communicator_->split(communicator_->rank() / size, communicator_->rank());
    }
  }
  Communicator& group(std::int64_t done) {
    const auto found = groups_.find(rule(0).sum_group(done));
    return found == groups_.end() ? *communicator_ : *found->second;
  }

  void start(std::size_t fragment, const std::function<WorkPtr()>& operation) {
    if (WorkPtr work = begin_traced(context().timeline, name_of_fragment(fragment), operation))
      on_its_way_[fragment].work.push_back(std::move(work));
  }

  void begin(std::size_t fragment, std::int64_t done) override {
    OnItsWay& one = on_its_way_[fragment];
    give(0, fragment, one.given);
    if (sum_) {
      one.summed = communicator_->size();
      return start(fragment, [&] { return compressed_.begin(fragment, one.given); });
    }
    if (rule(0).sums()) {
      Communicator& summing = group(done);
      one.summed = summing.size();
      summing.name_next(name_of_fragment(fragment));
      return start(fragment, [&] { return summing.all_reduce(one.given); });
    }
    for (int other = 0; other < communicator_->size(); ++other) {
      const std::vector<int> sources = rule(0).sources(other, done);
      if (std::find(sources.begin(), sources.end(), communicator_->rank()) != sources.end())
        start(fragment, [&] { return communicator_->send(one.given, other); });
    }
    const std::vector<int> sources = rule(0).sources(communicator_->rank(), done);
    one.received.resize(sources.size());
    for (std::size_t s = 0; s < sources.size(); ++s) {
      if (!one.received[s]) one.received[s] = message(one.given.count());
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
    take(0, fragment, {one.received, one.summed, rule(0).sums() ? Tensor() : one.given, last});
  }

  Tensor sum_of_replicas() override {
    {
      const auto span = context().timeline.scope(Activity::encoding, "copy the replica");
      context().device.kernels().copy({.in = values(0), .out = all_replicas_});
    }
    communicator_->name_next("consensus distance");
    wait_exposed(context().timeline, "consensus distance",
                 communicator_->all_reduce(all_replicas_));
    return all_replicas_;
  }

  std::unique_ptr<Communicator> communicator_;
  std::map<int, std::unique_ptr<Communicator>> groups_;  // smaller ones, by their size
  Tensor all_replicas_;
  std::optional<CompressedSum> sum_;
  Reducer::Operation compressed_;
  std::vector<OnItsWay> on_its_way_;  // by fragment
};

}  // namespace

std::unique_ptr<SyncScheme> make_by_rule(const RankContext& context, const char* name,
                                         const RuleMaker& make) {
  return std::make_unique<RuleWorker>(context, name, make);
}

double sum_bytes(int workers, std::int64_t elements, std::int64_t period) {
  const double n = workers;
  return 2 * (n - 1) / n * 4 * static_cast<double>(elements) / static_cast<double>(period);
}

}  // namespace ringside::peer
