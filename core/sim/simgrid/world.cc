#include "core/sim/world.h"

#include <fmt/format.h>
#include <xbt/log.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <exception>
#include <list>
#include <map>
#include <simgrid/kernel/resource/Action.hpp>
#include <unordered_map>
#include <utility>
#include <xbt/config.hpp>

#include "core/base/error.h"
#include "core/sim/simgrid/platform.h"

namespace ringside::sim {
namespace {

namespace s4u = simgrid::s4u;
using simgrid::kernel::activity::ActivityImpl;
using Action = simgrid::kernel::resource::Action;

/// SimGrid's engine, of which a process has one at a time.
class Engine {
 public:
  Engine() : engine_(start()) {}
  s4u::Engine* operator->() { return engine_.get(); }

 private:
  static std::unique_ptr<s4u::Engine> start() {
    if (s4u::Engine::has_instance())
      throw Error("a second simulated world in one process: end the first one before");
    xbt_log_control_set("root.thres:critical ker_engine.app:file:/dev/null");
    auto engine = std::make_unique<s4u::Engine>("ringside");
    // Settings hold for the process: SimGrid refuses to hear them twice.
    if (!simgrid::config::is_default("network/model")) return engine;
    for (const char* setting :
         {"network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0",
          "contexts/factory:" RINGSIDE_SIMGRID_CONTEXTS, "contexts/stack-size:1024",
          // Seconds that are one moment; shares of links and cores that are nothing.
          "surf/precision:1e-10", "maxmin/precision:1e-9"})
      s4u::Engine::set_config(std::string(setting));
    return engine;
  }

  std::unique_ptr<s4u::Engine> engine_;
};

/// Blocks one actor until release() or the timeout.
class Blocker {
 public:
  /// May be called by any actor, and by SimGrid between actors.
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
    if (receiver && !messages.empty()) std::exchange(receiver, nullptr)->release();
  }

  Place place;
  std::unordered_map<long, std::list<Slot>> on_the_way{};  // by sender
  std::deque<std::any> messages{};
  Blocker* receiver = nullptr;
};

struct Flow {
  s4u::CommPtr comm{};
  std::shared_ptr<Mailbox> mailbox{};  // none: no message
  long sender = 0;
  Mailbox::Slot* slot = nullptr;
};

/// What goes on beside the actors. It lives on its own because SimGrid keeps callbacks for ever.
struct State {
  /// Flows under way, kept here since SimGrid stops one that nobody holds.
  std::unordered_map<const ActivityImpl*, Flow> flows{};
  std::vector<s4u::CommPtr> ended{};  // to be let go outside of SimGrid's own work
  Waiting waiting{};
  std::string deadlock{};

  void end_flow(const ActivityImpl* activity) {
    auto node = flows.extract(activity);
    if (node.empty()) return;
    Flow& flow = node.mapped();
    ended.push_back(std::move(flow.comm));
    if (flow.mailbox) flow.mailbox->arrive(flow.sender, *flow.slot);
  }
};

struct NoActivity : Activity {
  void wait() override {}
};

class CommActivity : public Activity {
 public:
  CommActivity(State& state, s4u::CommPtr comm) : state_(state), comm_(std::move(comm)) {}
  void wait() override {
    const Waiting::Scope scope(state_.waiting, "for a flow");
    comm_->wait();
  }

 private:
  State& state_;
  s4u::CommPtr comm_;
};

/// Keeps work that its owner let go of until it has ended: SimGrid would stop it.
class Works {
 public:
  void keep(s4u::ExecPtr work) { works_.push_back(std::move(work)); }
  void sweep() {
    if (works_.size() < limit_) return;
    std::erase_if(works_, [](const s4u::ExecPtr& work) { return work->test(); });
    limit_ = 16 + 2 * works_.size();
  }

 private:
  std::vector<s4u::ExecPtr> works_;
  std::size_t limit_ = 16;
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
    for (Blocker* waiter : std::exchange(waiters_, {})) waiter->release();
  }
  bool wait(double timeout_s) override {
    if (!(timeout_s > 0)) return false;
    Blocker blocker;
    waiters_.push_back(&blocker);
    const Leave leave{waiters_, &blocker};
    const Waiting::Scope scope(waiting_, "for an event");
    return blocker.block(timeout_s);
  }

 private:
  /// However the wait ends: SimGrid may end the actor in it.
  struct Leave {
    std::vector<Blocker*>& waiters;
    Blocker* blocker;
    ~Leave() { std::erase(waiters, blocker); }
  };

  Waiting& waiting_;
  std::vector<Blocker*> waiters_;
};

class SimInbox : public Inbox {
 public:
  SimInbox(Waiting& waiting, Place place)
      : waiting_(waiting), mailbox_(std::make_shared<Mailbox>(Mailbox{place})) {}

  std::optional<std::any> receive(double timeout_s) override {
    auto& messages = mailbox_->messages;
    if (messages.empty() && timeout_s > 0) {
      Blocker blocker;
      mailbox_->receiver = &blocker;
      const Leave leave{*mailbox_};
      const Waiting::Scope scope(waiting_, "for a message");
      blocker.block(timeout_s);
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
    s4u::Link::on_communication_state_change_cb(
        [weak](simgrid::kernel::resource::NetworkAction& network, Action::State) {
          const auto state = weak.lock();
          if (!state) return;
          // SimGrid declares the derived class only; Action is its first base.
          auto& action = reinterpret_cast<Action&>(network);
          if (action.get_state() == Action::State::FINISHED) state->end_flow(action.get_activity());
        });
  }

  const ClusterSpec& cluster() const override { return cluster_; }
  Shared& shared() override { return shared_; }

  void spawn(const std::string& name, Place place, std::function<void()> body,
             bool service) override {
    const s4u::ActorPtr actor =
        s4u::Actor::create(name, platform_.at(place), [this, body = std::move(body)] {
          const long pid = s4u::this_actor::get_pid();
          try {
            body();
          } catch (const simgrid::ForcefulKillException&) {
            state_->waiting.remove(pid);
            throw;
          } catch (...) {
            if (!error_) error_ = std::current_exception();
          }
          state_->waiting.remove(pid);
        });
    state_->waiting.add(actor);
    if (service) actor->daemonize();
  }

  void run() override {
    engine_->run();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    if (!state_->deadlock.empty())
      throw Error("simulated world at {:.6f} s: actors wait for ever: {}", now(),
                  std::exchange(state_->deadlock, {}));
  }

  double now() const override { return s4u::Engine::get_clock() - begin_; }

  void work(Place place, double seconds) override {
    if (checked(seconds, "seconds of work") > 0) exec(place, seconds)->wait();
  }
  ActivityPtr start_work(Place place, double seconds) override {
    if (checked(seconds, "seconds of work") == 0) return std::make_unique<NoActivity>();
    works_.sweep();
    s4u::ExecPtr work = exec(place, seconds);
    work->start();
    return std::make_unique<ExecActivity>(works_, std::move(work));
  }
  void sleep(double seconds) override {
    s4u::this_actor::sleep_for(checked(seconds, "seconds of sleep"));
  }
  ActivityPtr start_flow(Place from, Place to, double bytes) override {
    s4u::CommPtr comm = start(from, to, bytes, Flow{});
    if (!comm) return std::make_unique<NoActivity>();
    return std::make_unique<CommActivity>(*state_, std::move(comm));
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
    Mailbox::Slot& slot = line.back();
    if (!start(from, mailbox->place, bytes, {{}, mailbox, sender, &slot}))
      mailbox->arrive(sender, slot);
  }

 private:
  s4u::ExecPtr exec(Place place, double seconds) {
    return s4u::Exec::init()
        ->set_host(platform_.at(place))
        ->set_flops_amount(seconds * operations_of_second);
  }

  /// Null if there is nothing to wait for.
  s4u::CommPtr start(Place from, Place to, double bytes, Flow flow) {
    state_->ended.clear();
    checked(bytes, "bytes to send");
    s4u::Host* const source = platform_.at(from);
    s4u::Host* const destination = platform_.at(to);
    if (!platform_.connected(from, to)) return nullptr;
    const auto units = std::max(std::round(bytes * units_of_byte), 1.0);
    s4u::CommPtr comm =
        s4u::Comm::sendto_async(source, destination, static_cast<std::uint64_t>(units));
    flow.comm = comm;
    state_->flows.emplace(comm->get_impl(), std::move(flow));
    return comm;
  }

  ClusterSpec cluster_;
  Shared shared_;
  Engine engine_;
  Platform platform_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  Works works_;
  std::exception_ptr error_;
  const double begin_ = s4u::Engine::get_clock();  // where the world before this one ended
};

}  // namespace

void require_simgrid() {}

std::unique_ptr<World> make_world(const ClusterSpec& cluster) {
  return std::make_unique<SimWorld>(cluster);
}

}  // namespace ringside::sim
