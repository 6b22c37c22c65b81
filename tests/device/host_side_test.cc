// The host side of a real device: the order of requests, and devices whose memory the host cannot
// read.
#include "core/device/host_side.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "core/device/cpu/cpu_device.h"
#include "tests/support/complaint.h"
#include "tests/support/staged_device.h"

namespace ringside {
namespace {

constexpr std::int64_t elements = 1000;

void check_a_way_there_and_back(Device& device) {
  const auto host = make_host_side(device, make_cpu_device(1));
  const Tensor in = device.tensor({elements}, MemoryKind::gradient);
  const Tensor out = device.tensor({elements}, MemoryKind::parameter);
  const Tensor there = host->device().tensor({elements}, MemoryKind::gradient);
  std::vector<float> values(elements, 3.0f);
  device.write(in, std::as_bytes(std::span(values)));
  const auto fetched = host->fetch(in, there);
  const auto added =
      host->run([&] { host->device().kernels().add({.in = there, .out = there}); }, fetched);
  host->store(there, out, added)->wait();
  device.read(out, std::as_writable_bytes(std::span(values)));
  EXPECT_EQ(values, std::vector<float>(elements, 6.0f));
  EXPECT_LE(fetched->span().end, added->span().begin);
  EXPECT_GE(host->busy_s(), added->span().end - added->span().begin);
}

TEST(HostSide, CopiesComputesAndCopiesBack) { check_a_way_there_and_back(*make_cpu_device(1)); }

TEST(HostSide, CopiesThroughStagingWhereTheHostDoesNotReadTheDevice) {
  testing::StagedDevice device(0);
  check_a_way_there_and_back(device);
  EXPECT_EQ(device.copies_out(), 1u);
  EXPECT_EQ(device.waits(), 1);
}

TEST(HostSide, ALaneThatWaitsDoesNotHoldUpTheOthers) {
  const auto device = make_cpu_device(1);
  const auto host = make_host_side(*device, make_cpu_device(1));
  std::promise<void> gate;
  const auto held = host->run([&] { gate.get_future().wait(); }, nullptr);
  const Tensor own = device->tensor({elements}, MemoryKind::parameter);
  const Tensor there = host->device().tensor({elements}, MemoryKind::parameter);
  host->fetch(own, there)->wait();
  host->store(there, own, nullptr)->wait();
  std::atomic<bool> ran = false;
  const auto behind = host->run([&] { ran = true; }, nullptr);
  EXPECT_FALSE(ran);
  gate.set_value();
  behind->wait();
  EXPECT_TRUE(ran);
  held->wait();
}

TEST(HostSide, AFailureReachesEveryWaiterAndNothingComesAfterIt) {
  const auto device = make_cpu_device(1);
  const auto host = make_host_side(*device, make_cpu_device(1));
  const auto failed = host->run([] { throw Error("the host gives up"); }, nullptr);
  bool ran = false;
  const auto later = host->run([&] { ran = true; }, failed);
  EXPECT_EQ(testing::complaint([&] { later->wait(); }), "the host gives up");
  EXPECT_FALSE(ran);
}

TEST(HostSide, EndsAfterItsRequests) {
  const auto device = make_cpu_device(1);
  int ran = 0;
  {
    const auto host = make_host_side(*device, make_cpu_device(1));
    for (int i = 0; i < 100; ++i) host->run([&] { ++ran; }, nullptr);
  }
  EXPECT_EQ(ran, 100);
}

}  // namespace
}  // namespace ringside
