// Collectives of small groups: rings message by message.
#include <any>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "peer/comm/sim_rings.h"

namespace ringside::peer {
namespace {

constexpr double for_ever = std::numeric_limits<double>::infinity();
using Kind = Call::Kind;

/// One step of one ring's bytes, or, of a broadcast, which is passed on while it comes in: its head
/// (the bytes may set out), the bytes, its tail (the sender has all).
struct Packet {
  std::uint64_t operation = 0;
  int channel = 0, step = 0;
  int from = 0, to = 0;
  double bytes = 0;
  double posted = 0;
};
enum BroadcastStep { head, body, tail, broadcast_steps };

/// The ranks of a group, each with a stream of its own. A step of a ring takes the step's latency
/// and the bytes' time on the link, but not less than at the pace of the ring's slowest link.
class Streams {
 public:
  explicit Streams(const std::shared_ptr<SimGroup>& group)
      : group_(*group), world_(group->world()), rings_(rings_of(*group)) {
    ready_event_ = world_.make_event();
    inboxes_.resize(static_cast<std::size_t>(rings_.size()));
    for (int round = 0; round + 1 < rings_.size(); ++round)
      rounds_.push_back({rings_.latency_of_round(round), rings_.pace_of_round(round)});
  }

  int size() const { return rings_.size(); }

  void run(int rank) {
    inbox(rank) = world_.make_inbox(rings_.place(rank));
    if (++ready_ == size()) ready_event_->notify_all();
    while (ready_ < size()) ready_event_->wait(for_ever);

    const double base = world_.cluster().collective.base_us * 1e-6;
    Pending pending;
    for (std::uint64_t number = 1;; ++number) {
      const SimGroup::OperationPtr operation = group_.next(rank, number);
      if (!operation) return;
      world_.sleep(base);
      const Call& call = operation->parts[static_cast<std::size_t>(rank)].call;
      begin(*operation, call, rank);
      int left = packets_to(call, rank);
      while (left > 0) {
        const auto first = first_of(pending, number);
        const bool due = first != pending.end() && first->first <= world_.now();
        std::optional<std::any> message;
        if (!due)
          message =
              inbox(rank)->receive(first == pending.end() ? for_ever : first->first - world_.now());
        if (!group_.usable(*operation)) return;
        if (message) {
          const auto& packet = *std::any_cast<Packet>(&*message);
          free_hop(packet);
          pending.emplace(due_time(packet, call), packet);
          continue;
        }
        const Packet packet = first->second;
        pending.erase(first);
        --left;
        pass_on(operation, call, packet);
      }
      // Only who comes after the root knows when the root has sent everything.
      if (call.kind != Kind::broadcast || call.root != rank) group_.finish(operation, rank);
    }
  }

 private:
  using Pending = std::multimap<double, Packet>;  // by the time at which they are there
  /// Between two ranks of a ring one packet at a time is on its way.
  struct Hop {
    std::deque<Packet> waiting;
    bool busy = false;
  };
  struct Round {
    double latency, pace;
  };

  static Rings rings_of(const SimGroup& group) {
    std::vector<sim::Place> places;
    for (int r = 0; r < group.size(); ++r) places.push_back(group.place(r));
    return {group.world(), std::move(places)};
  }
  static int steps(Kind kind, int size) {
    if (kind == Kind::broadcast) return broadcast_steps;
    const bool twice = kind == Kind::all_reduce || kind == Kind::barrier || kind == Kind::split;
    return (twice ? 2 : 1) * (size - 1);
  }
  int channels(Kind kind) const { return kind == Kind::all_to_all ? 1 : rings_.channels(); }
  int packets_to(const Call& call, int rank) const {
    if (call.kind == Kind::broadcast && call.root == rank) return 0;
    return channels(call.kind) * steps(call.kind, size());
  }
  std::unique_ptr<sim::Inbox>& inbox(int rank) { return inboxes_[static_cast<std::size_t>(rank)]; }

  static Pending::iterator first_of(Pending& pending, std::uint64_t operation) {
    auto first = pending.begin();
    while (first != pending.end() && first->second.operation != operation) ++first;
    return first;
  }

  double due_time(const Packet& packet, const Call& call) const {
    const double latency = world_.latency(rings_.place(packet.from), rings_.place(packet.to));
    double step = rings_.step(packet.from, packet.to), pace = 0;
    if (call.kind == Kind::all_to_all) {
      step = rounds_[static_cast<std::size_t>(packet.step)].latency;
      pace = rounds_[static_cast<std::size_t>(packet.step)].pace;
    } else if (call.kind != Kind::broadcast) {
      pace = rings_.pace();
    }
    return std::max(world_.now() + step - latency, packet.posted + step + packet.bytes * pace);
  }

  void begin(const SimGroup::Operation& operation, const Call& call, int rank) {
    if (call.kind == Kind::broadcast && call.root != rank) return;
    for (int channel = 0; channel < channels(call.kind); ++channel)
      for (int step = 0; step < (call.kind == Kind::broadcast ? broadcast_steps : 1); ++step)
        send(operation, call, channel, step, rank);
  }

  void send(const SimGroup::Operation& operation, const Call& call, int channel, int step,
            int rank) {
    Packet packet{.operation = operation.number, .channel = channel, .step = step, .from = rank};
    packet.to =
        call.kind == Kind::all_to_all ? (rank + step + 1) % size() : rings_.next(channel, rank);
    packet.bytes = static_cast<double>(call.bytes) / channels(call.kind);
    if (call.kind != Kind::broadcast) packet.bytes /= size();
    if (call.kind == Kind::broadcast && step != body) packet.bytes = 0;
    Hop& hop = hops_[{packet.from, packet.to, channel}];
    if (packet.bytes > 0 && std::exchange(hop.busy, true))
      hop.waiting.push_back(packet);
    else
      post(packet);
  }

  void post(Packet packet) {
    packet.posted = world_.now();
    world_.post(*inbox(packet.to), rings_.place(packet.from), packet.bytes, packet);
  }

  void free_hop(const Packet& arrived) {
    if (arrived.bytes == 0) return;
    Hop& hop = hops_[{arrived.from, arrived.to, arrived.channel}];
    hop.busy = !hop.waiting.empty();
    if (!hop.busy) return;
    const Packet packet = hop.waiting.front();
    hop.waiting.pop_front();
    post(packet);
  }

  void pass_on(const SimGroup::OperationPtr& operation, const Call& call, const Packet& packet) {
    const int rank = packet.to;
    if (call.kind != Kind::broadcast) {
      if (packet.step + 1 < steps(call.kind, size()))
        send(*operation, call, packet.channel, packet.step + 1, rank);
      return;
    }
    const bool last = rings_.next(packet.channel, rank) == call.root;
    if (packet.step == head) {
      for (const int step : {head, body})
        if (!last) send(*operation, call, packet.channel, step, rank);
      return;
    }
    // Of bytes and tail the second one: this rank has all.
    const auto key = std::tuple(operation->number, packet.channel, rank);
    if (half_done_.insert(key).second) return;
    half_done_.erase(key);
    if (!last) send(*operation, call, packet.channel, tail, rank);
    if (packet.from != call.root) return;
    if (++delivered_[operation->number] < channels(call.kind)) return;
    delivered_.erase(operation->number);
    group_.finish(operation, call.root);
  }

  SimGroup& group_;
  sim::World& world_;
  const Rings rings_;
  std::vector<Round> rounds_;
  std::vector<std::unique_ptr<sim::Inbox>> inboxes_;  // by rank
  std::unique_ptr<sim::Event> ready_event_;
  int ready_ = 0;
  std::map<std::tuple<int, int, int>, Hop> hops_;            // by (from, to, channel)
  std::set<std::tuple<std::uint64_t, int, int>> half_done_;  // broadcast: operation, channel, rank
  std::map<std::uint64_t, int> delivered_;  // broadcast: channels whose bytes have left the root
};

}  // namespace

void serve_messages(const std::shared_ptr<SimGroup>& group) {
  const auto streams = std::make_shared<Streams>(group);
  for (int r = 0; r < group->size(); ++r)
    group->world().spawn(
        fmt::format("{} stream {}", group->name(), r), group->place(r),
        [group, streams, r] { streams->run(r); }, true);
}

}  // namespace ringside::peer
