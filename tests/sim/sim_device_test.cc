#include "core/device/sim/sim_device.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/device/cpu/cpu_device.h"
#include "core/device/sim/timed_operations.h"
#include "core/sim/uneven.h"
#include "tests/support/complaint.h"
#include "tests/support/small_cluster.h"

namespace ringside::sim {
namespace {

using ringside::testing::complaint;
using ringside::testing::small_cluster;

std::unique_ptr<SimDevice> alone(bool numerics = false) {
  return make_sim_device(small_cluster(4), nullptr, {0, 3},
                         numerics ? make_cpu_device(1) : nullptr);
}

/// Seconds of a copy of 1 MB on the small cluster: 2e6 bytes, read and written, at half of
/// 100 GB/s, plus 2 us for the launch.
constexpr double copying_s = 2e6 / 50e9 + 2e-6;

struct Copied {
  Tensor in, out;
  explicit Copied(Device& device)
      : in(device.tensor({250'000}, MemoryKind::activation)),
        out(device.tensor({250'000}, MemoryKind::activation)) {}
  void run(Device& device) const { device.kernels().copy({.in = in, .out = out}); }
};

TEST(SimDevice, TakesTheTimeOfTheRoofline) {
  const auto device = alone();
  const double start = device->clock().now();
  EXPECT_EQ(start, 0);
  const Mark before = device->mark();
  Copied(*device).run(*device);
  EXPECT_DOUBLE_EQ(device->clock().now(), copying_s);
  const Mark between = device->mark();
  // 2e9 operations at half of 1 TFLOP/s.
  device->kernels().linear_forward({.x = device->tensor({1000, 1000}, MemoryKind::activation),
                                    .weight = device->tensor({1000, 1000}, MemoryKind::parameter),
                                    .y = device->tensor({1000, 1000}, MemoryKind::activation)});
  EXPECT_NEAR(device->seconds(between, device->mark()), 4e-3 + 2e-6, 1e-15);
  EXPECT_DOUBLE_EQ(device->seconds(before, between), copying_s);
}

/// Runs steps of one copy each on a device with these step times, and returns when each ended.
std::vector<double> ends_of_steps(const StepTimes& times, int steps) {
  const auto world = make_world(small_cluster(1));
  std::vector<double> ends;
  world->spawn("rank", {0, 0}, [&] {
    const auto device =
        make_sim_device(small_cluster(1), world.get(), {0, 0}, nullptr, false, 1, times);
    const Copied copied(*device);
    for (int step = 0; step < steps; ++step) {
      device->begin_step(step);
      copied.run(*device);
      device->synchronize();
      ends.push_back(device->clock().now());
    }
  });
  world->run();
  return ends;
}

TEST(SimDevice, WaitsForTheHostInEveryStep) {
  const auto ends = ends_of_steps({.host_s = 1e-3}, 3);
  for (std::size_t i = 0; i < ends.size(); ++i)
    EXPECT_NEAR(ends[i], static_cast<double>(i + 1) * (copying_s + 1e-3), 1e-9);
}

TEST(SimDevice, LoadsTheNextSamplesWhileItComputes) {
  // The samples of the first step are there; those of the next take longer than a step.
  const auto slow = ends_of_steps({.input_s = 1e-3}, 3);
  for (std::size_t i = 0; i < slow.size(); ++i)
    EXPECT_NEAR(slow[i], static_cast<double>(i) * 1e-3 + copying_s, 1e-9);
  const auto fast = ends_of_steps({.input_s = copying_s / 2}, 3);
  for (std::size_t i = 0; i < fast.size(); ++i)
    EXPECT_NEAR(fast[i], static_cast<double>(i + 1) * copying_s, 1e-9);
}

TEST(SimDevice, DiffersFromOthersByTheSpreadButHostsDoNot) {
  auto cluster = small_cluster(2);
  cluster.spread = 0.1;
  const auto seconds = [&](Place place) {
    const auto device = make_sim_device(cluster, nullptr, place, nullptr);
    Copied(*device).run(*device);
    return device->clock().now();
  };
  EXPECT_DOUBLE_EQ(seconds({0, 0}), copying_s);
  EXPECT_DOUBLE_EQ(seconds({0, 1}), copying_s * spread_factor(0.1, 1));
  EXPECT_DOUBLE_EQ(seconds({0, -1}), copying_s);
}

TEST(SimDevice, SmallOperationsReachLessAndEachClassHasItsOwnCurve) {
  DeviceSpec device = small_cluster(1).device;
  device.efficiency["fp32"]["linear"].points = {{1, 0.25}, {100, 0.5}};
  const auto seconds = [&](OpClass kind, double operations) {
    return seconds_of({kind, operations, 0}, device);
  };
  EXPECT_DOUBLE_EQ(seconds(OpClass::linear, 1e6), 1e-6 / 0.25 + 2e-6);
  EXPECT_DOUBLE_EQ(seconds(OpClass::linear, 1e7), 1e-5 / 0.375 + 2e-6);
  EXPECT_DOUBLE_EQ(seconds(OpClass::linear, 1e9), 1e-3 / 0.5 + 2e-6);
  EXPECT_DOUBLE_EQ(seconds(OpClass::attention, 1e6), 1e-6 / 0.5 + 2e-6);
  EXPECT_DOUBLE_EQ(seconds(OpClass::linear, 0), 2e-6);
  // An operation takes the longer of the time for its arithmetic and the time for its bytes.
  EXPECT_DOUBLE_EQ(seconds_of({OpClass::loss, 1e6, 1e6}, device), 1e-5 / 0.5 + 2e-6);
  EXPECT_DOUBLE_EQ(seconds_of({OpClass::loss, 1e9, 1e6}, device), 1e-3 / 0.5 + 2e-6);
}

/// A device that computes products of bf16 four times as fast, with shares of its own.
DeviceSpec with_bf16() {
  DeviceSpec device = small_cluster(1).device;
  device.tflops["bf16"] = 4;
  device.efficiency["bf16"] = device.efficiency["fp32"];
  device.efficiency["bf16"]["linear"].points = {{1, 0.25}};
  device.efficiency["bf16"]["normalisation"].points = {{1, 0.2}};
  return device;
}

TEST(SimDevice, ProductsHaveThePeakOfTheirDtypeAndAllElseThatOfFp32) {
  const DeviceSpec device = with_bf16();
  for (const OpClass kind : {OpClass::attention, OpClass::convolution})
    EXPECT_DOUBLE_EQ(seconds_of({kind, 1e9, 0, DType::bf16}, device), 0.25e-3 / 0.5 + 2e-6);
  EXPECT_DOUBLE_EQ(seconds_of({OpClass::linear, 1e9, 0, DType::bf16}, device),
                   0.25e-3 / 0.25 + 2e-6);
  EXPECT_DOUBLE_EQ(seconds_of({OpClass::normalisation, 1e9, 0, DType::bf16}, device),
                   1e-3 / 0.2 + 2e-6);
  EXPECT_DOUBLE_EQ(seconds_of({OpClass::linear, 1e9, 0}, device), 1e-3 / 0.5 + 2e-6);
  // If an operation is no product, dtypes without figures of their own count as fp32.
  for (const DType dtype : {DType::f16, DType::i32, DType::u8, DType::f64})
    EXPECT_DOUBLE_EQ(seconds_of({OpClass::normalisation, 1e9, 0, dtype}, device),
                     1e-3 / 0.5 + 2e-6);
  const auto ideal = [&](OpClass kind, double operations, double bytes) {
    return ideal_seconds_of(timed_operation({kind, operations, bytes, DType::bf16}, 1), device);
  };
  EXPECT_DOUBLE_EQ(ideal(OpClass::linear, 1e9, 0), 0.25e-3);
  EXPECT_DOUBLE_EQ(ideal(OpClass::loss, 1e9, 0), 1e-3);
  EXPECT_DOUBLE_EQ(ideal(OpClass::linear, 1e6, 1e6), 1e-5);
}

TEST(SimDevice, ReadsTheDtypeOffTheOperands) {
  auto cluster = small_cluster(1);
  cluster.device = with_bf16();
  const auto product = [](Device& device, DType dtype) {
    const auto made = [&] { return device.tensor({1000, 1000}, MemoryKind::activation, dtype); };
    const Mark before = device.mark();
    device.kernels().linear_forward({.x = made(), .weight = made(), .y = made()});
    return device.seconds(before, device.mark());
  };
  const auto device = make_sim_device(cluster, nullptr, {0, 0}, nullptr);
  EXPECT_NEAR(product(*device, DType::f32), 2e-3 / 0.5 + 2e-6, 1e-15);
  EXPECT_NEAR(product(*device, DType::bf16), 0.5e-3 / 0.25 + 2e-6, 1e-15);
  EXPECT_EQ(complaint([&] { product(*device, DType::f16); }),
            "device gpu: tflops.fp16 is missing; the device has figures for bf16, fp32");
}

TEST(SimDevice, Tf32IsForProductsOfFp32OnDevicesThatHaveIt) {
  auto cluster = small_cluster(1);
  EXPECT_EQ(complaint([&] {
              make_sim_device(cluster, nullptr, {0, 0}, nullptr, true);
            }),
            "device gpu: tflops.tf32 is missing; the device has figures for bf16, fp32");
  EXPECT_NO_THROW(make_sim_device(cluster, nullptr, {0, -1}, nullptr, true));
  cluster.device = with_bf16();
  cluster.device.tflops["tf32"] = 2;
  cluster.device.efficiency["tf32"] = cluster.device.efficiency["fp32"];
  cluster.device.efficiency["tf32"]["loss"].points = {{1, 0.1}};  // not used: loss is no product
  const DeviceSpec& device = cluster.device;
  EXPECT_DOUBLE_EQ(seconds_of({OpClass::linear, 1e9, 0}, device, true), 0.5e-3 / 0.5 + 2e-6);
  EXPECT_DOUBLE_EQ(seconds_of({OpClass::linear, 1e9, 0}, device, false), 1e-3 / 0.5 + 2e-6);
  EXPECT_DOUBLE_EQ(seconds_of({OpClass::linear, 1e9, 0, DType::bf16}, device, true),
                   0.25e-3 / 0.25 + 2e-6);
  EXPECT_DOUBLE_EQ(seconds_of({OpClass::loss, 1e9, 0}, device, true), 1e-3 / 0.5 + 2e-6);
  EXPECT_NO_THROW(make_sim_device(cluster, nullptr, {0, 0}, nullptr, true));
}

TEST(SimDevice, AClassThatWasNotMeasuredHasAStandIn) {
  DeviceSpec device = small_cluster(1).device;
  auto& curves = device.efficiency["fp32"];
  curves["linear"].points = {{1, 0.25}};
  curves["elementwise"].points = {{1, 0.2}};
  curves["grouped_convolution"].points = {{1, 0.1}};
  EXPECT_DOUBLE_EQ(seconds_of({OpClass::convolution, 1e9, 0}, device), 1e-3 / 0.5 + 2e-6);
  EXPECT_DOUBLE_EQ(seconds_of({OpClass::grouped_convolution, 1e9, 0}, device), 1e-3 / 0.1 + 2e-6);
  curves.erase("grouped_convolution");
  EXPECT_DOUBLE_EQ(seconds_of({OpClass::grouped_convolution, 1e9, 0}, device), 1e-3 / 0.5 + 2e-6);
  curves.erase("convolution");
  curves.erase("pooling");
  EXPECT_DOUBLE_EQ(seconds_of({OpClass::grouped_convolution, 1e9, 0}, device), 1e-3 / 0.25 + 2e-6);
  EXPECT_DOUBLE_EQ(seconds_of({OpClass::convolution, 1e9, 0}, device), 1e-3 / 0.25 + 2e-6);
  EXPECT_DOUBLE_EQ(seconds_of({OpClass::pooling, 1e9, 0}, device), 1e-3 / 0.2 + 2e-6);
}

TEST(SimDevice, NeedsFiguresForEveryClassAndAPlaceThatThereIs) {
  auto cluster = small_cluster(2);
  cluster.device.efficiency["fp32"].erase("loss");
  EXPECT_NE(complaint([&] {
              make_sim_device(cluster, nullptr, {0, 0}, nullptr);
            }).find("device gpu: efficiency.fp32.loss is missing; add it to the cluster file"),
            std::string::npos);
  // The host has figures of its own.
  EXPECT_NO_THROW(make_sim_device(cluster, nullptr, {0, -1}, nullptr));
  cluster = small_cluster(2);
  for (const Place place : {Place{0, 2}, Place{1, 0}, Place{-1, 0}, Place{0, -2}})
    EXPECT_THROW(make_sim_device(cluster, nullptr, place, nullptr), Error);
  cluster.device.memory_gb = 0;
  EXPECT_THROW(make_sim_device(cluster, nullptr, {0, 0}, nullptr), Error);
}

TEST(SimDevice, FillsEverySlot) {
  for (const bool numerics : {false, true})
    for_each_slot(alone(numerics)->kernels(), [](std::string_view name, const auto& kernel) {
      EXPECT_TRUE(static_cast<bool>(kernel)) << name;
    });
}

TEST(SimDevice, CountsBuffersThatHaveNoMemory) {
  const auto device = alone();
  EXPECT_FALSE(device->has_values());
  Tensor tensor = device->tensor({1'000'000'000}, MemoryKind::parameter);
  EXPECT_EQ(tensor.data<float>(), nullptr);
  EXPECT_EQ(tensor.buffer()->data(), nullptr);
  EXPECT_EQ(tensor.buffer()->kind(), MemoryKind::parameter);
  EXPECT_EQ(device->ledger().current()[MemoryKind::parameter], 4'000'000'000);
  Tensor view = tensor.range(7, 1);
  tensor = {};
  EXPECT_EQ(device->ledger().current()[MemoryKind::parameter], 4'000'000'000);
  view = {};
  EXPECT_EQ(device->ledger().current().total(), 0);
  EXPECT_EQ(device->ledger().at_peak()[MemoryKind::parameter], 4'000'000'000);
}

TEST(SimDevice, CountsAdoptedMemoryAndReleasesItOnce) {
  const auto device = alone();
  std::vector<std::byte> theirs(100);
  int released = 0;
  {
    const auto buffer =
        device->adopt(theirs.data(), theirs.size(), MemoryKind::communication, [&] { ++released; });
    EXPECT_EQ(buffer->data(), theirs.data());
    EXPECT_EQ(device->ledger().current()[MemoryKind::communication], 100);
    EXPECT_EQ(released, 0);
    device->adopt(nullptr, 50, MemoryKind::communication, nullptr);
  }
  EXPECT_EQ(released, 1);
  EXPECT_EQ(device->ledger().current().total(), 0);
}

TEST(SimDevice, ReadsZerosLosesWritesAndRefusesOtherSizes) {
  const auto device = alone();
  const Tensor tensor = device->tensor({2}, MemoryKind::data);
  std::vector<float> host = {1, 2};
  device->write(tensor, std::as_bytes(std::span(host)));
  device->read(tensor, std::as_writable_bytes(std::span(host)));
  EXPECT_EQ(host, (std::vector<float>{0, 0}));
  std::vector<std::byte> other(9);
  EXPECT_NE(complaint([&] { device->write(tensor, other); }).find("the host's memory has 9 bytes"),
            std::string::npos);
  EXPECT_NE(complaint([&] { device->read(tensor, other); }).find("has 8 bytes"), std::string::npos);
}

TEST(SimDevice, NamesThePlaceTheRequestAndTheHoldersWhenMemoryEnds) {
  const auto device = alone();
  const auto parameters = device->allocate(2'700'000'000, MemoryKind::parameter);
  const auto state = device->allocate(12'000'000, MemoryKind::optimizer);
  EXPECT_EQ(complaint([&] { device->allocate(14'000'000'000, MemoryKind::communication); }),
            "sim gpu (machine 0, device 3): no memory for 14.0 GB of kind communication; held: "
            "parameter 2.7 GB, optimizer 12.0 MB; the device has 16.0 GB; use a smaller model or "
            "batch, or more devices");
  EXPECT_EQ(device->ledger().at_peak().total(), 2'712'000'000);
  EXPECT_NO_THROW(device->allocate(16'000'000'000 - 2'712'000'000, MemoryKind::workspace));
  EXPECT_THROW(device->allocate(16'000'000'000 - 2'712'000'000 + 1, MemoryKind::workspace), Error);
  const auto host = make_sim_device(small_cluster(1), nullptr, {0, -1}, nullptr);
  EXPECT_NE(complaint([&] { host->allocate(std::size_t{1} << 50, MemoryKind::data); })
                .find("sim host (machine 0, host): no memory for 1125899.9 GB of kind data; held: "
                      "nothing"),
            std::string::npos);
}

TEST(SimDevice, WithoutAWorldItStandsAlone) {
  const auto device = alone();
  Copied(*device).run(*device);
  device->catch_up();
  device->synchronize();
  EXPECT_DOUBLE_EQ(device->clock().now(), copying_s);  // does not go back
  EXPECT_EQ(device->place(), (Place{0, 3}));
  EXPECT_THROW(device->world(), Error);
  EXPECT_EQ(&sim_device(*device), device.get());
  EXPECT_THROW(sim_device(*make_cpu_device(1)), Error);
}

TEST(SimDevice, WithNumericsItComputesAndCountsAndTakesTimeAsWithout) {
  const auto with = alone(true), without = alone();
  EXPECT_TRUE(with->has_values());
  const auto cpu = make_cpu_device(1);
  const auto attend = [](Device& device) {
    const Tensor qkv = device.tensor({2, 70, 6, 8}, MemoryKind::activation);
    std::vector<float> values(static_cast<std::size_t>(qkv.count()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 13) - 6;
    device.write(qkv, std::as_bytes(std::span(values)));
    const Tensor y = device.tensor({2, 70, 2, 8}, MemoryKind::activation);
    device.kernels().attention_forward(
        {.qkv = qkv, .y = y, .statistics = device.tensor({2, 2, 70}, MemoryKind::activation)});
    std::vector<float> out(static_cast<std::size_t>(y.count()));
    device.read(y, std::as_writable_bytes(std::span(out)));
    EXPECT_EQ(y.data<float>() == nullptr, !device.has_values());
    return out;
  };
  EXPECT_EQ(attend(*with), attend(*cpu));
  attend(*without);
  EXPECT_EQ(with->clock().now(), without->clock().now());
  EXPECT_GT(with->clock().now(), 0);
  // The scratch memory of the CPU's kernel is not in the ledger: a device without values runs no
  // kernel, and both devices must count the same bytes.
  EXPECT_EQ(with->ledger().at_peak(), without->ledger().at_peak());
  EXPECT_EQ(with->ledger().at_peak()[MemoryKind::workspace], 0);
  EXPECT_EQ(with->ledger().current().total(), 0);
}

TEST(SimDevice, WithNumericsPeersFindItsSymmetricMemory) {
  const auto device = alone(true);
  EXPECT_GE(device->allocate(64, MemoryKind::gradient)->address().file, 0);
  EXPECT_EQ(device->allocate(64, MemoryKind::activation)->address().file, -1);
}

/// Runs actors at places of a world, each with a device of its own.
void run_actors(const ClusterSpec& cluster,
                const std::vector<std::pair<Place, std::function<void(SimDevice&)>>>& actors) {
  const auto world = make_world(cluster);
  for (std::size_t i = 0; i < actors.size(); ++i)
    world->spawn("actor " + std::to_string(i), actors[i].first, [&, i] {
      const auto device = make_sim_device(cluster, world.get(), actors[i].first, nullptr);
      actors[i].second(*device);
    });
  world->run();
}

constexpr double rounding = 1e-9;  // seconds

TEST(SimDeviceInAWorld, ItsTimeRunsAheadUntilItCatchesUp) {
  int runs = 0;
  run_actors(small_cluster(1), {{{0, 0}, [&](SimDevice& device) {
                                   ++runs;
                                   World& world = device.world();
                                   const Copied copied(device);
                                   for (int i = 0; i < 10; ++i) copied.run(device);
                                   EXPECT_DOUBLE_EQ(device.clock().now(), 10 * copying_s);
                                   EXPECT_EQ(world.now(), 0);
                                   device.catch_up();
                                   EXPECT_NEAR(world.now(), 10 * copying_s, rounding);
                                   EXPECT_NEAR(device.clock().now(), 10 * copying_s, rounding);
                                   device.catch_up();
                                   EXPECT_NEAR(world.now(), 10 * copying_s, rounding);
                                   world.sleep(1);
                                   copied.run(device);
                                   device.synchronize();
                                   EXPECT_NEAR(world.now(), 1 + 11 * copying_s, rounding);
                                 }}});
  EXPECT_EQ(runs, 1);
}

/// If the waits of two actors end at almost the same time, the world ends both at one moment. So it
/// may end the wait of catch_up() slightly before the time that the device's clock shows already.
TEST(SimDeviceInAWorld, ItsClockNeverGoesBack) {
  const auto compute = [](SimDevice& device) {
    const Copied copied(device);
    for (int i = 0; i < 100; ++i) {
      copied.run(device);
      const double before = device.clock().now();
      device.catch_up();
      EXPECT_GE(device.clock().now(), before);
      EXPECT_NEAR(device.world().now(), before, rounding);
    }
  };
  const auto disturb = [](SimDevice& device) {
    for (int i = 0; i < 100; ++i) device.world().sleep(copying_s - 1e-12);
  };
  run_actors(small_cluster(2), {{{0, 0}, compute}, {{0, 1}, disturb}});
}

/// A worker and its colocated server use one device. Each waits only for its own computations,
/// which run at half speed while both compute.
TEST(SimDeviceInAWorld, ActorsThatShareADeviceShareItsCore) {
  const auto cluster = small_cluster(1);
  const auto world = make_world(cluster);
  const auto device = make_sim_device(cluster, world.get(), {0, 0}, nullptr);
  const Copied copied(*device);
  std::vector<double> ends;
  const auto compute = [&](int times) {
    for (int i = 0; i < times; ++i) copied.run(*device);
    device->catch_up();
    ends.push_back(world->now());
  };
  world->spawn("worker", {0, 0}, [&] { compute(1000); });
  world->spawn("server", {0, 0}, [&] { compute(3000); });
  world->run();
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_NEAR(ends[0], 2000 * copying_s, 2 * rounding);
  EXPECT_NEAR(ends[1], 4000 * copying_s, 2 * rounding);
}

/// Two GPUs of one machine have one host. Its only core does the work of both, half as fast for
/// each, while a third GPU computes undisturbed.
TEST(SimDeviceInAWorld, WorkOfTheHostSharesTheCoresOfTheMachine) {
  auto cluster = small_cluster(3);
  cluster.host.cores = 1;
  constexpr OpCost work{OpClass::elementwise, 0, 2e6};  // takes copying_s
  int ends = 0;
  const auto host_works = [&](SimDevice& device) {
    Copied(device).run(device);
    device.host_work(work, [] {});
    EXPECT_NEAR(device.world().now(), 3 * copying_s, rounding) << "after the copy";
    EXPECT_NEAR(device.clock().now(), 3 * copying_s, rounding);
    ++ends;
  };
  const auto computes = [&](SimDevice& device) {
    const Copied copied(device);
    for (int i = 0; i < 2; ++i) copied.run(device);
    device.catch_up();
    EXPECT_NEAR(device.world().now(), 2 * copying_s, rounding);
    ++ends;
  };
  run_actors(cluster, {{{0, 0}, host_works}, {{0, 1}, host_works}, {{0, 2}, computes}});
  EXPECT_EQ(ends, 3);
}

TEST(SimDeviceInAWorld, DevicesOfOnePlaceShareItsMemoryAndOthersDoNot) {
  int given = 0;
  const auto hold = [&](SimDevice& device) {
    const auto kept = device.allocate(9'000'000'000, MemoryKind::parameter);
    device.world().sleep(1);
  };
  const auto ask = [&](SimDevice& device) {
    device.world().sleep(0.5);
    const auto text = complaint([&] {
      device.allocate(8'000'000'000, MemoryKind::gradient);
      ++given;
    });
    if (device.place() == Place{0, 0}) {
      EXPECT_NE(text.find("held: nothing; the device has 16.0 GB, of which other ranks on the "
                          "same device hold 9.0 GB"),
                std::string::npos)
          << text;
    } else {
      EXPECT_EQ(text, "nothing");
    }
    device.world().sleep(1);  // after this, the memory that `hold` kept is free again
    EXPECT_NO_THROW(device.allocate(16'000'000'000, MemoryKind::gradient));
  };
  run_actors(small_cluster(2), {{{0, 0}, hold}, {{0, 0}, ask}, {{0, 1}, ask}});
  EXPECT_EQ(given, 1);
}

}  // namespace
}  // namespace ringside::sim
