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

constexpr int warps = 4, threads = warps * warp;
constexpr float levels = 127;
constexpr std::int64_t drawn = 1024, quarter = drawn / 4;  // elements whose u are drawn together

/// The larger of two magnitudes; a NaN is larger than every number.
__device__ __forceinline__ float larger(float a, float b) {
  return __uint_as_float(max(__float_as_uint(a), __float_as_uint(b)));
}

/// Each warp rounds one block of elements.
__global__ __launch_bounds__(threads) void round_blocks(const float* in, std::int64_t count,
                                                        std::int64_t block, std::uint8_t* codes,
                                                        float* norms, std::int64_t blocks,
                                                        uint2 key, std::uint32_t number,
                                                        std::uint32_t step) {
  const std::int64_t own = std::int64_t{blockIdx.x} * warps + threadIdx.x / warp;
  if (own >= blocks) return;
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const std::int64_t begin = own * block;
  const std::int64_t end = begin + block < count ? begin + block : count;
  float norm = 0;
  for (std::int64_t i = begin + lane; i < end; i += warp) norm = larger(norm, fabsf(in[i]));
#pragma unroll
  for (int lanes = warp / 2; lanes > 0; lanes /= 2)
    norm = larger(norm, __shfl_xor_sync(whole_warp, norm, lanes));
  if (lane == 0) norms[own] = norm;
  const float factor = norm > 0 ? levels / norm : 0;
  for (std::int64_t group = begin / drawn; group * drawn < end; ++group) {
    const auto counter = static_cast<std::uint64_t>(group);
    const uint4 words = philox4x32({static_cast<std::uint32_t>(counter),
                                    static_cast<std::uint32_t>(counter >> 32), number, step},
                                   key);
    const std::int64_t first = begin > group * drawn ? begin : group * drawn;
    const std::int64_t last = end < (group + 1) * drawn ? end : (group + 1) * drawn;
    for (std::int64_t i = first + lane; i < last; i += warp) {
      const auto place = static_cast<std::uint32_t>(i % drawn);
      const std::uint32_t word = scrambled(words.x + place % quarter);
      const std::uint32_t h = word >> 8 * (place / quarter) & 255u;
      const float u = (static_cast<float>(h) + 0.5F) * 0x1p-8F;
      const float level = fabsf(in[i]) * factor + u;
      const int code = static_cast<int>(level < levels ? level : levels);
      codes[i] = static_cast<std::uint8_t>(in[i] < 0 ? -code : code);
    }
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
  const std::int64_t blocks = op.norms.count();
  launch(context, "quantise", round_blocks, blocks_for(blocks, warps), threads, op.in.data<float>(),
         op.in.count(), op.block, op.codes.data<std::uint8_t>(), op.norms.data<float>(), blocks,
         uint2{key[0], key[1]}, op.number, op.step);
}

void add_quantised(const Context& context, const AddQuantised& op) {
  const std::int64_t count = op.out.count();
  launch(context, "add_quantised", add_codes,
         blocks_for(count, threads, std::int64_t{32} * context.multiprocessors), threads,
         op.codes.data<std::uint8_t>(), op.norms.data<float>(), op.out.data<float>(), count,
         op.block, op.scale);
}

}  // namespace ringside::cuda
