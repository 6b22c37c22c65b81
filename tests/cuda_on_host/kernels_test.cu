// Tests of kernels on the host: barriers of a block, shuffles of a warp, sorts, bf16, NVTX ranges.
#include <cuda_bf16.h>
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>

#include <cub/cub.cuh>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/cuda_on_host/control.h"

namespace cuda_on_host {
namespace {

template <class T>
struct Array {
  T* data = nullptr;
  std::size_t size;
  explicit Array(const std::vector<T>& values) : size(values.size()) {
    EXPECT_EQ(cudaMalloc(&data, size * sizeof(T)), cudaSuccess);
    std::copy(values.begin(), values.end(), data);  // no stream uses the memory yet
  }
  ~Array() { EXPECT_EQ(cudaFree(data), cudaSuccess); }
  std::vector<T> values() const {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return {data, data + size};
  }
};

class HostKernel : public testing::Test {
 protected:
  HostKernel() {
    (void)cudaGetLastError();  // of the test before: a stream that was not ready is one
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  ~HostKernel() override { EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess); }

  template <class... P, class... A>
  void launch(void (*kernel)(P...), dim3 grid, dim3 block, A&&... arguments) {
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.stream = stream_;
    ASSERT_EQ(cudaLaunchKernelEx(&config, kernel, std::forward<A>(arguments)...), cudaSuccess);
  }

  cudaStream_t stream_ = nullptr;
};

__global__ void fill_positions(int* out) {
  const unsigned block =
      blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * static_cast<unsigned>(blockIdx.z));
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] += static_cast<int>(thread);
}

TEST_F(HostKernel, EveryThreadOfEveryBlockRunsOnce) {
  const dim3 grid(3, 2, 2), block(5, 3, 2);
  Array<int> out(std::vector<int>(12 * 30, 0));
  const auto before = counters().launches;
  launch(fill_positions, grid, block, out.data);
  const auto values = out.values();
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], static_cast<int>(i % 30));
  EXPECT_EQ(counters().launches, before + 1);
}

// Adds up values as real kernels do: each warp adds up its values by shuffles, then the first warp
// adds up the sums of all warps.
__global__ void __launch_bounds__(1024) sum_blocks(const float* in, float* out, float* all, int n) {
  __shared__ float sums[32];
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int warps = threads / warpSize;
  float sum = 0;
  for (int i = thread; i < n; i += threads) sum += __ldg(in + static_cast<int>(blockIdx.x) * n + i);
#pragma unroll
  for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(0xffffffff, sum, by);
  if (thread % warpSize == 0) sums[thread / warpSize] = sum;
  __syncthreads();
  if (thread < warpSize) {
    sum = thread < warps ? sums[thread] : 0;
    for (int by = 16; by > 0; by /= 2)
      sum += __shfl_down_sync(0xffffffff, sum, static_cast<unsigned>(by));
    if (thread == 0) sums[0] = sum;
  }
  __syncthreads();
  out[static_cast<int>(blockIdx.x) * threads + thread] = sums[0];
  if (thread == 0) atomicAdd(all, sums[0]);
}

TEST_F(HostKernel, BarriersAndShufflesMakeSums) {
  for (const unsigned threads : {32u, 96u, 256u, 1024u}) {
    const int n = 777, blocks = 3;
    std::vector<float> values(static_cast<std::size_t>(n * blocks));
    std::iota(values.begin(), values.end(), 0.f);
    Array<float> in(values), all({0}), out(std::vector<float>(threads * blocks, -1));
    launch(sum_blocks, blocks, threads, in.data, out.data, all.data, n);
    const auto sums = out.values();
    float total = 0;
    for (std::size_t block = 0; block < blocks; ++block) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(block) * n;
      const float expected = std::accumulate(first, first + n, 0.f);
      total += expected;
      for (std::size_t i = 0; i < threads; ++i) ASSERT_EQ(sums[block * threads + i], expected);
    }
    EXPECT_EQ(all.values()[0], total);
  }
}

__global__ void shuffle(int* out, unsigned* votes) {
  const int lane = static_cast<int>(threadIdx.x);
  int* mine = out + lane * 6;
  mine[0] = __shfl_sync(0xffffffff, lane, 7);
  mine[1] = __shfl_sync(0xffffffff, lane, 3, 8);
  mine[2] = __shfl_xor_sync(0xffffffff, lane, 1);
  mine[3] = __shfl_down_sync(0xffffffff, lane, 2, 16);
  mine[4] = __shfl_up_sync(0xffffffff, lane, 1);
  mine[5] = __shfl_xor_sync(0xffffffff, lane, 24, 16);
  votes[lane] = __ballot_sync(0xffffffff, lane % 3 == 0);
}

TEST_F(HostKernel, ShufflesTakeFromTheLanesThatTheySay) {
  Array<int> out(std::vector<int>(32 * 6, -1));
  Array<unsigned> votes(std::vector<unsigned>(32, 0));
  launch(shuffle, 1, 32, out.data, votes.data);
  const auto values = out.values();
  unsigned expected_votes = 0;
  for (int i = 0; i < 32; i += 3) expected_votes |= 1u << i;
  for (int lane = 0; lane < 32; ++lane) {
    const int* mine = values.data() + lane * 6;
    EXPECT_EQ(mine[0], 7);
    EXPECT_EQ(mine[1], lane / 8 * 8 + 3);
    EXPECT_EQ(mine[2], lane ^ 1);
    EXPECT_EQ(mine[3], lane % 16 < 14 ? lane + 2 : lane);
    EXPECT_EQ(mine[4], lane > 0 ? lane - 1 : 0);
    // The width of 16 makes two groups of 16 lanes. A lane of the first group would read from the
    // second. It keeps its own value, because no lane can read from a later group.
    EXPECT_EQ(mine[5], lane < 16 ? lane : lane ^ 24);
    EXPECT_EQ(votes.values()[static_cast<std::size_t>(lane)], expected_votes);
  }
}

__global__ void wait_in_half_of_the_block() {
  if (threadIdx.x < 32) __syncthreads();
}
__global__ void wait_at_two_barriers() {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
}
__global__ void shuffle_in_half_of_the_warp(int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(0xffffffff, 1, 1);
}

TEST_F(HostKernel, ABarrierThatNotAllReachEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Array<int> out(std::vector<int>(32, 0));
  const auto run = [&](auto kernel, auto... arguments) {
    launch(kernel, 2, 64, arguments...);
    cudaDeviceSynchronize();
  };
  EXPECT_DEATH(run(wait_in_half_of_the_block), "kernels_test.cu:.*32 wait at a __syncthreads");
  EXPECT_DEATH(run(wait_at_two_barriers), "thread 32 of block .0, 0, 0. waits at another");
  EXPECT_DEATH(run(shuffle_in_half_of_the_warp, out.data), "thread 0 .*lanes that do not come");
}

TEST_F(HostKernel, LaunchesThatAGpuRefusesAreRefused) {
  cudaLaunchConfig_t config{};
  EXPECT_EQ(cudaLaunchKernelEx(&config, wait_at_two_barriers), cudaErrorInvalidResourceHandle);
  config.stream = stream_;
  config.blockDim = 1025;
  EXPECT_EQ(cudaLaunchKernelEx(&config, wait_at_two_barriers), cudaErrorInvalidConfiguration);
  config.blockDim = 32;
  config.gridDim = dim3(0);
  EXPECT_EQ(cudaLaunchKernelEx(&config, wait_at_two_barriers), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
}

TEST_F(HostKernel, RadixSortIsStableAndLooksAtItsBitsAlone) {
  const std::vector<int> keys{5, -1, 3, 5, 0, 3, -1, 9};
  Array<int> in(keys), sorted(std::vector<int>(8)), order({0, 1, 2, 3, 4, 5, 6, 7}),
      places(std::vector<int>(8));
  std::size_t bytes = 0;
  const auto sort = [&](void* storage, int end_bit) {
    return cub::DeviceRadixSort::SortPairs(storage, bytes, in.data, sorted.data, order.data,
                                           places.data, 8, 0, end_bit, stream_);
  };
  EXPECT_EQ(sort(nullptr, 32), cudaSuccess);
  Array<char> storage(std::vector<char>(bytes, 0));
  EXPECT_EQ(sort(storage.data, 32), cudaSuccess);
  EXPECT_EQ(sorted.values(), (std::vector<int>{-1, -1, 0, 3, 3, 5, 5, 9}));
  EXPECT_EQ(places.values(), (std::vector<int>{1, 6, 4, 2, 5, 0, 3, 7}));
  EXPECT_EQ(sort(storage.data, 1), cudaSuccess);
  EXPECT_EQ(places.values(), (std::vector<int>{4, 0, 1, 2, 3, 5, 6, 7}));
  --bytes;
  EXPECT_EQ(sort(storage.data, 32), cudaErrorInvalidValue);
}

TEST(HostBf16, RoundsToTheNearestWithTiesToEven) {
  const auto bits = [](float value) { return __bfloat16_as_ushort(__float2bfloat16_rn(value)); };
  EXPECT_EQ(bits(1.f), 0x3f80);
  EXPECT_EQ(bits(__uint_as_float(0x3f808000)), 0x3f80);  // a tie
  EXPECT_EQ(bits(__uint_as_float(0x3f818000)), 0x3f82);  // another tie
  EXPECT_EQ(bits(__uint_as_float(0x3f808001)), 0x3f81);
  EXPECT_EQ(bits(__uint_as_float(0x7f7fffff)), 0x7f80);  // infinity
  EXPECT_EQ(bits(std::numeric_limits<float>::quiet_NaN()), 0x7fff);
  EXPECT_EQ(__bfloat162float(__ushort_as_bfloat16(0xc040)), -3.f);
  const float2 pair = __bfloat1622float2(__floats2bfloat162_rn(2, -0.5f));
  EXPECT_EQ(pair.x, 2);
  EXPECT_EQ(pair.y, -0.5f);
}

TEST(HostNvtx, RangesAreSeen) {
  EXPECT_EQ(nvtxRangePushA("step"), 0);
  EXPECT_EQ(nvtxRangePushA("forward"), 1);
  EXPECT_EQ(open_ranges(), (std::vector<std::string>{"step", "forward"}));
  EXPECT_EQ(nvtxRangePop(), 1);
  EXPECT_EQ(nvtxRangePop(), 0);
}

}  // namespace
}  // namespace cuda_on_host
