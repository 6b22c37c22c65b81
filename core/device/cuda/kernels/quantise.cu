// Quantise and AddQuantised (core/device/ops/codes.h). Compiled without contraction of a product
// and a sum into one operation, so that codes are those of the CPU.
#include <cmath>

#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/kernels/random_words.cuh"
#include "core/device/cuda/kernels/reduce.cuh"
#include "core/device/cuda/runtime/launch.h"
#include "core/num/random.h"

namespace ringside::cuda {
namespace {

constexpr int threads = 128;
constexpr float levels = 127;

/// The larger of two magnitudes; a NaN is larger than every number.
__device__ __forceinline__ float larger(float a, float b) {
  return __uint_as_float(max(__float_as_uint(a), __float_as_uint(b)));
}

/// The largest of the magnitudes of the block's threads, which are not negative.
__device__ __forceinline__ float largest_of_block(float value) {
  __shared__ float parts[threads / warp];
#pragma unroll
  for (int lanes = warp / 2; lanes > 0; lanes /= 2)
    value = larger(value, __shfl_xor_sync(whole_warp, value, lanes));
  if (threadIdx.x % warp == 0) parts[threadIdx.x / warp] = value;
  __syncthreads();
  for (int w = 0; w < threads / warp; ++w) value = larger(value, parts[w]);
  return value;
}

/// One CUDA block rounds one block of elements.
__global__ __launch_bounds__(threads) void round_block(const float* in, std::int64_t count,
                                                       std::int64_t block, std::uint8_t* codes,
                                                       float* norms, uint2 key,
                                                       std::uint32_t number, std::uint32_t step) {
  const std::int64_t begin = std::int64_t{blockIdx.x} * block;
  const std::int64_t end = begin + block < count ? begin + block : count;
  float norm = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += threads)
    norm = larger(norm, fabsf(in[i]));
  norm = largest_of_block(norm);
  if (threadIdx.x == 0) norms[blockIdx.x] = norm;
  const float factor = norm > 0 ? levels / norm : 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += threads) {
    const auto eight = static_cast<std::uint64_t>(i) / 8;
    const uint4 words = philox4x32(
        {static_cast<std::uint32_t>(eight), static_cast<std::uint32_t>(eight >> 32), number, step},
        key);
    const std::uint32_t word = word_of(words, static_cast<int>(i % 8 / 2));
    const std::uint32_t half = i % 2 == 0 ? word & 0xffffu : word >> 16;
    const float u = (static_cast<float>(half) + 0.5F) * 0x1p-16F;
    const float level = fabsf(in[i]) * factor + u;
    const int code = static_cast<int>(level < levels ? level : levels);
    codes[i] = static_cast<std::uint8_t>(in[i] < 0 ? -code : code);
  }
}

__global__ __launch_bounds__(threads) void add_codes(const std::uint8_t* codes, const float* norms,
                                                     float* out, std::int64_t count,
                                                     std::int64_t block, float scale) {
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < count; i += step) {
    const float factor = scale * norms[i / block] / levels;
    out[i] += factor * static_cast<float>(static_cast<std::int8_t>(codes[i]));
  }
}

}  // namespace

void quantise(const Context& context, const Quantise& op) {
  const auto key = code_key(op.seed);
  launch(context, "quantise", round_block, static_cast<unsigned>(op.norms.count()), threads,
         op.in.data<float>(), op.in.count(), op.block, op.codes.data<std::uint8_t>(),
         op.norms.data<float>(), uint2{key[0], key[1]}, op.number, op.step);
}

void add_quantised(const Context& context, const AddQuantised& op) {
  const std::int64_t count = op.out.count();
  launch(context, "add_quantised", add_codes,
         blocks_for(count, threads, std::int64_t{32} * context.multiprocessors), threads,
         op.codes.data<std::uint8_t>(), op.norms.data<float>(), op.out.data<float>(), count,
         op.block, op.scale);
}

}  // namespace ringside::cuda
