#include "core/device/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/device/cpu/parallel.h"
#include "tests/support/complaint.h"
#include "tests/support/memory_limit.h"

namespace ringside {
namespace {

using testing::complaint;

constexpr MemoryKind all_kinds[] = {
    MemoryKind::parameter,     MemoryKind::gradient,  MemoryKind::optimizer, MemoryKind::activation,
    MemoryKind::communication, MemoryKind::workspace, MemoryKind::data};

TEST(Ledger, CountsByKindAndKeepsWhoHeldThePeak) {
  Ledger ledger;
  ledger.add(MemoryKind::parameter, 100);
  ledger.add(MemoryKind::activation, 50);
  ledger.remove(MemoryKind::activation, 50);
  ledger.add(MemoryKind::gradient, 30);
  EXPECT_EQ(ledger.current()[MemoryKind::parameter], 100);
  EXPECT_EQ(ledger.current()[MemoryKind::activation], 0);
  EXPECT_EQ(ledger.current().total(), 130);
  EXPECT_EQ(ledger.at_peak().total(), 150);
  EXPECT_EQ(ledger.at_peak()[MemoryKind::activation], 50);
  EXPECT_EQ(ledger.at_peak()[MemoryKind::gradient], 0);
  ledger.reset_peak();
  EXPECT_EQ(ledger.at_peak(), ledger.current());
}

TEST(Ledger, KeepsTheMostOfEachKindByItself) {
  Ledger ledger;
  ledger.add(MemoryKind::activation, 70);
  ledger.remove(MemoryKind::activation, 60);
  ledger.add(MemoryKind::parameter, 100);
  EXPECT_EQ(ledger.at_peak()[MemoryKind::activation], 10);
  EXPECT_EQ(ledger.most()[MemoryKind::activation], 70);
  EXPECT_EQ(ledger.most()[MemoryKind::parameter], 100);
  EXPECT_EQ(ledger.most()[MemoryKind::gradient], 0);
  ledger.reset_peak();
  EXPECT_EQ(ledger.most(), ledger.current());
}

TEST(Ledger, LeavesOutWhatIsSetAside) {
  Ledger ledger;
  {
    const SetAside aside(ledger, MemoryKind::activation, 40);
    ledger.add(MemoryKind::activation, 40);
    ledger.add(MemoryKind::activation, 5);
    EXPECT_EQ(ledger.most()[MemoryKind::activation], 5) << "not even for a moment";
    EXPECT_EQ(ledger.at_peak()[MemoryKind::activation], 45) << "it takes memory all the same";
    EXPECT_EQ(ledger.current()[MemoryKind::activation], 45);
    ledger.reset_peak();
    EXPECT_EQ(ledger.most()[MemoryKind::activation], 5);
    ledger.remove(MemoryKind::activation, 40);
  }
  EXPECT_EQ(ledger.most()[MemoryKind::activation], 5) << "it was gone before it was brought back";
  ledger.set_aside(MemoryKind::activation, 5);
  ledger.bring_back(MemoryKind::activation, 5);
  ledger.add(MemoryKind::activation, 1);
  EXPECT_EQ(ledger.most()[MemoryKind::activation], 6);
}

TEST(CpuDevice, CountsABufferUntilItsLastViewIsGone) {
  const auto device = make_cpu_device(1);
  for (const auto kind : all_kinds) {
    Tensor tensor = device->tensor({10, 10}, kind);
    Tensor view = tensor.range(50, 10);
    EXPECT_EQ(tensor.buffer()->kind(), kind);
    EXPECT_EQ(device->ledger().current()[kind], 400);
    tensor = {};
    EXPECT_EQ(device->ledger().current()[kind], 400);
    view = {};
    EXPECT_EQ(device->ledger().current()[kind], 0);
  }
  EXPECT_EQ(device->ledger().at_peak().total(), 400);
}

TEST(CpuDevice, PutsWhatPeersMustReadInTheSymmetricHeap) {
  const auto device = make_cpu_device(1);
  for (const auto kind : all_kinds) {
    const bool symmetric = kind == MemoryKind::parameter || kind == MemoryKind::gradient ||
                           kind == MemoryKind::communication;
    EXPECT_EQ(device->allocate(64, kind)->address().file >= 0, symmetric) << name_of(kind);
  }
}

TEST(CpuDevice, CountsAdoptedMemoryAndReleasesItOnce) {
  const auto device = make_cpu_device(1);
  std::vector<std::byte> theirs(100);
  int released = 0;
  {
    const auto buffer =
        device->adopt(theirs.data(), theirs.size(), MemoryKind::communication, [&] { ++released; });
    const Tensor tensor(buffer, 0, Shape{25}, DType::f32);
    EXPECT_EQ(buffer->data(), theirs.data());
    EXPECT_EQ(buffer->address().file, -1);
    EXPECT_EQ(device->ledger().current()[MemoryKind::communication], 100);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
  EXPECT_EQ(device->ledger().current().total(), 0);
}

TEST(CpuDevice, NamesTheRequestAndTheHoldersWhenMemoryEnds) {
  const auto device = make_cpu_device(1);
  const auto held = device->allocate(3'000'000, MemoryKind::optimizer);
  for (const auto kind : {MemoryKind::parameter, MemoryKind::activation}) {
    const auto text = complaint([&] { device->allocate(std::size_t{1} << 50, kind); });
    EXPECT_NE(text.find("1125899.9 GB"), std::string::npos) << text;
    EXPECT_NE(text.find(name_of(kind)), std::string::npos) << text;
    EXPECT_NE(text.find("optimizer 3.0 MB"), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
  EXPECT_EQ(device->ledger().current().total(), 3'000'000);
  EXPECT_EQ(device->ledger().at_peak().total(), 3'000'000);
}

TEST(CpuDevice, RefusesCopiesOfAnotherSize) {
  const auto device = make_cpu_device(1);
  const Tensor tensor = device->tensor({4}, MemoryKind::data);
  std::vector<std::byte> host(15);
  EXPECT_NE(complaint([&] { device->write(tensor, host); }).find("15"), std::string::npos);
  EXPECT_NE(complaint([&] { device->read(tensor, host); }).find("16"), std::string::npos);
}

TEST(CpuDevice, RefusesZeroThreads) { EXPECT_THROW(make_cpu_device(0), Error); }

TEST(CpuDevice, ReadsBackWhatWasWritten) {
  const auto device = make_cpu_device(1);
  const Tensor tensor = device->tensor({3}, MemoryKind::parameter);
  const std::vector<float> in = {1, -2, 3.5f};
  std::vector<float> out(3);
  device->write(tensor, std::as_bytes(std::span(in)));
  device->read(tensor, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(in, out);
}

TEST(CpuDevice, ItsClockGoesForwardAndMarksAreOnIt) {
  const auto device = make_cpu_device(1);
  const double before = device->clock().now();
  const Mark first = device->mark();
  const Mark second = device->mark();
  device->synchronize();
  const double after = device->clock().now();
  EXPECT_GE(device->seconds(first, second), 0);
  EXPECT_LE(device->seconds(first, second), after - before);
}

TEST(CpuDevice, ClocksOfTwoDevicesAgree) {
  const auto a = make_cpu_device(1), b = make_cpu_device(1);
  const double first = a->clock().now();
  const double second = b->clock().now();
  const double third = a->clock().now();
  EXPECT_LE(first, second);
  EXPECT_LE(second, third);
}

TEST(CpuDevice, FlatOperationsRunBesideOthersInTwoThreads) {
  const auto device = make_cpu_device(2);
  constexpr std::int64_t count = 200000;
  const auto sum = [&](Tensor& out) {
    out = device->tensor({count}, MemoryKind::gradient);
    const Tensor in = device->tensor({count}, MemoryKind::gradient);
    device->kernels().fill({.out = out, .value = 0});
    device->kernels().fill({.out = in, .value = 1});
    for (int i = 0; i < 20; ++i) device->kernels().add({.in = in, .out = out});
  };
  Tensor first, second;
  std::thread beside([&] { sum(first); });
  sum(second);
  beside.join();
  for (const auto& tensor : {first, second})
    for (const float value : tensor.span<float>()) ASSERT_EQ(value, 20.0f);
}

/// Computes a product on two threads, prints the error to standard error, or "nothing" if there was
/// none, and ends the process. The exit status is 1 if the product is wrong, otherwise 0.
[[noreturn]] void multiply_on_two_threads() {
  const auto device = make_cpu_device(2);
  const auto matrix = [&] {
    Tensor out = device->tensor({64, 64}, MemoryKind::activation);
    device->kernels().fill({.out = out, .value = 1});
    return out;
  };
  const Tensor x = matrix(), weight = matrix(), y = matrix();
  const std::string error =
      complaint([&] { device->kernels().linear_forward({.x = x, .weight = weight, .y = y}); });
  for (const float value : y.span<float>())
    if (error == "nothing" && value != 64.0f) std::exit(1);
  std::fputs(error.c_str(), stderr);
  std::exit(0);
}

// Free blocks lie between tensors that are in use, and scratch memory of a kernel takes such a
// block.
TEST(CpuDevice, ConvolutionsOfFewChannelsWriteNothingBesideTheirScratchMemory) {
  const std::vector<std::uint8_t> pattern(16 << 10, 0xa5);
  for (const std::int64_t channels : {1, 2, 3, 4, 8, 12, 16})
    for (const std::int64_t kernel : {1, 3})
      for (const std::int64_t stride : {1, 2}) {
        const auto device = make_cpu_device(2);
        const auto images = [&](std::int64_t size, std::int64_t depth) {
          const Tensor out = device->tensor({2, size, size, depth}, MemoryKind::activation);
          device->kernels().fill({.out = out, .value = 1});
          return out;
        };
        const std::int64_t size = (24 - kernel) / stride + 1;
        const Tensor x = images(24, channels), y = images(size, 2 * channels);
        const Tensor weight =
            device->tensor({2 * channels, kernel, kernel, channels}, MemoryKind::parameter);
        device->kernels().fill({.out = weight, .value = 1});
        const Tensor dx = images(24, channels);
        const Tensor dweight = device->tensor(weight.shape(), MemoryKind::gradient);
        std::vector<Tensor> blocks, used;
        for (std::int64_t bytes = 64; bytes <= 8192; bytes += bytes / 2) {
          blocks.push_back(device->tensor({bytes}, MemoryKind::workspace, DType::u8));
          used.push_back(device->tensor({std::ssize(pattern)}, MemoryKind::workspace, DType::u8));
          device->write(used.back(), std::as_bytes(std::span(pattern)));
        }
        blocks.clear();
        device->kernels().convolution_forward({.x = x, .weight = weight, .stride = stride, .y = y});
        device->kernels().convolution_backward(
            {.dy = y, .x = x, .weight = weight, .stride = stride, .dx = dx, .dweight = dweight});
        for (const Tensor& one : used)
          EXPECT_TRUE(std::ranges::equal(one.span<std::uint8_t>(), pattern))
              << channels << " channels, kernel " << kernel << ", stride " << stride;
      }
}

TEST(CpuDevice, WhatOneDnnRefusesNamesTheLimitOfMemory) {
  const testing::MemoryLimit limit;
  EXPECT_EQ(complaint([] { cpu::gemm(1, {.m = -1, .n = 1, .k = 1}); }),
            "matrix product -1x1x1 on the CPU: oneDNN failed with status 2; check whether the "
            "machine has free memory; " +
                limit.text());
}

// OpenMP reads these variables only when a process begins, so each case has its own process.
TEST(CpuDeviceDeathTest, ATeamOfAnotherSizeIsRefusedOrOverruled) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto with = [](const char* name, const char* value, const char* said) {
    setenv(name, value, 1);
    EXPECT_EXIT(multiply_on_two_threads(), ::testing::ExitedWithCode(0), said) << name;
    unsetenv(name);
  };
  with("OMP_THREAD_LIMIT", "1", "device.threads = 2, but OMP_THREAD_LIMIT = 1");
  with("OMP_DYNAMIC", "true", "nothing");
  with("OMP_MAX_ACTIVE_LEVELS", "0", "nothing");
}

}  // namespace
}  // namespace ringside
