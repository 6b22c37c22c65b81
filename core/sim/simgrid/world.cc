#include "core/sim/world.h"

#include <fmt/format.h>
#include <xbt/log.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <exception>
#include <limits>
#include <list>
#include <map>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/resource/Action.hpp>
#include <unordered_map>
#include <utility>
#include <xbt/config.hpp>

#include "core/base/error.h"
#include "core/sim/simgrid/platform.h"

namespace ringside::sim {
namespace {

namespace s4u = simgrid::s4u;
namespace timer = simgrid::kernel::timer;
using simgrid::kernel::activity::ActivityImpl;
using Action = simgrid::kernel::resource::Action;

constexpr double for_ever = std::numeric_limits<double>::infinity();

/// SimGrid's engine, of which a process has one at a time.
class Engine {
 public:
  Engine() : engine_(start()) {}
  ~Engine() {
    if (!over_) run();  // only that ends what SimGrid holds
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  bool over() const { return over_; }
  void run() {
    if (over_) throw Error("a simulated world runs once");
    engine_->run();
    over_ = true;
  }

 private:
  static std::unique_ptr<s4u::Engine> start() {
    if (s4u::Engine::has_instance())
      throw Error("a second simulated world in one process: end the first one before");
    xbt_log_control_set("root.thres:critical ker_engine.app:file:/dev/null");
    // What actors run on is chosen while the engine is made, by the first one.
    std::string arguments[] = {"ringside", "--cfg=contexts/factory:" RINGSIDE_SIMGRID_CONTEXTS,
                               "--cfg=contexts/stack-size:1024"};
    char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), nullptr};
    int argc = 3;
    auto engine = std::make_unique<s4u::Engine>(&argc, argv);
    // Settings hold for the process: SimGrid refuses to hear them twice.
    if (!simgrid::config::is_default("network/model")) return engine;
    for (const char* setting :
         {"network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0",
          // Seconds that are one moment; shares of links and cores that are nothing.
          "surf/precision:1e-10", "maxmin/precision:1e-9"})
      s4u::Engine::set_config(std::string(setting));
    return engine;
  }

  std::unique_ptr<s4u::Engine> engine_;
  bool over_ = false;
};

/// Blocks one actor until release() or the timeout. Shared, because others run while one releases.
class Blocker {
 public:
  /// Called by any actor, or by SimGrid between actors.
  void release() {
    released_ = true;
    semaphore_->release();
  }
  /// False after `timeout_s`, which may be infinite.
  bool block(double timeout_s) {
    if (std::isinf(timeout_s))
      semaphore_->acquire();
    else
      semaphore_->acquire_timeout(timeout_s);
    return released_;
  }

 private:
  s4u::SemaphorePtr semaphore_ = s4u::Semaphore::create(0);
  bool released_ = false;
};
using BlockerPtr = std::shared_ptr<Blocker>;

/// Names of actors that wait without a deadline, and for what.
class Waiting {
 public:
  class Scope {
   public:
    Scope(Waiting& waiting, const char* what) : waiting_(waiting) {
      waiting_.what_[s4u::this_actor::get_pid()] = what;
    }
    ~Scope() { waiting_.what_.erase(s4u::this_actor::get_pid()); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Waiting& waiting_;
  };

  void add(s4u::ActorPtr actor) { names_[actor->get_pid()] = actor->get_name(); }
  void remove(long pid) { names_.erase(pid); }

  std::string text() const {
    constexpr std::size_t shown = 8;
    std::string text;
    std::size_t count = 0;
    for (const auto& [pid, name] : names_) {
      const auto what = what_.find(pid);
      if (what == what_.end()) continue;
      if (++count <= shown)
        text += fmt::format("{}'{}' {}", count > 1 ? ", " : "", name, what->second);
    }
    if (count > shown) text += fmt::format(" and {} more", count - shown);
    return text;
  }

 private:
  std::map<long, std::string> names_;
  std::unordered_map<long, const char*> what_;
};

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
  s4u::Host* from = nullptr;
  s4u::Host* to = nullptr;
  std::uint64_t bytes = 0;
  std::function<void()> arrive{};  // none: no message
  s4u::CommPtr comm{};             // once the latency is over
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
  void start(const FlowPtr& flow) {
    if (flow->bytes == 0) return flow->end();  // SimGrid might never end it
    flow->comm = s4u::Comm::sendto_init(flow->from, flow->to);
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
  std::vector<s4u::CommPtr> ended_;
};

/// Keeps work that its owner let go of until it has ended: SimGrid would stop it.
class Works {
 public:
  void keep(s4u::ExecPtr work) { works_.push_back(std::move(work)); }
  void sweep() {
    if (works_.size() < limit_) return;
    limit_ = std::numeric_limits<std::size_t>::max();  // others run while one tests
    for (s4u::ExecPtr& work : std::exchange(works_, {}))
      if (!work->test()) works_.push_back(std::move(work));
    limit_ = 16 + 2 * works_.size();
  }
  void clear() { works_.clear(); }

 private:
  std::vector<s4u::ExecPtr> works_;
  std::size_t limit_ = 16;
};

/// What SimGrid's callbacks use. It lives on its own because SimGrid keeps them for ever.
struct State {
  Flows flows{};
  Works works{};
  Waiting waiting{};
  std::string deadlock{};
};

struct NoActivity : Activity {
  void wait() override {}
};

class FlowActivity : public Activity {
 public:
  FlowActivity(Waiting& waiting, FlowPtr flow) : waiting_(waiting), flow_(std::move(flow)) {}
  void wait() override {
    if (flow_->over) return;
    const auto blocker = std::make_shared<Blocker>();
    flow_->waiters.push_back(blocker);
    const Waiting::Scope scope(waiting_, "for a flow");
    blocker->block(for_ever);
  }

 private:
  Waiting& waiting_;
  FlowPtr flow_;
};

class ExecActivity : public Activity {
 public:
  ExecActivity(Works& works, s4u::ExecPtr exec) : works_(works), exec_(std::move(exec)) {}
  ~ExecActivity() override {
    if (!over_) works_.keep(std::move(exec_));
  }
  ExecActivity(const ExecActivity&) = delete;
  ExecActivity& operator=(const ExecActivity&) = delete;
  void wait() override {
    exec_->wait();
    over_ = true;
  }

 private:
  Works& works_;
  s4u::ExecPtr exec_;
  bool over_ = false;
};

class SimEvent : public Event {
 public:
  explicit SimEvent(Waiting& waiting) : waiting_(waiting) {}
  void notify_all() override {
    for (const BlockerPtr& waiter : std::exchange(waiters_, {})) waiter->release();
  }
  bool wait(double timeout_s) override {
    if (!(timeout_s > 0)) return false;
    const auto blocker = std::make_shared<Blocker>();
    waiters_.push_back(blocker);
    const Leave leave{waiters_, blocker};
    const Waiting::Scope scope(waiting_, "for an event");
    return blocker->block(timeout_s);
  }

 private:
  /// However the wait ends: SimGrid may end the actor in it.
  struct Leave {
    std::vector<BlockerPtr>& waiters;
    const BlockerPtr& blocker;
    ~Leave() { std::erase(waiters, blocker); }
  };

  Waiting& waiting_;
  std::vector<BlockerPtr> waiters_;
};

class SimInbox : public Inbox {
 public:
  SimInbox(Waiting& waiting, Place place)
      : waiting_(waiting), mailbox_(std::make_shared<Mailbox>(Mailbox{place})) {}

  std::optional<std::any> receive(double timeout_s) override {
    auto& messages = mailbox_->messages;
    if (messages.empty() && timeout_s > 0) {
      const auto blocker = std::make_shared<Blocker>();
      mailbox_->receiver = blocker;
      const Leave leave{*mailbox_};
      const Waiting::Scope scope(waiting_, "for a message");
      blocker->block(timeout_s);
    }
    if (messages.empty()) return std::nullopt;
    std::any message = std::move(messages.front());
    messages.pop_front();
    return message;
  }
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }

 private:
  struct Leave {
    Mailbox& mailbox;
    ~Leave() { mailbox.receiver = nullptr; }
  };

  Waiting& waiting_;
  std::shared_ptr<Mailbox> mailbox_;
};

double checked(double value, const char* what) {
  if (value >= 0 && std::isfinite(value)) return value;
  throw Error("simulated world: {} {} in actor '{}'", value, what, s4u::this_actor::get_name());
}

class SimWorld : public World {
 public:
  explicit SimWorld(const ClusterSpec& cluster) : cluster_(cluster), platform_(cluster_) {
    const std::weak_ptr<State> weak = state_;
    s4u::Engine::on_deadlock_cb([weak] {
      if (const auto state = weak.lock()) state->deadlock = state->waiting.text();
    });
    s4u::Engine::on_simulation_end_cb([weak] {
      if (const auto state = weak.lock()) {
        state->flows.clear();
        state->works.clear();
      }
    });
    s4u::Link::on_communication_state_change_cb(
        [weak](simgrid::kernel::resource::NetworkAction& network, Action::State) {
          const auto state = weak.lock();
          if (!state) return;
          // SimGrid declares the derived class only; Action is its first base.
          auto& action = reinterpret_cast<Action&>(network);
          if (action.get_state() == Action::State::FINISHED)
            state->flows.end(action.get_activity());
        });
  }

  ~SimWorld() override {
    abandoned_ = true;
    if (!engine_.over()) engine_.run();
  }
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  const ClusterSpec& cluster() const override { return cluster_; }
  Shared& shared() override { return shared_; }

  void spawn(const std::string& name, Place place, std::function<void()> body,
             bool service) override {
    const s4u::ActorPtr actor =
        s4u::Actor::create(name, platform_.at(place), [this, body = std::move(body)] {
          const AtEnd at_end{*this, s4u::this_actor::get_pid()};
          try {
            if (!abandoned_) body();
          } catch (const simgrid::ForcefulKillException&) {
            throw;
          } catch (...) {
            if (!error_) error_ = std::current_exception();
          }
        });
    state_->waiting.add(actor);
    if (service) actor->daemonize();
  }

  void run() override {
    engine_.run();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    if (!state_->deadlock.empty())
      throw Error("simulated world at {:.6f} s: actors wait for ever: {}", now(),
                  std::exchange(state_->deadlock, {}));
  }

  double now() const override {
    return (engine_.over() ? end_ : s4u::Engine::get_clock()) - begin_;
  }

  void work(Place place, double seconds) override {
    if (checked(seconds, "seconds of work") > 0) exec(place, seconds)->wait();
  }
  ActivityPtr start_work(Place place, double seconds) override {
    if (checked(seconds, "seconds of work") == 0) return std::make_unique<NoActivity>();
    state_->works.sweep();
    s4u::ExecPtr work = exec(place, seconds);
    work->start();
    return std::make_unique<ExecActivity>(state_->works, std::move(work));
  }
  void sleep(double seconds) override {
    s4u::this_actor::sleep_for(checked(seconds, "seconds of sleep"));
  }
  ActivityPtr start_flow(Place from, Place to, double bytes) override {
    FlowPtr flow = start(from, to, bytes, {});
    if (flow->over) return std::make_unique<NoActivity>();
    return std::make_unique<FlowActivity>(state_->waiting, std::move(flow));
  }
  double latency(Place from, Place to) override {
    platform_.at(from);
    platform_.at(to);
    return sim::latency(cluster_, from, to);
  }

  std::unique_ptr<Event> make_event() override {
    return std::make_unique<SimEvent>(state_->waiting);
  }
  std::unique_ptr<Inbox> make_inbox(Place place) override {
    platform_.at(place);
    return std::make_unique<SimInbox>(state_->waiting, place);
  }
  void post(Inbox& inbox, Place from, double bytes, std::any message) override {
    const std::shared_ptr<Mailbox>& mailbox = static_cast<SimInbox&>(inbox).mailbox();
    const long sender = s4u::this_actor::get_pid();
    auto& line = mailbox->on_the_way[sender];
    line.push_back({std::move(message)});
    start(from, mailbox->place, bytes,
          [mailbox, sender, slot = &line.back()] { mailbox->arrive(sender, *slot); });
  }

 private:
  struct AtEnd {
    SimWorld& world;
    long pid;
    ~AtEnd() {
      world.state_->waiting.remove(pid);
      world.end_ = s4u::Engine::get_clock();
    }
  };

  s4u::ExecPtr exec(Place place, double seconds) {
    return s4u::Exec::init()
        ->set_host(platform_.at(place))
        ->set_flops_amount(seconds * operations_of_second);
  }

  FlowPtr start(Place from, Place to, double bytes, std::function<void()> arrive) {
    checked(bytes, "bytes to send");
    state_->flows.sweep();
    const auto flow =
        std::make_shared<Flow>(Flow{platform_.at(from), platform_.at(to), 0, std::move(arrive)});
    if (platform_.connected(from, to)) flow->bytes = static_cast<std::uint64_t>(std::round(bytes));
    const double latency = sim::latency(cluster_, from, to);
    if (latency > 0)
      timer::Timer::set(s4u::Engine::get_clock() + latency,
                        [state = state_, flow] { state->flows.start(flow); });
    else
      state_->flows.start(flow);
    return flow;
  }

  ClusterSpec cluster_;
  Shared shared_;
  Engine engine_;
  Platform platform_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::exception_ptr error_;
  bool abandoned_ = false;                         // destroyed without a run
  const double begin_ = s4u::Engine::get_clock();  // where the world before this one ended
  double end_ = begin_;  // of the last actor; what is under way then goes on for SimGrid
};

}  // namespace

void require_simgrid() {}

std::unique_ptr<World> make_world(const ClusterSpec& cluster) {
  return std::make_unique<SimWorld>(cluster);
}

}  // namespace ringside::sim
