#include "core/device/sim/sim_storage.h"

#include <utility>

namespace ringside::sim {
namespace {

/// A write under way, which an actor of its own waits for.
struct Write {
  std::unique_ptr<Event> ended;
  double seconds = 0;
  bool over = false;
};

class SimStorage final : public VirtualStorage {
 public:
  explicit SimStorage(SimDevice& device) : device_(device) {}

  void copy(Device& from, double bytes) override {
    device_.catch_up();
    World& world = device_.world();
    const Place place = sim_device(from).place(), host{place.machine, -1};
    const ClusterSpec& cluster = world.cluster();
    if (place == host && cluster.device.kind != DeviceKind::cpu)
      world.work(host, 2 * bytes / (cluster.host.bandwidth_gbs * giga));  // read and written
    else
      world.start_flow(place, cluster.device.kind == DeviceKind::cpu ? place : host, bytes)->wait();
  }

  void write(double bytes) override {
    device_.catch_up();
    World& world = device_.world();
    const int machine = device_.place().machine;
    write_ = std::make_shared<Write>();
    write_->ended = world.make_event();
    const auto body = [write = write_, &world, machine, bytes] {
      const double begin = world.now();
      world.start_storage(machine, bytes)->wait();
      write->seconds = world.now() - begin;
      write->over = true;
      write->ended->notify_all();
    };
    world.spawn("checkpoint", {machine, -1}, body, /*service=*/true);
  }

  double wait() override {
    if (!write_) return 0;
    device_.catch_up();
    while (!write_->over) write_->ended->wait(for_ever);
    return std::exchange(write_, nullptr)->seconds;
  }

 private:
  static constexpr double giga = 1e9;

  SimDevice& device_;
  std::shared_ptr<Write> write_;
};

}  // namespace

std::unique_ptr<VirtualStorage> make_sim_storage(SimDevice& device) {
  return std::make_unique<SimStorage>(device);
}

}  // namespace ringside::sim
