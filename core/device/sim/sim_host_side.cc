#include "core/device/sim/sim_host_side.h"

#include <cstring>
#include <exception>
#include <utility>

#include "core/device/host_lanes.h"

namespace ringside::sim {
namespace {

class ActorWaits final : public LaneWaits {
 public:
  explicit ActorWaits(World& world) : world_(world), changed_(world.make_event()) {}

  void until(const std::function<bool()>& over) override {
    while (!over()) changed_->wait(for_ever);
  }
  void change(const std::function<void()>& what) override {
    what();
    changed_->notify_all();
  }
  double now() const override { return world_.now(); }

 private:
  World& world_;
  std::unique_ptr<Event> changed_;
};

void copy_values(const Tensor& from, const Tensor& to) {
  const auto* values = from.data<std::uint8_t>();
  if (values) std::memcpy(to.data<std::uint8_t>(), values, from.bytes());
}

/// If an exception ends the rank, its lanes may run on until the world ends. So they own what they
/// use: `state_`, and tensors of the host alone. Values are copied from and to the device's tensors
/// by the rank itself.
class SimHostSide final : public HostSide {
 public:
  SimHostSide(SimDevice& device, std::unique_ptr<SimDevice> host)
      : device_(device),
        state_(std::make_shared<State>(
            State{std::move(host), HostLanes(std::make_unique<ActorWaits>(device.world()))})) {
    state_->host->use_all_cores();
    const Place place = state_->host->place();
    for (const auto lane : {HostLanes::to_host, HostLanes::compute, HostLanes::to_device})
      device.world().spawn(
          "host side", place, [state = state_, lane] { state->lanes.serve(lane); },
          /*service=*/true);
  }
  ~SimHostSide() override {
    // While an exception ends the rank, the world must not be called: it may be ending the actor.
    if (std::uncaught_exceptions() > exceptions_)
      state_->lanes.abandon();
    else
      state_->lanes.end();
  }
  SimHostSide(const SimHostSide&) = delete;
  SimHostSide& operator=(const SimHostSide&) = delete;

  Device& device() override { return *state_->host; }

  HostTaskPtr fetch(const Tensor& from, const Tensor& to) override {
    device_.catch_up();
    copy_values(from, to);
    return task(HostLanes::to_host, flow(device_.place(), state_->host->place(), from.bytes()), {});
  }

  HostTaskPtr run(std::function<void()> work, HostTaskPtr after) override {
    device_.catch_up();
    return task(
        HostLanes::compute,
        [state = state_.get(), work = std::move(work)] {
          work();
          state->host->catch_up();
        },
        after);
  }

  HostTaskPtr store(const Tensor& from, const Tensor& to, HostTaskPtr after) override {
    device_.catch_up();
    return task(HostLanes::to_device, flow(state_->host->place(), device_.place(), from.bytes()),
                after, [from, to] { copy_values(from, to); });
  }

  double busy_s() const override { return state_->lanes.busy_s(); }

 private:
  struct State {
    std::unique_ptr<SimDevice> host;
    HostLanes lanes;
  };

  /// Makes the device catch up before it waits.
  class CaughtUp final : public HostTask {
   public:
    CaughtUp(SimDevice& device, HostTaskPtr task) : device_(device), task_(std::move(task)) {}
    void wait() override {
      device_.catch_up();
      task_->wait();
    }
    Span span() const override { return task_->span(); }
    const HostTaskPtr& task() const { return task_; }

   private:
    SimDevice& device_;
    HostTaskPtr task_;
  };

  std::function<void()> flow(Place from, Place to, std::size_t bytes) const {
    return [&world = device_.world(), from, to, bytes] {
      world.start_flow(from, to, static_cast<double>(bytes))->wait();
    };
  }

  HostTaskPtr task(HostLanes::Lane lane, std::function<void()> work, const HostTaskPtr& after,
                   std::function<void()> arrive = {}) {
    const HostTaskPtr before = after ? static_cast<const CaughtUp&>(*after).task() : nullptr;
    return std::make_shared<CaughtUp>(
        device_, std::make_shared<LaneTask>(
                     state_->lanes,
                     state_->lanes.submit(lane, std::move(work), LaneTask::request_of(before)),
                     std::move(arrive)));
  }

  SimDevice& device_;
  std::shared_ptr<State> state_;
  const int exceptions_ = std::uncaught_exceptions();
};

}  // namespace

std::unique_ptr<HostSide> make_sim_host_side(SimDevice& device, std::unique_ptr<SimDevice> host) {
  return std::make_unique<SimHostSide>(device, std::move(host));
}

}  // namespace ringside::sim
