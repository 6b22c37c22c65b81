#include <cxxabi.h>
#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/resource/Action.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/sim/simgrid/engine.h"
#include "core/sim/simgrid/flow.h"
#include "core/sim/simgrid/platform.h"
#include "core/sim/simgrid/waiting.h"
#include "core/sim/simgrid_module.h"

namespace ringside::sim {
namespace {

/// All actors run on one thread and so share what the C++ runtime knows about exceptions that are
/// being thrown or handled. Wherever an actor may let others run, also in a destructor or a
/// handler, an object of this class saves the actor's state; its destructor restores that state.
class ExceptionState {
 public:
  ExceptionState() : own_(std::exchange(of_thread(), {})) {}
  ~ExceptionState() {
    State& now = of_thread();
    // SimGrid ends a waiting service by an exception. If such an exception is leaving this scope,
    // the actor has one more uncaught exception than it had before.
    now = {own_.caught, own_.uncaught + now.uncaught};
  }
  ExceptionState(const ExceptionState&) = delete;
  ExceptionState& operator=(const ExceptionState&) = delete;

 private:
  struct State {  // the layout of the Itanium C++ ABI
    void* caught = nullptr;
    unsigned uncaught = 0;
  };
  static State& of_thread() { return *reinterpret_cast<State*>(abi::__cxa_get_globals()); }

  State own_;
};

namespace s4u = simgrid::s4u;
namespace timer = simgrid::kernel::timer;
using Action = simgrid::kernel::resource::Action;

struct NoJob : Job {
  void wait() override {}
};

class FlowJob : public Job {
 public:
  FlowJob(Waiting& waiting, FlowPtr flow) : waiting_(waiting), flow_(std::move(flow)) {}
  void wait() override {
    if (flow_->over) return;
    const ExceptionState own;
    const auto blocker = std::make_shared<Blocker>();
    flow_->waiters.push_back(blocker);
    const Waiting::Scope scope(waiting_, "for a flow");
    blocker->block(for_ever);
  }

 private:
  Waiting& waiting_;
  FlowPtr flow_;
};

class ExecJob : public Job {
 public:
  ExecJob(Works& works, s4u::ExecPtr exec) : works_(works), exec_(std::move(exec)) {}
  ~ExecJob() override {
    if (!over_) works_.keep(std::move(exec_));
  }
  ExecJob(const ExecJob&) = delete;
  ExecJob& operator=(const ExecJob&) = delete;
  void wait() override {
    const ExceptionState own;
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
    const ExceptionState own;
    for (const BlockerPtr& waiter : std::exchange(waiters_, {})) waiter->release();
  }
  bool wait(double timeout_s) override {
    if (!(timeout_s > 0)) return false;
    const ExceptionState own;
    const auto blocker = std::make_shared<Blocker>();
    waiters_.push_back(blocker);
    const Leave leave{waiters_, blocker};
    const Waiting::Scope scope(waiting_, "for an event");
    return blocker->block(timeout_s);
  }

 private:
  /// Removes the waiter however the wait ends: SimGrid may also end the actor during the wait.
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
      const ExceptionState own;
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
  throw Error(
      "simulated world: actor '{}' asked for {} {}; the number must be finite and at least 0",
      s4u::this_actor::get_name(), value, what);
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
          // SimGrid's headers declare NetworkAction without defining it. Its first base is Action.
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
    const ExceptionState own;
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

  void work(Place place, double seconds, std::int64_t cores, double memory) override {
    const ExceptionState own;
    checked(seconds, "seconds of work");
    s4u::Host* const shared = platform_.memory(place.machine);
    if (!shared) memory = 0;
    if (seconds > memory) exec(place, seconds - memory, cores)->wait();
    if (!(checked(memory, "seconds of work in memory") > 0)) return;
    const s4u::ExecPtr in_memory =
        s4u::Exec::init()->set_host(shared)->set_flops_amount(memory * operations_of_second);
    in_memory->start();
    exec(place, memory, cores)->wait();
    in_memory->wait();
  }
  JobPtr start_work(Place place, double seconds) override {
    if (checked(seconds, "seconds of work") == 0) return std::make_unique<NoJob>();
    const ExceptionState own;
    state_->works.sweep();
    s4u::ExecPtr work = exec(place, seconds);
    work->start();
    return std::make_unique<ExecJob>(state_->works, std::move(work));
  }
  void sleep(double seconds) override {
    const ExceptionState own;
    s4u::this_actor::sleep_for(checked(seconds, "seconds of sleep"));
  }
  JobPtr start_flow(Place from, Place to, double bytes) override {
    FlowPtr flow = start(from, to, bytes, 0, {});
    if (flow->over) return std::make_unique<NoJob>();
    return std::make_unique<FlowJob>(state_->waiting, std::move(flow));
  }
  JobPtr start_storage(int machine, double bytes) override {
    s4u::Host* const storage = platform_.storage(machine);
    if (!storage)
      throw Error("cluster '{}': storage.gbs is not known: nothing can be written", cluster_.name);
    FlowPtr flow = start(platform_.at({machine, -1}), storage, bytes);
    if (flow->over) return std::make_unique<NoJob>();
    return std::make_unique<FlowJob>(state_->waiting, std::move(flow));
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
  void post(Inbox& inbox, Place from, double bytes, std::any message, double head_start) override {
    const std::shared_ptr<Mailbox>& mailbox = static_cast<SimInbox&>(inbox).mailbox();
    const long sender = s4u::this_actor::get_pid();
    auto& line = mailbox->on_the_way[sender];
    line.push_back({std::move(message)});
    start(from, mailbox->place, bytes, checked(head_start, "seconds of a head start"),
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

  s4u::ExecPtr exec(Place place, double seconds, std::int64_t cores = 1) {
    const double operations_per_s = static_cast<double>(cores) * operations_of_second;
    return s4u::Exec::init()
        ->set_host(platform_.at(place))
        ->set_flops_amount(seconds * operations_per_s)
        ->set_bound(operations_per_s);
  }

  FlowPtr start(Place from, Place to, double bytes, double head_start,
                std::function<void()> arrive) {
    checked(bytes, "bytes to send");
    const ExceptionState own;
    state_->flows.sweep();
    const auto flow =
        std::make_shared<Flow>(Flow{platform_.at(from), platform_.at(to), 0, std::move(arrive)});
    if (platform_.connected(from, to)) flow->bytes = static_cast<std::uint64_t>(std::round(bytes));
    const double latency = sim::latency(cluster_, from, to) - head_start;
    if (latency > 0)
      timer::Timer::set(s4u::Engine::get_clock() + latency,
                        [state = state_, flow] { state->flows.start(flow); });
    else
      state_->flows.start(flow);
    return flow;
  }

  /// A flow without latency.
  FlowPtr start(s4u::Host* from, s4u::Host* to, double bytes) {
    checked(bytes, "bytes to write");
    const ExceptionState own;
    state_->flows.sweep();
    const auto flow =
        std::make_shared<Flow>(Flow{from, to, static_cast<std::uint64_t>(std::round(bytes)), {}});
    state_->flows.start(flow);
    return flow;
  }

  ClusterSpec cluster_;
  Shared shared_;
  Engine engine_;
  Platform platform_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::exception_ptr error_;
  bool abandoned_ = false;  // set by the destructor: bodies no longer start
  /// Not always 0: SimGrid's clock continues from the previous world.
  const double begin_ = s4u::Engine::get_clock();
  double end_ = begin_;  // when the last actor ended; flows may go on after that
};

}  // namespace

}  // namespace ringside::sim

extern "C" void ringside_module(ringside::ModuleExports* exports) {
  using namespace ringside::sim;
  static const SimgridModule functions{
      .make_world = [](const ClusterSpec& cluster) -> std::unique_ptr<World> {
        require_bandwidths(cluster);
        return std::make_unique<SimWorld>(cluster);
      }};
  exports->functions = &functions;
  exports->stamp = ringside::module_stamp;
}
