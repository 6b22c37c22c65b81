#include "peer/comm/sim/group.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/error.h"

namespace ringside::peer {
namespace {

struct Groups {
  std::map<std::string, std::weak_ptr<SimGroup>> by_name{};
};

}  // namespace

SimGroup::SimGroup(sim::World& world, const Group& group, const SimOptions& options)
    : SimMembers(world, group.name, group.size, options),
      algorithm_(group.algorithm),
      progress_(static_cast<std::size_t>(group.size)),
      all_joined_(world.make_event()),
      all_arrived_(world.make_event()) {
  for (Progress& progress : progress_) progress.arrival = world.make_event();
}

std::shared_ptr<SimGroup> SimGroup::join(
    sim::SimDevice& device, Group joined, const SimOptions& options,
    const std::function<void(const std::shared_ptr<SimGroup>&)>& start_services) {
  sim::World& world = device.world();
  if (joined.algorithm == Algorithm::automatic && sim::shares_memory(world.cluster()))
    joined.algorithm = Algorithm::native;
  const auto& [name, rank, size, algorithm] = joined;
  device.catch_up();
  std::weak_ptr<SimGroup>& known = world.shared().get<Groups>()->by_name[name];
  std::shared_ptr<SimGroup> group = known.lock();
  if (!group) {
    group.reset(new SimGroup(world, joined, options));
    known = group;
  }
  if (group->size() != size)
    throw Error(
        "{}: the group has {} ranks on this rank, but {} on another; all ranks must give "
        "the same size",
        name, size, group->size());
  if (group->algorithm_ != algorithm)
    throw Error("{}: the group's algorithm is {} on this rank, but {} on another", name,
                name_of(algorithm), name_of(group->algorithm_));
  if (rank < 0 || rank >= size)
    throw Error("{}: there is no rank {} in a group of {}", name, rank, size);
  Member& member = group->member(rank);
  if (member.joined) throw Error("{}: rank {} of {} joins twice", name, rank, size);
  group->throw_if_broken();
  member.joined = true;
  member.place = device.place();
  member.has_values = device.has_values();
  member.contention = device.contention();
  if (++group->joined_ == size) {
    std::string refusal;
    try {
      group->choose();
      start_services(group);
    } catch (const Error& e) {
      refusal = e.what();
    }
    if (!refusal.empty()) group->fail(refusal);
    group->all_joined_->notify_all();
  } else {
    group->wait_for_members(rank);
  }
  return group;
}

bool SimGroup::by_messages() const {
  return size() <= options().message_ranks || sim::shares_memory(world().cluster());
}

void SimGroup::choose() {
  if (algorithm_ == Algorithm::native) return;
  if (algorithm_ != Algorithm::automatic) {
    choice_.emplace(algorithm_);
    return;
  }
  std::vector<sim::Place> places;
  for (int r = 0; r < size(); ++r) places.push_back(place(r));
  choice_.emplace(link_costs(world().cluster(), places));
}

void SimGroup::wait_for_members(int rank) {
  const double deadline = world().now() + options().timeout_s;
  for (;;) {
    throw_if_broken();
    if (joined_ == size()) return;
    const double left = deadline - world().now();
    if (left <= sim::moment) {
      const auto missing = list_ranks(size(), [&](int r) { return !member(r).joined; });
      member(rank).gone = true;
      break_group(did_not_join(name(), missing, options().timeout_s));
      continue;
    }
    all_joined_->wait(left);
  }
}

SimGroup::OperationPtr SimGroup::call(int rank, const Collective& call, const std::string& purpose,
                                      const Tensor& in, const Tensor& out, const Tensor& scratch) {
  throw_if_broken();
  const std::uint64_t number = ++progress(rank).called;
  records(rank).begin(number, call, purpose, world().now());
  if (number - first_ == operations_.size()) {
    auto fresh = std::make_shared<Operation>();
    fresh->number = number;
    fresh->call = call;
    fresh->entries.resize(progress_.size());
    fresh->changed = world().make_event();
    operations_.push_back(std::move(fresh));
  }
  const OperationPtr operation = operations_[number - first_];
  Entry& entry = operation->entries[static_cast<std::size_t>(rank)];
  entry.call = call;
  entry.in = in;
  entry.out = out;
  entry.scratch = scratch;
  entry.arrival = world().now();
  entry.here = true;
  check_agreement(*operation, rank);
  if (++operation->arrived == size()) {
    if (moves_data(operation->call))
      for (int r = 0; r < size(); ++r)
        if (const auto& contention = member(r).contention)
          contention->begin_collective(world().now());
    bool any = false;
    for (int r = 0; operation->finished > 0 && r < size(); ++r) any |= advance(r);
    if (any) operation->changed->notify_all();
    all_arrived_->notify_all();
  }
  progress(rank).arrival->notify_all();
  return operation;
}

void SimGroup::check_agreement(Operation& operation, int rank) const {
  const auto call = [&](int r) -> const Collective& {
    return operation.entries[static_cast<std::size_t>(r)].call;
  };
  if (agree(call(rank), operation.call) || !operation.mismatch.empty()) return;
  int other = 0;  // the lowest other rank that has come; its call agrees with `operation.call`
  while (!operation.entries[static_cast<std::size_t>(other)].here || other == rank) ++other;
  const int low = std::min(rank, other), high = std::max(rank, other);
  operation.mismatch = disagreement(name(), operation.number, low, call(low), high, call(high));
}

void SimGroup::await(const Operation& awaited, int rank) {
  while (!ended(awaited, rank)) {
    throw_if_broken();
    const OperationPtr turn = operations_[progress(rank).ended + 1 - first_];
    if (!turn->mismatch.empty()) fail(turn->mismatch);
    const auto here = [&](int r) { return turn->entries[static_cast<std::size_t>(r)].here; };
    double left = sim::for_ever;
    if (turn->arrived < size()) {
      if (left_ > 0) {
        const auto gone = list_ranks(size(), [&](int r) { return !here(r) && member(r).gone; });
        if (!gone.empty()) fail_waiting(ended_before(name(), gone, turn->number, turn->call));
      }
      const double arrival = turn->entries[static_cast<std::size_t>(rank)].arrival;
      left = std::max(arrival, progress(rank).last_end) + options().timeout_s - world().now();
      if (left <= sim::moment)
        fail_waiting(did_not_come(name(), list_ranks(size(), [&](int r) { return !here(r); }),
                                  turn->number, turn->call, options().timeout_s));
    }
    turn->changed->wait(left);
  }
}

SimGroup::OperationPtr SimGroup::next(int rank, std::uint64_t number) {
  const auto here = [&] {
    return number >= first_ && number - first_ < operations_.size() &&
           (rank < 0 ? operation(number).arrived == size()
                     : operation(number).entries[static_cast<std::size_t>(rank)].here);
  };
  while (!here() && !closed() && broken_.empty())
    (rank < 0 ? all_arrived_ : progress(rank).arrival)->wait(sim::for_ever);
  if (!here() || !usable(operation(number))) return nullptr;
  return operations_[number - first_];
}

void SimGroup::finish(const OperationPtr& operation, int rank) {
  if (usable(*operation)) {
    operation->entries[static_cast<std::size_t>(rank)].finished = true;
    ++operation->finished;
    if (!advance(rank)) return;
  }
  operation->changed->notify_all();
}

void SimGroup::finish_all(const OperationPtr& operation) {
  if (usable(*operation)) {
    operation->finished = size();
    for (int r = 0; r < size(); ++r) {
      operation->entries[static_cast<std::size_t>(r)].finished = true;
      advance(r);
    }
  }
  operation->changed->notify_all();  // comes last: it lets other actors run
}

bool SimGroup::advance(int rank) {
  bool any = false;
  for (;;) {
    const std::uint64_t number = progress(rank).ended + 1;
    if (number - first_ >= operations_.size()) return any;
    const OperationPtr turn = operations_[number - first_];
    if (turn->arrived < size() || !turn->entries[static_cast<std::size_t>(rank)].finished)
      return any;
    end(*turn, rank);
    any = true;
  }
}

void SimGroup::end(Operation& operation, int rank) {
  Entry& entry = operation.entries[static_cast<std::size_t>(rank)];
  Progress& progress = this->progress(rank);
  move(operation, rank);
  entry.in = entry.out = entry.scratch = {};
  entry.end = world().now();
  if (const auto& contention = member(rank).contention; contention && moves_data(operation.call))
    contention->end_collective(entry.end);
  progress.ended = operation.number;
  progress.last_end = entry.end;
  records(rank).end(operation.number, entry.end);
  if (++operation.ended < size()) return;
  operations_.pop_front();
  ++first_;
}

void SimGroup::move(const Operation& operation, int rank) {
  if (algorithm_ != Algorithm::native && by_messages()) return;
  if (operation.ended == 0 && member(rank).has_values)
    move_values(operation.entries,
                choice_ ? &row_of(operation.call, operation.entries.front().whole()) : nullptr,
                hosts());
  // Counts elements as fp32, whatever their dtype is: with another element size only the borders
  // between the ranks' parts would shift a little.
  if (algorithm_ == Algorithm::native)
    traffic(rank) = traffic(rank) + traffic_of(operation.call, rank, size(), sizeof(float));
}

void SimGroup::abandon(int rank, const std::string& what) {
  break_quietly(fmt::format("{}: rank {} of {} failed during {}", name(), rank, size(), what));
}

void SimGroup::leave(int rank, bool unwinding) {
  member(rank).gone = true;
  ++left_;
  if (unwinding) return;
  for (const OperationPtr& operation : std::deque<OperationPtr>(operations_))
    if (!operation->entries[static_cast<std::size_t>(rank)].here) operation->changed->notify_all();
  messages_.wake_all();
  steps_.wake_all();
  if (!closed()) return;
  accesses_.end_services();
  all_arrived_->notify_all();
  for (Progress& progress : progress_) progress.arrival->notify_all();
}

void SimGroup::break_quietly(const std::string& what) {
  if (broken_.empty()) broken_ = what;
  // No operation will move values any more, so their tensors are not needed.
  for (const OperationPtr& operation : operations_)
    for (Entry& entry : operation->entries) entry.in = entry.out = entry.scratch = {};
  messages_.drop_tensors();
  steps_.drop_tensors();
}

void SimGroup::break_group(const std::string& what) {
  break_quietly(what);
  for (const OperationPtr& operation : std::deque<OperationPtr>(operations_))
    operation->changed->notify_all();
  all_joined_->notify_all();
  messages_.wake_all();
  steps_.wake_all();
}

}  // namespace ringside::peer
