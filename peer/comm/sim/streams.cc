// Collectives of small groups: every message along the rings is simulated.
#include <algorithm>
#include <any>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "peer/comm/sim/rings.h"

namespace ringside::peer {
namespace {

using Kind = Collective::Kind;

/// The bytes of one step of one ring. A rank passes a broadcast on while the bytes still come in,
/// so a broadcast has three packets on each hop: the head (the receiver may begin to pass on), the
/// body (the bytes) and the tail (the sender has received everything).
struct Packet {
  std::uint64_t operation = 0;
  int channel = 0, step = 0;
  int from = 0, to = 0;
  double bytes = 0;
  double posted = 0;
  /// All in seconds. latency: the latency of the route. step_time: the time of the step, with this
  /// latency but without its bytes. transfer_time: the time that the bytes take on the slowest of
  /// the links that the hops of the rings (or of the all-to-all's round) cross, if all hops send at
  /// once.
  double latency = 0, step_time = 0, transfer_time = 0;
  const TuningRow* row = &tuning_rows().front();
};
enum BroadcastStep { head, body, tail, broadcast_steps };

/// The ranks of a group, each with a stream for each ring. A step takes Packet::step_time and, in
/// addition, the longer of two times: the time that its bytes need on their route, and
/// Packet::transfer_time. An all-reduce over trees moves as flows (see Way), once all streams have
/// come to it.
class Streams {
 public:
  explicit Streams(const std::shared_ptr<SimGroup>& group)
      : group_(*group), world_(group->world()), rings_(*group) {
    ready_event_ = world_.make_event();
    trees_event_ = world_.make_event();
    inboxes_.resize(static_cast<std::size_t>(size() * channels()));
    for (int round = 0; round + 1 < size(); ++round)
      rounds_.push_back({rings_.latency_of_round(round), rings_.seconds_per_byte_of_round(round)});
  }

  int channels() const { return rings_.channels(); }

  /// Runs the stream of one rank in one ring.
  void run(int rank, int channel) {
    const std::unique_ptr<sim::Inbox>& inbox = inbox_of(rank, channel) =
        world_.make_inbox(rings_.place(rank));
    if (++ready_ == size() * channels()) ready_event_->notify_all();
    while (ready_ < size() * channels()) ready_event_->wait(sim::for_ever);

    Pending pending;
    for (std::uint64_t number = 1;; ++number) {
      const SimGroup::OperationPtr operation = group_.next(rank, number);
      if (!operation) return;
      const Collective& call = operation->entries[static_cast<std::size_t>(rank)].call;
      if (goes_over_trees(call)) {
        run_trees(operation);
        continue;
      }
      world_.sleep(rings_.once(call));
      begin(*operation, call, rank, channel);
      for (int left = packets_to(call, rank, channel); left > 0; --left) {
        const std::optional<Packet> packet = receive(*inbox, pending, *operation);
        if (!packet) return;
        pass_on(operation, call, *packet);
      }
      // For the root of a broadcast the rank after it calls finish() in pass_on(), because only
      // that rank knows when the root has sent everything.
      if (call.kind != Kind::broadcast || call.root != rank) finish(operation, rank);
    }
  }

 private:
  using Pending = std::multimap<double, Packet>;  // by arrival time
  /// The connection from one rank to another in one ring.
  struct Hop {
    std::deque<Packet> waiting;
    int under_way = 0;
  };
  struct Round {
    double latency, seconds_per_byte;
  };

  int size() const { return rings_.size(); }
  std::unique_ptr<sim::Inbox>& inbox_of(int rank, int channel) {
    return inboxes_[static_cast<std::size_t>(rank * channels() + channel)];
  }
  int steps(Kind kind) const {
    if (kind == Kind::broadcast) return broadcast_steps;
    return (goes_round_twice(kind) ? 2 : 1) * (size() - 1);
  }
  /// Whether the streams of ring `channel` have nothing to do. An all-to-all does not follow the
  /// rings: the streams of ring 0 do all its work.
  bool idle(Kind kind, int channel) const { return kind == Kind::all_to_all && channel > 0; }
  int packets_to(const Collective& call, int rank, int channel) const {
    if (idle(call.kind, channel) || (call.kind == Kind::broadcast && call.root == rank)) return 0;
    return steps(call.kind);
  }

  bool goes_over_trees(const Collective& call) const {
    return goes_round_twice(call.kind) && rings_.way(call).row->shape == NcclTopology::tree;
  }

  /// Blocks until the operation is over. The last stream that comes runs it.
  void run_trees(const SimGroup::OperationPtr& operation) {
    if (++waiting_ < size() * channels()) {
      for (const int turn = trees_; trees_ == turn;) trees_event_->wait(sim::for_ever);
      return;
    }
    const Way& way = rings_.way(operation->call);
    world_.sleep(rings_.once(operation->call));
    move_flows(world_, way.latency, rings_.flows(), way.over_hop * rings_.bytes(operation->call));
    waiting_ = 0;
    ++trees_;
    group_.finish_all(operation);
    trees_event_->notify_all();
  }

  /// Returns the next packet of the operation; none if the operation is no longer usable.
  std::optional<Packet> receive(sim::Inbox& inbox, Pending& pending,
                                const SimGroup::Operation& operation) {
    for (;;) {
      auto first = pending.begin();  // a fast rank may be in the next operation already
      while (first != pending.end() && first->second.operation != operation.number) ++first;
      const double wait = first == pending.end() ? sim::for_ever : first->first - world_.now();
      const std::optional<std::any> message = wait > 0 ? inbox.receive(wait) : std::nullopt;
      if (!group_.usable(operation)) return std::nullopt;
      if (!message) {
        const Packet packet = first->second;
        pending.erase(first);
        return packet;
      }
      const auto& packet = *std::any_cast<Packet>(&*message);
      free_hop(packet);
      pending.emplace(std::max(world_.now() + packet.step_time - packet.latency,
                               packet.posted + packet.step_time + packet.transfer_time),
                      packet);
    }
  }

  void begin(const SimGroup::Operation& operation, const Collective& call, int rank, int channel) {
    if (idle(call.kind, channel) || (call.kind == Kind::broadcast && call.root != rank)) return;
    const int first = call.kind == Kind::broadcast ? broadcast_steps : 1;
    for (int step = 0; step < first; ++step) send(operation, call, channel, step, rank);
  }

  void send(const SimGroup::Operation& operation, const Collective& call, int channel, int step,
            int rank) {
    const bool all_to_all = call.kind == Kind::all_to_all;
    Packet packet{.operation = operation.number, .channel = channel, .step = step, .from = rank};
    packet.to = all_to_all ? (rank + step + 1) % size() : rings_.next(channel, rank);
    packet.latency = world_.latency(rings_.place(packet.from), rings_.place(packet.to));
    const double whole = rings_.bytes(call);
    if (all_to_all) {
      const Round& round = rounds_[static_cast<std::size_t>(step)];
      packet.bytes = whole / size();
      packet.step_time = round.latency;
      packet.transfer_time = packet.bytes * round.seconds_per_byte;
    } else {
      const bool broadcast = call.kind == Kind::broadcast;
      packet.bytes = whole / channels() / (broadcast ? 1 : size());
      if (broadcast && step != body) packet.bytes = 0;
      packet.row = broadcast ? &tuning_rows().front() : rings_.way(call).row;
      packet.step_time = rings_.step(packet.from, packet.to, *packet.row);
      packet.transfer_time = packet.bytes * (broadcast ? seconds_per_byte_of_chain(call.root)
                                                       : rings_.seconds_per_byte());
    }
    if (packet.bytes > 0) {
      Hop& hop = hops_[{packet.from, packet.to, channel}];
      if (hop.under_way >= most_under_way(packet)) {
        hop.waiting.push_back(packet);
        return;
      }
      ++hop.under_way;
    }
    post(packet);
  }

  double seconds_per_byte_of_chain(int root) {
    const auto [entry, fresh] = chains_.try_emplace(root);
    if (fresh) entry->second = rings_.seconds_per_byte_of_chain(root);
    return entry->second;
  }

  /// The most packets that may be on their way between two ranks at a time. At full rate a packet
  /// is on its way for packet.latency + packet.transfer_time seconds, and the next packet starts
  /// `between` seconds after it. Further packets wait; otherwise the ring would take more than its
  /// share of the links.
  int most_under_way(const Packet& packet) const {
    const double between = rings_.fastest_step(*packet.row) + packet.transfer_time;
    return between > 0
               ? static_cast<int>(std::ceil((packet.latency + packet.transfer_time) / between))
               : 1;
  }

  void post(Packet packet) {
    packet.posted = world_.now();
    world_.post(*inbox_of(packet.to, packet.channel), rings_.place(packet.from), packet.bytes,
                packet);
  }

  void free_hop(const Packet& arrived) {
    if (arrived.bytes == 0) return;
    Hop& hop = hops_[{arrived.from, arrived.to, arrived.channel}];
    if (hop.waiting.empty()) {
      --hop.under_way;
      return;
    }
    const Packet packet = hop.waiting.front();
    hop.waiting.pop_front();
    post(packet);
  }

  void pass_on(const SimGroup::OperationPtr& operation, const Collective& call,
               const Packet& packet) {
    const int rank = packet.to, channel = packet.channel;
    if (call.kind != Kind::broadcast) {
      if (packet.step + 1 < steps(call.kind))
        send(*operation, call, channel, packet.step + 1, rank);
      return;
    }
    const bool last = rings_.next(channel, rank) == call.root;
    if (packet.step == head) {
      for (const int step : {head, body})
        if (!last) send(*operation, call, channel, step, rank);
      return;
    }
    // This rank has everything once both the body and the tail have arrived.
    const auto key = std::tuple(operation->number, channel, rank);
    if (half_done_.insert(key).second) return;
    half_done_.erase(key);
    if (!last) send(*operation, call, channel, tail, rank);
    if (packet.from == call.root) finish(operation, call.root);
  }

  /// Counts one more stream of the rank as done. After the last one the rank has finished.
  void finish(const SimGroup::OperationPtr& operation, int rank) {
    const std::pair<std::uint64_t, int> key{operation->number, rank};
    if (++done_[key] < channels()) return;
    done_.erase(key);
    group_.finish(operation, rank);
  }

  SimGroup& group_;
  sim::World& world_;
  const Rings rings_;
  std::vector<Round> rounds_;     // of all-to-alls
  std::map<int, double> chains_;  // seconds per byte of the broadcasts from each root
  std::vector<std::unique_ptr<sim::Inbox>> inboxes_;
  std::unique_ptr<sim::Event> ready_event_;
  int ready_ = 0;
  std::unique_ptr<sim::Event> trees_event_;
  int waiting_ = 0, trees_ = 0;  // streams that wait for others, and operations over trees so far
  std::map<std::tuple<int, int, int>, Hop> hops_;            // by (from, to, channel)
  std::set<std::tuple<std::uint64_t, int, int>> half_done_;  // broadcasts: operation, channel, rank
  std::map<std::pair<std::uint64_t, int>, int> done_;        // streams, by operation and rank
};

}  // namespace

void serve_messages(const std::shared_ptr<SimGroup>& group) {
  const auto streams = std::make_shared<Streams>(group);
  for (int rank = 0; rank < group->size(); ++rank)
    for (int channel = 0; channel < streams->channels(); ++channel)
      group->world().spawn(
          fmt::format("{} stream {} of rank {}", group->name(), channel, rank), group->place(rank),
          [group, streams, rank, channel] { streams->run(rank, channel); }, true);
}

}  // namespace ringside::peer
