// The worker of a scheme with a LocalRule: messages move by a communicator.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/scheme/scalar_sum.h"
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
    split_groups();
  }

  /// Afterwards all messages that are on their way are here, and those that are compressed are
  /// decoded.
  void drain() override {
    for (std::size_t f = 0; f < fragments().size(); ++f) receive(f);
  }
  void sum(std::span<double> values) override {
    sum_over_ranks(context().device, *communicator_, values, &context().timeline);
  }
  void visit_state(const StateVisitor& visit) override {
    RuleReplicas::visit_state(visit);
    if (sum_) sum_->visit_state(visit, "messages/");
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
    bool coded = false;  // whether `given` has yet to become the sum of compressed messages
    std::vector<WorkPtr> work;
  };

  Tensor message(std::int64_t size) const {
    return context().device.tensor({size}, MemoryKind::communication);
  }

  /// Makes a communicator of the own group of every size in which messages are summed.
  void split_groups() {
    if (!rule(0).sums()) return;
    for (const int size : rule(0).groups())
      if (size < communicator_->size() && !groups_.contains(size))
        groups_[size] = communicator_->split(communicator_->rank() / size, communicator_->rank());
  }
  Communicator& group(std::int64_t done) {
    const int size = rule(0).sum_group(done);
    return size >= communicator_->size() ? *communicator_ : *groups_.at(size);
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
      one.coded = true;
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
    const std::vector<int> sources = take_from(fragment, done);
    for (std::size_t s = 0; s < sources.size(); ++s)
      start(fragment, [&] { return communicator_->recv(one.received[s], sources[s]); });
  }
  /// Makes room for the messages of this worker's sources, and returns these.
  std::vector<int> take_from(std::size_t fragment, std::int64_t done) {
    OnItsWay& one = on_its_way_[fragment];
    std::vector<int> sources = rule(0).sources(communicator_->rank(), done);
    one.received.resize(sources.size());
    for (Tensor& received : one.received)
      if (!received) received = message(one.given.count());
    return sources;
  }

  void wait(std::size_t fragment) {
    for (WorkPtr& work : std::exchange(on_its_way_[fragment].work, {}))
      wait_exposed(context().timeline, name_of_fragment(fragment), std::move(work));
  }

  /// Waits for the fragment's messages, if they are on their way, and decodes them.
  void receive(std::size_t fragment) {
    wait(fragment);
    OnItsWay& one = on_its_way_[fragment];
    if (!std::exchange(one.coded, false)) return;
    for (int round = 1; round < compressed_.rounds; ++round) {
      start(fragment, [&] { return compressed_.next(fragment, round, one.given); });
      wait(fragment);
    }
    compressed_.finish(fragment, one.given);
  }

  void finish(std::size_t fragment, bool last) override {
    receive(fragment);
    const OnItsWay& one = on_its_way_[fragment];
    take(0, fragment, {one.received, one.summed, rule(0).sums() ? Tensor() : one.given, last});
  }

  /// A sum is that of all workers, or, with its first worker as replica, of a group; a message is
  /// its worker's own, which those who take it have too.
  void visit_messages(std::size_t fragment, std::int64_t begin,
                      const StateVisitor& visit) override {
    OnItsWay& one = on_its_way_[fragment];
    const std::int64_t done = given_after(fragment);
    StateRange range{.name = "message",
                     .begin = begin,
                     .device = &context().device,
                     .of_options = true,
                     .of_elements = false};
    if (rule(0).sums()) {
      const Communicator& summing = sum_ ? *communicator_ : group(done);
      one.summed = summing.size();
      range.name = "message_sum";
      if (one.summed < communicator_->size())
        range.replica = communicator_->rank() - summing.rank();
      range.values = one.given;
      range.holder = summing.rank();
      range.holders = summing.size();
      return visit(range);
    }
    const auto visit_of = [&](int worker, const Tensor& values) {
      const std::vector<int> all = holders_of(worker, done);
      range.replica = worker;
      range.values = values;
      range.holders = static_cast<int>(all.size());
      range.holder =
          static_cast<int>(std::find(all.begin(), all.end(), communicator_->rank()) - all.begin());
      visit(range);
    };
    visit_of(communicator_->rank(), one.given);
    const std::vector<int> sources = take_from(fragment, done);
    for (std::size_t s = 0; s < sources.size(); ++s) visit_of(sources[s], one.received[s]);
  }

  /// The worker, and those that take its message.
  std::vector<int> holders_of(int worker, std::int64_t done) const {
    std::vector<int> out = {worker};
    for (int other = 0; other < communicator_->size(); ++other) {
      const std::vector<int> sources = rule(0).sources(other, done);
      if (std::find(sources.begin(), sources.end(), worker) != sources.end()) out.push_back(other);
    }
    return out;
  }

  Tensor sum_of_replicas() override {
    if (!all_replicas_) all_replicas_ = message(model().parameter_count());
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
  Tensor all_replicas_;                                  // from the first measurement on
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
