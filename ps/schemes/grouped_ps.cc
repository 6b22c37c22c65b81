// The workers of "ps" that push in groups.
#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "ps/schemes/ps_worker.h"
#include "ps/schemes/sum_group.h"

namespace ringside::ps {
namespace {

/// Bulk synchronous, with workers that push in groups. All members of a group begin sums and
/// gatherings in one order, because a step's sums, from the last unit to the first, have all begun
/// before the values of the first unit can come, and values are gathered from the first unit on.
/// An exchange within a group never depends on a later reply of a server, so the worker that is
/// furthest behind can always go on.
class GroupedPs final : public PsWorker {
 public:
  using PsWorker::PsWorker;

  void attach(Model& model) override {
    PsWorker::attach(model);
    group_.emplace(context(), model, replica(), group());
    gathers_.resize(model.units.size());
    gathered_ = gathers_.size();
  }

  void before_forward(std::size_t unit, const Pass&) override {
    gather_until(unit);
    gathers_[unit].wait(context().timeline);
  }
  void after_forward(std::size_t unit, const Pass& pass) override {
    PsWorker::after_forward(unit, pass);
    push_sums();
    while (gathered_ < gathers_.size() && link().has_come(gathered_)) gather();
  }
  bool step(const StepInfo& info) override {
    while (!sums_.empty()) push_first();
    const bool finite = PsWorker::step(info);
    gathered_ = 0;
    return finite;
  }
  void drain() override {
    PsWorker::drain();
    gather_until(gathers_.size() - 1);
    for (SumGroup::Exchange& gather : gathers_) gather.wait(context().timeline);
  }
  void restored(std::int64_t skipped) override {
    PsWorker::restored(skipped);
    gathered_ = 0;
    drain();
  }

  Traffic traffic() const override {
    return group_ ? PsWorker::traffic() + group_->traffic() : PsWorker::traffic();
  }
  std::vector<SchemeFigure> figures() const override {
    const auto steps = static_cast<double>(context().plan.train.steps);
    return {{"sent to servers", "MB a step",
             1e-6 * static_cast<double>(PsWorker::traffic().sent) / steps}};
  }

 private:
  /// A gradient that is being added up, and the push that follows.
  struct AddedUp {
    std::size_t unit = 0;
    std::int64_t step = 0;
    std::optional<std::int64_t> micro_batch;  // none: the last one of the step
    SumGroup::Exchange exchange;
  };
  /// The number of sums of units that may be under way in backward before a worker waits for the
  /// oldest. A host that runs ahead of its device would see none of them end before the end of
  /// backward.
  static constexpr std::size_t most_sums = 2;

  void push(std::size_t unit, std::int64_t step) override { add_up(unit, step, {}); }
  void push_part(std::size_t unit, std::int64_t step, std::int64_t micro_batch) override {
    add_up(unit, step, micro_batch);
  }
  void free_gradients(std::size_t unit) override {
    while (std::ranges::any_of(sums_, [&](const AddedUp& sum) { return sum.unit == unit; }))
      push_first();
    PsWorker::free_gradients(unit);
  }

  void add_up(std::size_t unit, std::int64_t step, std::optional<std::int64_t> micro_batch) {
    sums_.push_back({unit, step, micro_batch, group_->add_up(unit)});
    push_sums();
  }
  void push_sums() {
    while (!sums_.empty() && (sums_.size() > most_sums || sums_.front().exchange.ready()))
      push_first();
  }
  void push_first() {
    AddedUp sum = std::move(sums_.front());
    sums_.pop_front();
    sum.exchange.wait(context().timeline);
    if (sum.micro_batch)
      PsWorker::push_part(sum.unit, sum.step, *sum.micro_batch);
    else
      PsWorker::push(sum.unit, sum.step);
  }

  /// Begins to gather the next unit, of which this worker has its own part.
  void gather() {
    gathers_[gathered_] = group_->gather(gathered_);
    ++gathered_;
  }
  void gather_until(std::size_t unit) {
    while (gathered_ <= unit) {
      link().wait_for(gathered_);
      gather();
    }
  }

  std::optional<SumGroup> group_;
  std::deque<AddedUp> sums_;                 // in the order in which they began
  std::vector<SumGroup::Exchange> gathers_;  // by unit
  std::size_t gathered_ = 0;                 // units whose gathering has begun since the last step
};

}  // namespace

std::unique_ptr<SyncScheme> make_grouped_ps(const RankContext& context, const PsOptions& options) {
  return std::make_unique<GroupedPs>(context, options);
}

}  // namespace ringside::ps
