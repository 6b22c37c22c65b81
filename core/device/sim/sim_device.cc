#include "core/device/sim/sim_device.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/device/sim/timings.h"
#include "core/sim/cluster_check.h"
#include "core/sim/uneven.h"

namespace ringside::sim {
namespace {

/// The number of bytes that all devices in one place hold together. Each rank has a device of its
/// own, but ranks that share a CPU share its memory.
using Held = std::atomic<std::int64_t>;

struct HeldByPlace {
  std::map<std::pair<int, int>, std::shared_ptr<Held>> places{};

  std::shared_ptr<Held> at(Place place) {
    auto& held = places[{place.machine, place.device}];
    if (!held) held = std::make_shared<Held>(0);
    return held;
  }
};

/// The factor by which operations of a device take longer than the device's figures say.
struct Slowdown {
  double slowness = 1, jitter = 0;
  std::uint64_t seed = 0;
  std::int64_t device = 0;  // counted machine by machine

  double at(std::int64_t step) const {
    return jitter > 0 ? slowness * jitter_factor(jitter, seed, device, step) : slowness;
  }
};

class RooflineDevice final : public SimDevice, private Clock {
 public:
  /// `host`: the CPU that does the work of the host; null if that is the device itself.
  RooflineDevice(const DeviceSpec& spec, const DeviceSpec* host, World* world, Place place,
                 const Slowdown& slowdown, const StepTimes& times,
                 std::shared_ptr<CommComputeContention> contention,
                 std::unique_ptr<Device> numerics, bool tf32,
                 const std::vector<TimedOperation>& timed)
      : world_(world),
        place_(place),
        name_(place.device < 0 ? fmt::format("sim {} (machine {}, host)", spec.name, place.machine)
                               : fmt::format("sim {} (machine {}, device {})", spec.name,
                                             place.machine, place.device)),
        capacity_(spec.memory_gb * 1e9),
        all_cores_(spec.kind == DeviceKind::cpu ? spec.cores : 1),
        apart_(spec.kind != DeviceKind::cpu),
        slowdown_(slowdown),
        times_(times),
        contention_(std::move(contention)),
        factor_(slowdown.slowness),
        timings_(spec, tf32, timed),
        host_(host ? std::optional(*host) : std::nullopt),
        numerics_(std::move(numerics)),
        held_(world ? world->shared().get<HeldByPlace>()->at(place) : std::make_shared<Held>(0)),
        is_free_(times.stated) {
    for_each_slot(kernels_, [this]<class Op>(std::string_view, Kernel<Op>& slot) {
      slot = [this](const Op& op) { pass(cost(op)); };
    });
    if (numerics_) add_numerics();
  }

  std::shared_ptr<Buffer> allocate(std::size_t bytes, MemoryKind kind) override {
    check_capacity(bytes, kind);
    if (!numerics_)
      return counted(nullptr, bytes, kind, {}, [this, bytes, kind] { release(bytes, kind); });
    std::shared_ptr<Buffer> memory = numerics_->allocate(bytes, kind);
    const Buffer& given = *memory;
    return counted(given.data(), bytes, kind, given.address(),
                   [this, bytes, kind, memory = std::move(memory)] { release(bytes, kind); });
  }

  std::shared_ptr<Buffer> adopt(std::byte* data, std::size_t bytes, MemoryKind kind,
                                std::function<void()> give_back) override {
    check_capacity(bytes, kind);
    return counted(data, bytes, kind, {}, [this, bytes, kind, give_back = std::move(give_back)] {
      if (give_back) give_back();
      release(bytes, kind);
    });
  }

  bool has_values() const override { return numerics_ != nullptr; }
  const Kernels& kernels() const override { return kernels_; }

  Mark mark() override { return {now()}; }
  double time(const Mark& mark) override { return mark.value; }
  void synchronize() override { catch_up(); }

  void write(const Tensor& to, std::span<const std::byte> from) override {
    check_size("write", to, from.size());
    if (numerics_) numerics_->write(to, from);
  }
  void read(const Tensor& from, std::span<std::byte> to) override {
    check_size("read", from, to.size());
    if (numerics_)
      numerics_->read(from, to);
    else
      std::fill(to.begin(), to.end(), std::byte{0});
  }

  const Clock& clock() const override { return *this; }

  void begin_step(std::int64_t step) override {
    factor_ = slowdown_.at(step);
    for (const DeviceFault& fault : times_.faults) {
      if (step >= fault.step) factor_ *= fault.slow;
      if (step != fault.step || !world_ || fault.stop_s == 0) continue;
      catch_up();
      world_->sleep(fault.stop_s);
    }
    if (!world_ || times_.input_s + times_.host_s == 0) return;
    catch_up();
    if (loaded_ > world_->now()) world_->sleep(loaded_ - world_->now());
    loaded_ = world_->now() + times_.input_s;
    world_->sleep(times_.host_s);
  }

  void host_work(const OpCost& cost, const std::function<void()>& work) override {
    if (numerics_) work();
    if (times_.stated) return;
    if (!host_) return pass(cost);
    const double seconds = seconds_of(cost, *host_);
    catch_up();
    if (world_)
      world_->work({place_.machine, -1}, seconds);
    else
      pending_ += seconds;
  }

  void take_instead(double seconds, const std::function<void()>& work) override {
    pending_ += factor_ * seconds;
    if (shared_) catch_up();
    const bool before = std::exchange(is_free_, true);
    work();
    is_free_ = before;
  }

  void pass_copy(Copied way, std::int64_t bytes) override {
    if (times_.stated || !world_ || !apart_ || bytes == 0) return;
    catch_up();
    const Place host{place_.machine, -1};
    const bool up = way == Copied::to_host;
    world_->start_flow(up ? place_ : host, up ? host : place_, static_cast<double>(bytes))->wait();
  }

  World& world() override {
    if (!world_) throw Error("{}: this device is not part of a simulated world", name_);
    return *world_;
  }
  Place place() const override { return place_; }

  void catch_up() override {
    if (!world_ || pending_ <= 0) return;
    if (contention_) contention_->begin_work(world_->now());
    // `pending_` becomes 0 first, because other actors may use the device while this one waits.
    const double memory = std::exchange(pending_memory_, 0);
    world_->work(place_, std::exchange(pending_, 0), cores_, memory);
    if (!contention_) return;
    const double left = contention_->end_work(world_->now());
    if (left > moment) world_->work(place_, left, cores_);
  }
  void share() override { shared_ = true; }
  void use_all_cores() override { cores_ = all_cores_; }
  std::shared_ptr<CommComputeContention> contention() const override { return contention_; }

 private:
  /// The world rounds the times at which waits end. Taking the maximum keeps the clock from going
  /// back because of that.
  double now() const override {
    return last_ = std::max(last_, (world_ ? world_->now() : 0) + pending_);
  }

  void pass(const OpCost& cost) {
    if (is_free_) return;
    const OpTime time = timings_.time(cost);
    const double share = factor_ / static_cast<double>(cores_);
    pending_ += share * time.all;
    pending_memory_ += share * time.memory;
    if (shared_) catch_up();
  }

  void add_numerics() {
    const Kernels& real = numerics_->kernels();
    for_each_slot(kernels_, [&]<class Op>(std::string_view, Kernel<Op>& slot) {
      for_each_slot(real, [&]<class Other>(std::string_view, const Kernel<Other>& run) {
        if constexpr (std::is_same_v<Op, Other>)
          slot = [timed = std::move(slot), &run](const Op& op) {
            run(op);
            timed(op);
          };
      });
    });
  }

  template <class Release>
  std::shared_ptr<Buffer> counted(std::byte* data, std::size_t bytes, MemoryKind kind,
                                  SymmetricAddress address, Release&& release) {
    auto buffer =
        std::make_shared<Buffer>(data, bytes, kind, address, std::forward<Release>(release));
    ledger().add(kind, bytes);
    *held_ += static_cast<std::int64_t>(bytes);
    return buffer;
  }
  void release(std::size_t bytes, MemoryKind kind) {
    ledger().remove(kind, bytes);
    *held_ -= static_cast<std::int64_t>(bytes);
  }

  /// Throws Error if the device cannot hold as many bytes more.
  void check_capacity(std::size_t bytes, MemoryKind kind) const {
    if (static_cast<double>(*held_) + static_cast<double>(bytes) <= capacity_) return;
    const MemoryUse own = ledger().current();
    const std::int64_t others = *held_ - own.total();
    std::string cause = fmt::format("the device has {}", memory_text(capacity_));
    if (others > 0)
      cause += fmt::format(", of which other ranks on the same device hold {}",
                           memory_text(static_cast<double>(others)));
    throw out_of_memory(name_, bytes, kind, own, cause);
  }

  void check_size(const char* what, const Tensor& tensor, std::size_t host_bytes) const {
    if (tensor.bytes() != host_bytes)
      throw Error(
          "{}: {}: the host's memory has {} bytes, but the tensor of shape {} has {} bytes; the "
          "sizes must be equal",
          name_, what, host_bytes, tensor.shape().text(), tensor.bytes());
  }

  World* const world_;
  const Place place_;
  const std::string name_;
  const double capacity_;
  const std::int64_t all_cores_;
  const bool apart_;  // from the memory of its host
  const Slowdown slowdown_;
  const StepTimes times_;
  const std::shared_ptr<CommComputeContention> contention_;
  double factor_;      // of the current step
  double loaded_ = 0;  // when the next step's samples are there
  Timings timings_;
  const std::optional<DeviceSpec> host_;
  std::unique_ptr<Device> numerics_;
  std::shared_ptr<Held> held_;
  Kernels kernels_;
  double pending_ = 0, pending_memory_ = 0;  // the part that needs all of the bandwidth
  bool shared_ = false;
  bool is_free_ = false;    // operations take no time
  std::int64_t cores_ = 1;  // that an operation runs on
  mutable double last_ = 0;
};

void check_place(const ClusterSpec& cluster, Place place) {
  if (place.machine < 0 || place.machine >= cluster.machines || place.device < -1 ||
      place.device >= cluster.devices)
    throw Error(
        "cluster {}: there is no device {} of machine {}; the cluster has {} machines of {} "
        "devices",
        cluster.name, place.device, place.machine, cluster.machines, cluster.devices);
}

}  // namespace

std::unique_ptr<SimDevice> make_sim_device(const ClusterSpec& cluster, World* world, Place place,
                                           std::unique_ptr<Device> numerics, bool tf32,
                                           std::uint64_t seed, StepTimes times) {
  check(cluster);
  check_place(cluster, place);
  const bool is_host = place.device < 0;
  const DeviceSpec& device = is_host ? cluster.host : device_of(cluster, place.machine);
  const std::int64_t number = place.machine * cluster.devices + place.device;
  const bool varies = !is_host && !times.stated;
  const double slowness = slowness_of(cluster, place.machine, place.device) *
                          (varies ? spread_factor(cluster.spread, number) : 1);
  const Slowdown slowdown{slowness, varies ? cluster.jitter : 0, seed, number};
  const double share = is_host ? 0 : cluster.collective.device_share;
  return std::make_unique<RooflineDevice>(
      device, device.kind == DeviceKind::cpu ? nullptr : &cluster.host, world, place, slowdown,
      times, share > 0 ? std::make_shared<CommComputeContention>(share) : nullptr,
      std::move(numerics), tf32 && !is_host,
      &device == &cluster.device ? cluster.timed : std::vector<TimedOperation>());
}

SimDevice& sim_device(Device& device) {
  if (auto* simulated = dynamic_cast<SimDevice*>(&device)) return *simulated;
  throw Error("simulated ranks need a simulated device; name one with device.kind = \"sim\"");
}

}  // namespace ringside::sim
