// Quantise and AddQuantised (core/device/ops/codes.h). Compiled without contraction of a product
// and a sum into one operation, so that codes are those of the CPU.
#include <algorithm>
#include <cmath>

#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/kernels/random_words.cuh"
#include "core/device/cuda/kernels/reduce.cuh"
#include "core/device/cuda/runtime/launch.h"
#include "core/num/random.h"

namespace ringside::cuda {
namespace {

constexpr int warps = 4, threads = warps * warp;
constexpr std::int64_t drawn = 1024, quarter = drawn / 4;  // elements whose u are drawn together

/// The larger of two magnitudes; a NaN is larger than every number.
__device__ __forceinline__ float larger(float a, float b) {
  return __uint_as_float(max(__float_as_uint(a), __float_as_uint(b)));
}

/// The largest magnitude of elements [begin, end), in all lanes of the warp.
__device__ __forceinline__ float norm_of(const float* in, std::int64_t begin, std::int64_t end,
                                         int lane) {
  float norm = 0;
  for (std::int64_t i = begin + lane; i < end; i += warp) norm = larger(norm, fabsf(in[i]));
#pragma unroll
  for (int lanes = warp / 2; lanes > 0; lanes /= 2)
    norm = larger(norm, __shfl_xor_sync(whole_warp, norm, lanes));
  return norm;
}

/// What an element's code is drawn with.
struct Draw {
  uint2 key;
  std::uint32_t number, step;
  bool random;

  /// Word 0 of the group of `drawn` elements.
  __device__ std::uint32_t word(std::int64_t group) const {
    const auto counter = static_cast<std::uint64_t>(group);
    return philox4x32({static_cast<std::uint32_t>(counter),
                       static_cast<std::uint32_t>(counter >> 32), number, step},
                      key)
        .x;
  }
  /// The code of element i of a group with this word.
  __device__ int code(float value, std::int64_t i, std::uint32_t word, float factor,
                      float levels) const {
    const auto place = static_cast<std::uint32_t>(i % drawn);
    const std::uint32_t h = scrambled(word + place % quarter) >> 8 * (place / quarter) & 255u;
    const float u = random ? (static_cast<float>(h) + 0.5F) * 0x1p-8F : 0.5F;
    const float level = fabsf(value) * factor + u;
    const int code = static_cast<int>(level < levels ? level : levels);
    return value < 0 ? -code : code;
  }
};

/// Each warp rounds one block of elements to bytes.
__global__ __launch_bounds__(threads) void round_blocks(const float* in, std::int64_t count,
                                                        std::int64_t block, std::uint8_t* codes,
                                                        float* norms, std::int64_t blocks,
                                                        Draw draw) {
  constexpr float levels = code_levels(8);
  const std::int64_t own = std::int64_t{blockIdx.x} * warps + threadIdx.x / warp;
  if (own >= blocks) return;
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const std::int64_t begin = own * block;
  const std::int64_t end = begin + block < count ? begin + block : count;
  const float norm = norm_of(in, begin, end, lane);
  if (lane == 0) norms[own] = norm;
  const float factor = norm > 0 ? levels / norm : 0;
  for (std::int64_t group = begin / drawn; group * drawn < end; ++group) {
    const std::uint32_t word = draw.word(group);
    const std::int64_t first = begin > group * drawn ? begin : group * drawn;
    const std::int64_t last = end < (group + 1) * drawn ? end : (group + 1) * drawn;
    for (std::int64_t i = first + lane; i < last; i += warp)
      codes[i] = static_cast<std::uint8_t>(draw.code(in[i], i, word, factor, levels));
  }
}

/// The same with two codes in a byte: each lane rounds two neighbours at a time.
__global__ __launch_bounds__(threads) void round_to_halves(const float* in, std::int64_t count,
                                                           std::int64_t block, std::uint8_t* codes,
                                                           float* norms, std::int64_t blocks,
                                                           Draw draw) {
  constexpr float levels = code_levels(4);
  const std::int64_t own = std::int64_t{blockIdx.x} * warps + threadIdx.x / warp;
  if (own >= blocks) return;
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const std::int64_t begin = own * block;
  const std::int64_t end = begin + block < count ? begin + block : count;
  const float norm = norm_of(in, begin, end, lane);
  if (lane == 0) norms[own] = norm;
  const float factor = norm > 0 ? levels / norm : 0;
  std::uint8_t* out = codes + own * ((block + 1) / 2);
  std::int64_t made = -1;  // the group of `word`
  std::uint32_t word = 0;
  const auto code = [&](std::int64_t i) {
    if (i / drawn != made) word = draw.word(made = i / drawn);
    return static_cast<unsigned>(draw.code(in[i], i, word, factor, levels)) & 15u;
  };
  for (std::int64_t i = begin + 2 * lane; i < end; i += 2 * warp) {
    const unsigned first = code(i), second = i + 1 < end ? code(i + 1) : 0;
    out[(i - begin) / 2] = static_cast<std::uint8_t>(first | second << 4);
  }
}

/// The codes that one launch adds.
struct BlockCodes {
  static constexpr std::size_t most = 32;

  const std::uint8_t* codes[most];
  const float* norms[most];
  int count;
};

/// Adds up, for each element, what code_at(codes, block, place in it) says.
template <int bits, class CodeAt>
__device__ __forceinline__ void add_all(const BlockCodes& all, float* out, std::int64_t count,
                                        std::int64_t block, float scale, bool onto,
                                        const CodeAt& code_at) {
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < count; i += step) {
    const std::int64_t own = i / block, place = i % block;
    float sum = onto ? out[i] : 0;
    for (int c = 0; c < all.count; ++c) {
      const float factor = scale * all.norms[c][own] / code_levels(bits);
      sum += factor * static_cast<float>(code_at(all.codes[c], own, place));
    }
    out[i] = sum;
  }
}

__global__ __launch_bounds__(threads) void add_codes(BlockCodes all, float* out, std::int64_t count,
                                                     std::int64_t block, float scale, bool onto) {
  add_all<8>(all, out, count, block, scale, onto,
             [block](const std::uint8_t* codes, std::int64_t own, std::int64_t place) -> int {
               return static_cast<std::int8_t>(codes[own * block + place]);
             });
}

__global__ __launch_bounds__(threads) void add_halves(BlockCodes all, float* out,
                                                      std::int64_t count, std::int64_t block,
                                                      float scale, bool onto) {
  add_all<4>(all, out, count, block, scale, onto,
             [block](const std::uint8_t* codes, std::int64_t own, std::int64_t place) {
               const std::uint32_t both = codes[own * ((block + 1) / 2) + place / 2];
               return static_cast<int>(both << (place % 2 == 0 ? 28 : 24)) >> 28;
             });
}

}  // namespace

void quantise(const Context& context, const Quantise& op) {
  const auto key = code_key(op.seed);
  const std::int64_t blocks = op.norms.count();
  launch(context, "quantise", op.bits == 8 ? round_blocks : round_to_halves,
         blocks_for(blocks, warps), threads, op.in.data<float>(), op.in.count(), op.block,
         op.codes.data<std::uint8_t>(), op.norms.data<float>(), blocks,
         Draw{{key[0], key[1]}, op.number, op.step, op.random});
}

void add_quantised(const Context& context, const AddQuantised& op) {
  const std::int64_t count = op.out.count();
  for (std::size_t first = 0; first == 0 || first < op.codes.size(); first += BlockCodes::most) {
    BlockCodes all{};
    for (std::size_t c = first; c < std::min(first + BlockCodes::most, op.codes.size()); ++c) {
      all.codes[all.count] = op.codes[c].data<std::uint8_t>();
      all.norms[all.count++] = op.norms[c].data<float>();
    }
    launch(context, "add_quantised", op.bits == 8 ? add_codes : add_halves,
           blocks_for(count, threads, std::int64_t{32} * context.multiprocessors), threads, all,
           op.out.data<float>(), count, op.block, op.scale, op.onto || first > 0);
  }
}

}  // namespace ringside::cuda
