// The memory of a GPU, and copies between it and the host.
#include <gmock/gmock.h>

#include <numeric>
#include <thread>

#include "tests/cuda/fixture.h"
#include "tests/cuda/gate.h"

namespace ringside {
namespace {

using testing::complaint;
using ::testing::Each;
using ::testing::HasSubstr;

using CudaDevice = OnGpu;

std::vector<float> counting(std::size_t count) {
  std::vector<float> out(count);
  std::iota(out.begin(), out.end(), 1.0F);
  return out;
}

TEST_F(CudaDevice, SaysWhatItRunsOn) {
  const auto machine = cuda::look_at_machine();
  EXPECT_TRUE(machine.built);
  EXPECT_FALSE(machine.driver.empty());
  EXPECT_FALSE(machine.runtime.empty());
  EXPECT_FALSE(machine.cublaslt.empty());
  ASSERT_FALSE(machine.gpus.empty());
  EXPECT_GE(machine.gpus[0].major, 8);
  EXPECT_GT(machine.gpus[0].multiprocessors, 0);
  EXPECT_EQ(machine.gpus[0].uuid.size(),
            std::string("GPU-01234567-89ab-cdef-0123-456789abcdef").size());
  EXPECT_EQ(machine.gpus[0].uuid.find("-", 4), 12U) << machine.gpus[0].uuid;
  EXPECT_EQ(device().memory()->capacity, machine.gpus[0].memory);
  EXPECT_EQ(device().ordinal(), 0);
  EXPECT_EQ(&cuda::cuda_device(device()), &device());
}

TEST_F(CudaDevice, RefusesAGpuThatIsNotThere) {
  EXPECT_THAT(complaint([] { cuda::make_cuda_device({.ordinal = 99}); }),
              HasSubstr("gpu 99 does not exist; this machine has"));
}

TEST_F(CudaDevice, CountsABufferUntilItsLastViewIsGone) {
  const auto before = device().ledger().current();  // what the device's kernels keep
  for (std::size_t i = 0; i < memory_kinds; ++i) {
    const auto kind = static_cast<MemoryKind>(i);
    Tensor tensor = device().tensor({10, 10}, kind);
    Tensor view = tensor.range(50, 10);
    tensor = {};
    EXPECT_EQ(device().ledger().current()[kind] - before[kind], 400);
    view = {};
    EXPECT_EQ(device().ledger().current()[kind], before[kind]);
  }
}

TEST_F(CudaDevice, KeepsWhatItReserved) {
  constexpr std::int64_t bytes = 32 << 20;
  Tensor tensor = filled(bytes / 4, 1);
  device().synchronize();
  const auto held = *device().memory();
  EXPECT_GE(held.reserved, device().ledger().at_peak().total());
  EXPECT_GE(held.outside, 0);
  EXPECT_LE(held.reserved + held.outside, held.capacity);
  tensor = {};
  device().synchronize();
  EXPECT_EQ(device().memory()->reserved, held.reserved);
  tensor = filled(bytes / 4, 1);
  device().synchronize();
  EXPECT_EQ(device().memory()->reserved, held.reserved);
}

TEST_F(CudaDevice, GivesBuffersOfNothing) {
  const auto a = device().allocate(0, MemoryKind::data);
  const auto b = device().allocate(0, MemoryKind::data);
  EXPECT_EQ(a->bytes(), 0U);
  EXPECT_NE(a->data(), nullptr);
  EXPECT_NE(a->data(), b->data());
  const Tensor nothing = device().tensor({0}, MemoryKind::data);
  device().write(nothing, {});
  device().read(nothing, {});
  const auto staging = device().staging();
  const auto out = staging->out(nothing);
  out->wait();
  EXPECT_EQ(staging->in(out->host()).count(), 0);
}

TEST_F(CudaDevice, SaysWhoHoldsTheMemory) {
  const auto tensor = device().tensor({1 << 20}, MemoryKind::optimizer);
  const auto before = device().ledger().current();
  const auto message =
      complaint([&] { device().allocate(std::size_t{1} << 42, MemoryKind::gradient); });
  EXPECT_THAT(message, HasSubstr("gpu 0: no memory for 4398.0 GB of kind gradient"));
  EXPECT_THAT(message, HasSubstr("optimizer 4.2 MB"));
  EXPECT_THAT(message, HasSubstr("free of"));
  EXPECT_EQ(device().ledger().current(), before);
  EXPECT_THAT(values_of(filled(10, 3)), Each(3));  // the device still works
}

TEST_F(CudaDevice, AdoptsMemoryThatIsNotItsOwn) {
  const auto before = device().ledger().current();
  std::vector<std::byte> theirs(100);
  int released = 0;
  {
    const auto buffer = device().adopt(theirs.data(), theirs.size(), MemoryKind::communication,
                                       [&] { ++released; });
    EXPECT_EQ(buffer->data(), theirs.data());
    EXPECT_EQ(device().ledger().current(), before);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

TEST_F(CudaDevice, UsesMemoryAgainOnlyAfterItsLastKernel) {
  const Tensor copy = filled(1 << 16, 0);
  for (int i = 1; i <= 20; ++i) {
    Gate gate(device().compute_stream());
    auto source = std::make_unique<Tensor>(filled(1 << 16, static_cast<float>(i)));
    device().kernels().copy({.in = *source, .out = copy});
    std::thread([&] { source.reset(); }).join();
    filled(1 << 16, -1);
    gate.open();
    EXPECT_THAT(values_of(copy), Each(static_cast<float>(i)));
  }
}

TEST_F(CudaDevice, IsUsedByManyThreads) {
  const auto before = device().ledger().current();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const auto value = static_cast<float>(100 * t + i);
        const Tensor sum = uploaded(std::vector<float>(3000, value));
        const Mark mark = device().mark();
        device().kernels().add({.in = filled(3000, 1), .out = sum});
        EXPECT_THAT(values_of(sum), Each(value + 1));
        const double reached_at = device().time(mark);
        EXPECT_LE(reached_at, device().clock().now());
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(device().ledger().current(), before);
}

TEST_F(CudaDevice, WritesAndReadsAnySize) {
  for (const std::size_t count : {1, 7, 1000, 262144, 262145, 3000001, 5000000}) {
    const auto values = counting(count);
    EXPECT_EQ(values_of(uploaded(values)), values) << count;
  }
}

TEST_F(CudaDevice, WritesInTheOrderOfComputeWithoutWaitingForIt) {
  const Tensor sum = filled(1000, 0);
  Gate gate(device().compute_stream());
  std::vector<float> host(1000);
  // A write may overwrite `part` only after the previous kernel has read the values in it.
  const Tensor part = device().tensor({1000}, MemoryKind::data);
  for (int i = 1; i <= 100; ++i) {
    host.assign(1000, static_cast<float>(i));
    device().write(part, std::as_bytes(std::span(host)));
    device().kernels().add({.in = part, .out = sum});
  }
  gate.open();
  EXPECT_THAT(values_of(sum), Each(5050));
}

TEST_F(CudaDevice, WritesAndReadsParts) {
  const Tensor tensor = filled(10, 0);
  const auto values = counting(2);
  device().write(tensor.range(3, 2), std::as_bytes(std::span(values)));
  EXPECT_EQ(values_of(tensor), (std::vector<float>{0, 0, 0, 1, 2, 0, 0, 0, 0, 0}));
  EXPECT_EQ(values_of(tensor.range(4, 2)), (std::vector<float>{2, 0}));
}

TEST_F(CudaDevice, RefusesCopiesOfOtherSizes) {
  const Tensor tensor = device().tensor({4}, MemoryKind::data);
  std::vector<std::byte> host(15);
  const std::string text =
      ": the host's memory has 15 bytes, but the tensor of shape 4 has 16 bytes; the sizes must be "
      "equal";
  EXPECT_EQ(complaint([&] { device().write(tensor, host); }), "gpu 0: write" + text);
  EXPECT_EQ(complaint([&] { device().read(tensor, host); }), "gpu 0: read" + text);
}

TEST_F(CudaDevice, TakesRangesForProfilers) {
  device().begin_range("forward");
  device().begin_range("block.0");
  device().end_range();
  device().end_range();
  EXPECT_THAT(values_of(filled(4, 2)), Each(2));
}

}  // namespace
}  // namespace ringside
