// Activities of a world other than its actors: flows, the mailboxes where their messages arrive,
// and work.
#pragma once

#include <any>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <simgrid/s4u.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/sim/simgrid/waiting.h"
#include "core/sim/world.h"

namespace ringside::sim {

/// Makes the messages of a sender visible in the order in which it sent them: a message that
/// overtakes another one waits for it.
struct Mailbox {
  struct Slot {
    std::any message;
    bool arrived = false;
  };

  void arrive(long sender, Slot& slot) {
    slot.arrived = true;
    auto& line = on_the_way[sender];
    while (!line.empty() && line.front().arrived) {
      messages.push_back(std::move(line.front().message));
      line.pop_front();
    }
    if (line.empty()) on_the_way.erase(sender);
    if (receiver && !messages.empty()) {
      const BlockerPtr woken = std::exchange(receiver, nullptr);
      woken->release();
    }
  }

  Place place;
  std::unordered_map<long, std::list<Slot>> on_the_way{};  // by sender
  std::deque<std::any> messages{};
  BlockerPtr receiver{};
};

struct Flow {
  simgrid::s4u::Host* from = nullptr;
  simgrid::s4u::Host* to = nullptr;
  std::uint64_t bytes = 0;
  std::function<void()> arrive{};  // empty for a flow without a message
  simgrid::s4u::CommPtr comm{};    // set once the latency is over
  bool over = false;
  std::vector<BlockerPtr> waiters{};

  void end() {
    over = true;
    if (arrive) arrive();
    for (const BlockerPtr& waiter : std::exchange(waiters, {})) waiter->release();
  }
};
using FlowPtr = std::shared_ptr<Flow>;

/// All flows under way. They are held here because SimGrid stops a flow without a holder.
class Flows {
 public:
  using ActivityImpl = simgrid::kernel::activity::ActivityImpl;

  void start(const FlowPtr& flow) {
    if (flow->bytes == 0) return flow->end();  // SimGrid may never end a flow of 0 bytes
    flow->comm = simgrid::s4u::Comm::sendto_init(flow->from, flow->to);
    // If the flow were not detached, SimGrid would warn when it is released.
    flow->comm->set_payload_size(flow->bytes)->detach();
    flows_.emplace(flow->comm->get_impl(), flow);
  }
  /// SimGrid calls this while it still uses the flow, so the flow is released later, in sweep().
  void end(const ActivityImpl* activity) {
    auto node = flows_.extract(activity);
    if (node.empty()) return;
    ended_.push_back(std::move(node.mapped()->comm));
    node.mapped()->end();
  }
  /// Actors call this. When actors run, SimGrid no longer uses flows that have ended.
  void sweep() { ended_.clear(); }
  /// Must be called while SimGrid's state still exists.
  void clear() {
    for (const auto& [activity, flow] : flows_) flow->comm = nullptr;
    flows_.clear();
    ended_.clear();
  }

 private:
  std::unordered_map<const ActivityImpl*, FlowPtr> flows_;
  std::vector<simgrid::s4u::CommPtr> ended_;
};

/// When the owner of work lets go of it, this object holds the work until the work has ended;
/// SimGrid would stop work without a holder.
class Works {
 public:
  void keep(simgrid::s4u::ExecPtr work) { works_.push_back(std::move(work)); }
  void sweep() {
    if (works_.size() < limit_) return;
    // Other actors run during test(). This limit makes their calls of sweep() return at once.
    limit_ = std::numeric_limits<std::size_t>::max();
    for (simgrid::s4u::ExecPtr& work : std::exchange(works_, {}))
      if (!work->test()) works_.push_back(std::move(work));
    limit_ = 16 + 2 * works_.size();
  }
  void clear() { works_.clear(); }

 private:
  std::vector<simgrid::s4u::ExecPtr> works_;
  std::size_t limit_ = 16;
};

/// The state that SimGrid's callbacks use. It is separate from the world because SimGrid never
/// releases the callbacks.
struct State {
  Flows flows{};
  Works works{};
  Waiting waiting{};
  std::string deadlock{};
};

}  // namespace ringside::sim
