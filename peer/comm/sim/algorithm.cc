#include "peer/comm/sim/algorithm.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "peer/comm/algorithms/algorithms.h"
#include "peer/comm/algorithms/schedule.h"
#include "peer/comm/sim/routes.h"
#include "peer/comm/sum.h"

namespace ringside::peer {
namespace {

class SimExchange : public Exchange {
 public:
  SimExchange(SimGroup& group, int rank, const std::vector<int>& hosts,
              const SimGroup::Entry& entry)
      : group_(group), rank_(rank), hosts_(hosts), entry_(entry) {}

  int rank() const override { return rank_; }
  const std::vector<int>& hosts() const override { return hosts_; }
  std::int64_t count(Array array) const override { return of(array).count(); }

  void step(const std::vector<Sending>& sends, const std::vector<Receiving>& receives) override {
    std::vector<SimMessages::MessagePtr> messages;
    for (const Sending& one : sends)
      messages.push_back(group_.steps().post(range(one.from), true, rank_, one.to));
    for (const Receiving& one : receives)
      messages.push_back(group_.steps().post(range(one.into), false, one.from, rank_,
                                             one.plus ? range(*one.plus) : Tensor()));
    for (const auto& message : messages) group_.steps().await(*message);
  }

  void copy(const Elements& from, const Elements& to) override {
    const std::byte* source = data(from);
    if (source && source != data(to)) std::copy_n(source, range(from).bytes(), data(to));
  }

  void add(const Elements& from, const Elements& to) override {
    std::byte* const into = data(to);
    const std::byte* const sources[] = {into, data(from)};
    if (into)
      sum_in_order(of(to.array).dtype(), sources, {&into, 1}, static_cast<std::size_t>(from.count));
  }

 private:
  /// The tensors stay with the entry, which lets go of them when the group breaks: the rank's
  /// device may end before this service does.
  const Tensor& of(Array array) const {
    group_.throw_if_broken();
    return array == Array::in ? entry_.in : array == Array::out ? entry_.out : entry_.scratch;
  }
  Tensor range(const Elements& elements) const {
    return elements.count == 0 ? Tensor()
                               : of(elements.array).range(elements.begin, elements.count);
  }
  std::byte* data(const Elements& elements) const {
    return reinterpret_cast<std::byte*>(range(elements).data<std::uint8_t>());
  }

  SimGroup& group_;
  int rank_;
  const std::vector<int>& hosts_;
  const SimGroup::Entry& entry_;
};

double base_seconds(const SimGroup& group) {
  return group.world().cluster().collective.base_us * 1e-6;
}

/// Runs the programs of one rank.
void serve_rank(SimGroup& group, int rank) {
  const std::vector<int> hosts = group.hosts();
  for (std::uint64_t number = 1;; ++number) {
    const SimGroup::OperationPtr operation = group.next(rank, number);
    if (!operation) return;
    group.world().sleep(base_seconds(group));
    const SimGroup::Entry& entry = operation->entries[static_cast<std::size_t>(rank)];
    try {
      SimExchange exchange(group, rank, hosts, entry);
      run_algorithm(group.row_of(entry.call, entry.whole()), entry.call, exchange);
    } catch (const Error&) {
      return;  // the group is broken, and its ranks throw the error
    }
    group.finish(operation, rank);
  }
}

/// Runs the rounds of all ranks.
class Rounds {
 public:
  explicit Rounds(SimGroup& group) : group_(group), world_(group.world()) {}

  void run() {
    for (std::uint64_t number = 1;; ++number) {
      const SimGroup::OperationPtr operation = group_.next(-1, number);
      if (!operation) return;
      world_.sleep(base_seconds(group_));
      const Tensor& whole = operation->entries[0].whole();  // not kept: the rank's device may end
      const auto element = whole ? static_cast<std::int64_t>(size_of(whole.dtype())) : 1;
      for (const Round& round : rounds(operation->call, whole)) run(round, element);
      group_.finish_all(operation);
    }
  }

 private:
  /// The schedule of the collective; kept, because a training run repeats its collectives.
  const std::vector<Round>& rounds(const Collective& call, const Tensor& whole) {
    const AlgorithmRow& row = group_.row_of(call, whole);
    const auto [entry, fresh] = known_.try_emplace({&row, call.kind, call.root, whole.count()});
    if (fresh) entry->second = schedule_of(row, call, whole.count(), group_.hosts());
    return entry->second;
  }

  void run(const Round& round, std::int64_t element) {
    const double latency = latency_of(round, [this](int from, int to) {
      return step_seconds(world_, group_.place(from), group_.place(to));
    });
    // The last of the rounds' latencies is part of the flows.
    std::vector<sim::JobPtr> under_way;
    double waited = 0;
    const auto wait_until = [&](double seconds) {
      if (seconds > waited) world_.sleep(seconds - waited);
      waited = std::max(waited, seconds);
    };
    std::vector<std::pair<double, const Transfer*>> starts;
    for (const Transfer& one : round.transfers) {
      const double own = world_.latency(group_.place(one.from), group_.place(one.to));
      starts.emplace_back(latency - own, &one);
    }
    std::stable_sort(starts.begin(), starts.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [start, one] : starts) {
      wait_until(start);
      const std::int64_t bytes = one->count * element;
      under_way.push_back(world_.start_flow(group_.place(one->from), group_.place(one->to),
                                            static_cast<double>(bytes)));
      group_.traffic(one->from).sent += bytes;
      group_.traffic(one->to).received += bytes;
    }
    for (const auto& flow : under_way) flow->wait();
  }

  SimGroup& group_;
  sim::World& world_;
  std::map<std::tuple<const AlgorithmRow*, Collective::Kind, int, std::int64_t>, std::vector<Round>>
      known_;
};

}  // namespace

void serve_algorithm(const std::shared_ptr<SimGroup>& group) {
  if (group->algorithm() != Algorithm::automatic)
    if (const auto check = find_algorithm(group->algorithm()).check) check(group->hosts());
  sim::World& world = group->world();
  const std::string actor = fmt::format("{} {}", group->name(), name_of(group->algorithm()));
  if (group->by_messages())
    for (int rank = 0; rank < group->size(); ++rank)
      world.spawn(
          fmt::format("{} of rank {}", actor, rank), group->place(rank),
          [group, rank] { serve_rank(*group, rank); }, true);
  else
    world.spawn(
        actor, group->place(0), [group] { Rounds(*group).run(); }, true);
}

}  // namespace ringside::peer
