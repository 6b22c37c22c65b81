// What is under way beside the actors: flows, where those that carry messages arrive, and work.
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

/// Messages of a sender become visible in the order in which it sent them, so one that overtakes
/// another on its way waits.
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
  std::function<void()> arrive{};  // none: no message
  simgrid::s4u::CommPtr comm{};    // once the latency is over
  bool over = false;
  std::vector<BlockerPtr> waiters{};

  void end() {
    over = true;
    if (arrive) arrive();
    for (const BlockerPtr& waiter : std::exchange(waiters, {})) waiter->release();
  }
};
using FlowPtr = std::shared_ptr<Flow>;

/// Flows under way. Held here since SimGrid stops a flow that nobody holds.
class Flows {
 public:
  using ActivityImpl = simgrid::kernel::activity::ActivityImpl;

  void start(const FlowPtr& flow) {
    if (flow->bytes == 0) return flow->end();  // SimGrid might never end it
    flow->comm = simgrid::s4u::Comm::sendto_init(flow->from, flow->to);
    // Detached, or SimGrid warns when it is let go.
    flow->comm->set_payload_size(flow->bytes)->detach();
    flows_.emplace(flow->comm->get_impl(), flow);
  }
  /// Called by SimGrid while it looks at the flow.
  void end(const ActivityImpl* activity) {
    auto node = flows_.extract(activity);
    if (node.empty()) return;
    ended_.push_back(std::move(node.mapped()->comm));
    node.mapped()->end();
  }
  /// Called by actors: SimGrid has done with what ended before they run.
  void sweep() { ended_.clear(); }
  /// Called while SimGrid's state is still there.
  void clear() {
    for (const auto& [activity, flow] : flows_) flow->comm = nullptr;
    flows_.clear();
    ended_.clear();
  }

 private:
  std::unordered_map<const ActivityImpl*, FlowPtr> flows_;
  std::vector<simgrid::s4u::CommPtr> ended_;
};

/// Keeps work that its owner let go of until it has ended: SimGrid would stop it.
class Works {
 public:
  void keep(simgrid::s4u::ExecPtr work) { works_.push_back(std::move(work)); }
  void sweep() {
    if (works_.size() < limit_) return;
    limit_ = std::numeric_limits<std::size_t>::max();  // others run while one tests
    for (simgrid::s4u::ExecPtr& work : std::exchange(works_, {}))
      if (!work->test()) works_.push_back(std::move(work));
    limit_ = 16 + 2 * works_.size();
  }
  void clear() { works_.clear(); }

 private:
  std::vector<simgrid::s4u::ExecPtr> works_;
  std::size_t limit_ = 16;
};

/// What SimGrid's callbacks use. It lives on its own because SimGrid keeps them for ever.
struct State {
  Flows flows{};
  Works works{};
  Waiting waiting{};
  std::string deadlock{};
};

}  // namespace ringside::sim
