// The definition of a scheme with a LocalRule: the replicas of all workers on one rank, and loops
// in place of messages.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "peer/schemes/compressed.h"
#include "peer/schemes/local_scheme.h"
#include "peer/schemes/rule_replicas.h"

namespace ringside::peer {
namespace {

class RuleDefinition final : public RuleReplicas {
 public:
  RuleDefinition(const RankContext& context, const char* name, const RuleMaker& make)
      : RuleReplicas(context, name, make, context.plan.defines) {}

  void attach(Model& model) override {
    RuleReplicas::attach(model);
    if (compresses())
      sum_.emplace(context(), model, buckets(), rule(0).compression(), own_replicas());
  }

  /// Between two steps after which nothing is on its way, and no error is remembered.
  void visit_state(const StateVisitor& visit) override {
    if (compresses() || rule(0).delay() > 1) return SyncScheme::visit_state(visit);
    RuleReplicas::visit_state(visit);
  }

 private:
  void visit_messages(std::size_t, std::int64_t, const StateVisitor&) override {}
  void begin(std::size_t fragment, std::int64_t) override {
    std::vector<Tensor>& messages = messages_[fragment];
    for (int r = 0; r < own_replicas(); ++r) {
      messages.push_back(context().device.tensor({rule(r).message_size(fragments()[fragment])},
                                                 MemoryKind::workspace));
      give(r, fragment, messages.back());
    }
  }

  void finish(std::size_t fragment, bool last) override {
    const std::vector<Tensor> messages = std::exchange(messages_[fragment], {});
    if (rule(0).sums()) return take_sums(fragment, messages, last);
    for (int r = 0; r < own_replicas(); ++r) {
      std::vector<Tensor> received;
      for (const int source : rule(r).sources(r, given_after(fragment)))
        received.push_back(messages[static_cast<std::size_t>(source)]);
      take(r, fragment, {received, 1, messages[static_cast<std::size_t>(r)], last});
    }
  }

  void take_sums(std::size_t fragment, const std::vector<Tensor>& messages, bool last) {
    const int size = rule(0).sum_group(given_after(fragment));
    for (int first = 0; first < own_replicas(); first += size) {
      const int end = std::min(first + size, own_replicas());
      const std::vector<Tensor> sum = {
          sum_of(fragment, {messages.begin() + first, messages.begin() + end})};
      for (int r = first; r < end; ++r) take(r, fragment, {sum, end - first, {}, last});
    }
  }

  Tensor sum_of(std::size_t fragment, const std::vector<Tensor>& messages) {
    if (!sum_) return added_up(context().device, messages);
    const Tensor sum = context().device.tensor(messages[0].shape(), MemoryKind::workspace);
    sum_->sum(fragment, messages, sum);
    return sum;
  }

  Tensor sum_of_replicas() override {
    std::vector<Tensor> all;
    for (int r = 0; r < own_replicas(); ++r) all.push_back(values(r));
    return added_up(context().device, all);
  }

  std::optional<DefinedSum> sum_;
  std::map<std::size_t, std::vector<Tensor>> messages_;  // by fragment, while it is on its way
};

}  // namespace

std::unique_ptr<SyncScheme> define_by_rule(const RankContext& context, const char* name,
                                           const RuleMaker& make) {
  return std::make_unique<RuleDefinition>(context, name, make);
}

}  // namespace ringside::peer
