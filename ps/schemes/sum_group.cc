#include "ps/schemes/sum_group.h"

#include <algorithm>

#include "core/scheme/exposed.h"

namespace ringside::ps {
namespace {

/// The elements that divide evenly among the members.
Tensor even(const Tensor& whole, int group) {
  return whole.range(0, whole.count() / group * group);
}

/// The elements that are left over.
Tensor rest(const Tensor& whole, int group) {
  const std::int64_t count = whole.count() % group;
  return whole.range(whole.count() - count, count);
}

}  // namespace

UnitPart part_of(std::int64_t count, int group, int member) {
  const std::int64_t each = count / group;
  return {member * each, member + 1 == group ? count - member * each : each};
}

Sum sum_over_groups(std::int64_t count, int workers, int group) {
  Sum sum{0, count, {}};
  for (int first = 0; first < workers; first += group)
    for (int i = 1; i < group; ++i) sum.additions.push_back({first, first + i});
  for (int first = group; first < workers; first += group) sum.additions.push_back({0, first});
  return sum;
}

SumGroup::SumGroup(const RankContext& context, const Model& model, Replica& replica, int size)
    : timeline_(context.timeline), model_(model), replica_(replica) {
  const int worker = context.self().worker;
  communicator_ =
      context.communicator({fmt::format("ps-group-{}", worker / size), worker % size, size});
}

SumGroup::Exchange SumGroup::add_up(std::size_t unit) {
  Exchange out;
  out.name_ = "reduce-scatter " + model_.units[unit]->name();
  const int size = communicator_->size();
  const Tensor all = replica_.gradients(unit);
  if (const Tensor array = even(all, size); array.count() > 0)
    begin(out, [&] {
      const std::int64_t each = array.count() / size;
      return communicator_->reduce_scatter(array, array.range(communicator_->rank() * each, each));
    });
  if (const Tensor array = rest(all, size); array.count() > 0)
    begin(out, [&] { return communicator_->all_reduce(array); });
  return out;
}

SumGroup::Exchange SumGroup::gather(std::size_t unit) {
  Exchange out;
  out.name_ = "all-gather " + model_.units[unit]->name();
  const int size = communicator_->size();
  const Tensor all = replica_.parameters(unit);
  if (const Tensor array = even(all, size); array.count() > 0)
    begin(out, [&] {
      const std::int64_t each = array.count() / size;
      return communicator_->all_gather(array.range(communicator_->rank() * each, each), array);
    });
  if (const Tensor array = rest(all, size); array.count() > 0)
    begin(out, [&] { return communicator_->broadcast(array, size - 1); });
  return out;
}

void SumGroup::begin(Exchange& exchange, const std::function<WorkPtr()>& operation) {
  communicator_->name_next(exchange.name_);
  exchange.works_.push_back(begin_traced(timeline_, exchange.name_, operation));
}

bool SumGroup::Exchange::ready() const {
  return std::ranges::all_of(works_, [](const WorkPtr& work) { return work->ready(); });
}

void SumGroup::Exchange::wait(Timeline& timeline) {
  for (WorkPtr& work : works_) wait_exposed(timeline, name_, std::move(work));
  works_.clear();
}

}  // namespace ringside::ps
