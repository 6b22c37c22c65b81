// Memory of the test double of CUDA, which runs on the host: stream-ordered pools, limits, and
// which copies are allowed.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <future>
#include <vector>

#include "tests/cuda_on_host/control.h"
#include "tests/cuda_on_host/stream.h"

namespace cuda_on_host {
namespace {

class HostMemory : public testing::Test {
 protected:
  HostMemory() {
    cudaMemPoolProps props{};
    props.allocType = cudaMemAllocationTypePinned;
    props.location = {cudaMemLocationTypeDevice, 0};
    EXPECT_EQ(cudaMemPoolCreate(&pool_, &props), cudaSuccess);
    std::uint64_t all = ~std::uint64_t{0};
    EXPECT_EQ(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &all), cudaSuccess);
    for (auto* stream : {&stream_, &other_})
      EXPECT_EQ(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), cudaSuccess);
  }
  ~HostMemory() override {
    for (auto* stream : {stream_, other_}) {
      EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    }
    EXPECT_EQ(cudaMemPoolDestroy(pool_), cudaSuccess);
    EXPECT_EQ(free_bytes(), before_);
    cudaGetLastError();
  }

  float* allocate(std::size_t size, cudaStream_t stream) {
    float* pointer = nullptr;
    EXPECT_EQ(cudaMallocFromPoolAsync(&pointer, size, pool_, stream), cudaSuccess);
    return pointer;
  }
  void release(float* pointer, cudaStream_t stream) {
    EXPECT_EQ(cudaFreeAsync(pointer, stream), cudaSuccess);
  }
  std::uint64_t attribute(cudaMemPoolAttr attr) {
    std::uint64_t value = 0;
    EXPECT_EQ(cudaMemPoolGetAttribute(pool_, attr, &value), cudaSuccess);
    return value;
  }
  static std::size_t free_bytes() {
    std::size_t free = 0, total = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    return free;
  }
  void synchronize() { EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }
  // Holds the stream until set_value() is called on the promise.
  static std::promise<void> hold(cudaStream_t stream) {
    std::promise<void> gate;
    enqueue(stream, [opened = gate.get_future().share()] { opened.wait(); });
    return gate;
  }

  const std::size_t before_ = free_bytes();
  cudaMemPool_t pool_ = nullptr;
  cudaStream_t stream_ = nullptr, other_ = nullptr;
};

TEST_F(HostMemory, IsFullOfNaNsWhenItComesAndWhenItGoes) {
  float* a = allocate(64, stream_);
  bool came = false, went = false;
  enqueue(stream_, [&] { came = std::isnan(a[0]) && std::isnan(a[15]); });
  enqueue(stream_, [&] { a[3] = 1; });
  release(a, stream_);
  enqueue(stream_, [&] { went = std::isnan(a[3]); });
  synchronize();
  EXPECT_TRUE(came);
  EXPECT_TRUE(went);
}

TEST_F(HostMemory, IsHandedOutAgainInTheOrderOfItsStream) {
  auto gate = hold(stream_);
  float* a = allocate(1 << 10, stream_);
  release(a, stream_);
  // The stream has not reached the free yet: its own later work may get the memory, the work of
  // other streams may not.
  float* elsewhere = allocate(1 << 10, other_);
  EXPECT_NE(elsewhere, a);
  EXPECT_EQ(allocate(1 << 10, stream_), a);
  release(a, stream_);
  gate.set_value();
  synchronize();
  EXPECT_EQ(allocate(1 << 10, other_), a);
  release(a, other_);
  release(elsewhere, other_);
}

TEST_F(HostMemory, FreedTwiceInAStreamIsOthersOnlyAfterTheSecondTime) {
  float* first = allocate(1024, stream_);
  auto gate = hold(stream_);
  release(first, stream_);
  EXPECT_EQ(allocate(1024, stream_), first);
  std::promise<void> freed;
  enqueue(stream_, [&] { freed.set_value(); });
  auto second_gate = hold(stream_);
  release(first, stream_);
  gate.set_value();
  freed.get_future().wait();
  float* theirs = allocate(1024, other_);
  EXPECT_NE(theirs, first);
  second_gate.set_value();
  synchronize();
  release(theirs, other_);
}

TEST_F(HostMemory, APoolThatHasGrownGrowsNoMore) {
  const auto loop = [&] {
    for (int i = 0; i < 10; ++i) {
      float* a = allocate(5000, stream_);
      float* b = allocate(100, stream_);
      release(a, stream_);
      release(b, stream_);
    }
  };
  loop();
  const Counters before = counters();
  loop();
  EXPECT_EQ(counters().mallocs, before.mallocs);
  EXPECT_EQ(counters().host_waits, before.host_waits);
}

TEST_F(HostMemory, CountsWhatIsUsedAndWhatIsReserved) {
  float* a = allocate(1 << 20, stream_);
  float* b = allocate(1000, stream_);
  EXPECT_EQ(attribute(cudaMemPoolAttrUsedMemCurrent), (1u << 20) + 1024);
  EXPECT_EQ(attribute(cudaMemPoolAttrReservedMemCurrent), (1u << 20) + 1024);
  EXPECT_EQ(free_bytes(), before_ - (1u << 20) - 1024);
  release(a, stream_);
  EXPECT_EQ(attribute(cudaMemPoolAttrUsedMemCurrent), 1024u);
  EXPECT_EQ(attribute(cudaMemPoolAttrUsedMemHigh), (1u << 20) + 1024);
  std::uint64_t zero = 0;
  EXPECT_EQ(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrUsedMemHigh, &zero), cudaSuccess);
  EXPECT_EQ(attribute(cudaMemPoolAttrUsedMemHigh), 1024u);
  synchronize();
  EXPECT_EQ(attribute(cudaMemPoolAttrReservedMemCurrent), (1u << 20) + 1024);
  EXPECT_EQ(cudaMemPoolTrimTo(pool_, 0), cudaSuccess);
  EXPECT_EQ(attribute(cudaMemPoolAttrReservedMemCurrent), 1024u);
  EXPECT_EQ(attribute(cudaMemPoolAttrReservedMemHigh), (1u << 20) + 1024);
  release(b, stream_);
}

TEST_F(HostMemory, GivesBackWhatIsAboveTheThresholdWhenTheHostWaits) {
  std::uint64_t none = 0;
  EXPECT_EQ(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &none), cudaSuccess);
  release(allocate(1 << 20, stream_), stream_);
  synchronize();
  EXPECT_EQ(attribute(cudaMemPoolAttrReservedMemCurrent), 0u);
}

TEST_F(HostMemory, HasAnEnd) {
  set_memory(1 << 20);
  float* a = allocate(600 << 10, stream_);
  float* b = nullptr;
  EXPECT_EQ(cudaMallocFromPoolAsync(&b, 600 << 10, pool_, stream_), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&b, 600 << 10), cudaErrorMemoryAllocation);
  release(a, stream_);
  set_memory(1 << 30);
}

TEST_F(HostMemory, AKindThatIsNotThatOfThePointersIsRefused) {
  std::vector<float> host(16);
  float* pinned = nullptr;
  EXPECT_EQ(cudaMallocHost(&pinned, 64), cudaSuccess);
  float* device = allocate(64, stream_);
  const auto copy = [&](void* to, const void* from, std::size_t size, cudaMemcpyKind kind) {
    return cudaMemcpyAsync(to, from, size, kind, stream_);
  };
  EXPECT_EQ(copy(device, pinned, 64, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(copy(pinned, device, 64, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(copy(device, host.data(), 64, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(copy(device, pinned, 64, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(device, host.data(), 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(copy(pinned, device, 64, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  // Copies and fills that end beyond the allocation.
  EXPECT_EQ(copy(device + 1, pinned, 64, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(device, 0, 65, stream_), cudaErrorInvalidValue);
  release(device, stream_);
  EXPECT_EQ(copy(pinned, device, 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeAsync(device, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(pinned), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(HostMemory, PageableMemoryIsReadAtOnceAndWaitedFor) {
  float value = 1, back = 0;
  float* device = allocate(sizeof value, stream_);
  auto gate = hold(stream_);
  EXPECT_EQ(cudaMemcpyAsync(device, &value, sizeof value, cudaMemcpyHostToDevice, stream_),
            cudaSuccess);
  value = 2;
  gate.set_value();
  const Counters before = counters();
  EXPECT_EQ(cudaMemcpyAsync(&back, device, sizeof back, cudaMemcpyDeviceToHost, stream_),
            cudaSuccess);
  EXPECT_EQ(back, 1);
  EXPECT_EQ(counters().host_waits, before.host_waits + 1);
  EXPECT_EQ(counters().pageable_copies, before.pageable_copies + 1);
  release(device, stream_);
}

TEST_F(HostMemory, PinnedMemoryIsReadWhenTheStreamComesToIt) {
  float *pinned = nullptr, back = 0;
  EXPECT_EQ(cudaMallocHost(&pinned, sizeof(float)), cudaSuccess);
  float* device = allocate(sizeof(float), stream_);
  *pinned = 1;
  auto gate = hold(stream_);
  EXPECT_EQ(cudaMemcpyAsync(device, pinned, sizeof(float), cudaMemcpyHostToDevice, stream_),
            cudaSuccess);
  *pinned = 2;
  gate.set_value();
  EXPECT_EQ(cudaMemcpyAsync(&back, device, sizeof back, cudaMemcpyDeviceToHost, stream_),
            cudaSuccess);
  EXPECT_EQ(back, 2);
  release(device, stream_);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

}  // namespace
}  // namespace cuda_on_host
