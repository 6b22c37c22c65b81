// Signs of the operations of codes (core/device/ops/codes.h).
#include <algorithm>
#include <cmath>

#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/kernels/reduce.cuh"
#include "core/device/cuda/runtime/launch.h"

namespace ringside::cuda {
namespace {

constexpr int threads = 256;
constexpr std::int64_t most_blocks = 1024;

/// Every thread packs the signs of 8 elements at a time. Each block adds up the absolute values, or
/// their squares, of every gridDim-th stretch of 8 * threads elements, always in the same order.
__global__ __launch_bounds__(threads) void pack(const float* in, std::int64_t count,
                                                std::uint8_t* signs, double* parts, bool squares) {
  double sum = 0;
  const std::int64_t bytes = (count + 7) / 8, step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t b = std::int64_t{blockIdx.x} * threads + threadIdx.x; b < bytes; b += step) {
    unsigned byte = 0;
#pragma unroll
    for (int bit = 0; bit < 8; ++bit) {
      const std::int64_t i = b * 8 + bit;
      const float value = i < count ? in[i] : 0;
      byte |= i < count && value >= 0 ? 1u << bit : 0;
      sum += squares ? double{value} * double{value} : double{fabsf(value)};
    }
    signs[b] = static_cast<std::uint8_t>(byte);
  }
  if (!parts) return;
  sum = block_sum(sum, 0);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

/// The mean, or with `root` its root.
__global__ __launch_bounds__(threads) void mean_of_parts(const double* parts, int blocks,
                                                         std::int64_t count, float* out,
                                                         bool root) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < blocks; i += threads) sum += parts[i];
  sum = block_sum(sum, 0);
  const double mean = sum / static_cast<double>(count);
  if (threadIdx.x == 0) *out = static_cast<float>(root ? sqrt(mean) : mean);
}

/// The codes that one launch adds.
struct SignCodes {
  static constexpr std::size_t most = 32;

  const std::uint8_t* signs[most];
  const float* magnitudes[most];  // null: `scale` alone counts
  int count;
};

__global__ __launch_bounds__(threads) void add_bits(SignCodes codes, float scale, float* out,
                                                    std::int64_t count, bool onto) {
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < count; i += step) {
    float sum = onto ? out[i] : 0;
    for (int c = 0; c < codes.count; ++c) {
      const float value = codes.magnitudes[c] ? scale * *codes.magnitudes[c] : scale;
      sum += codes.signs[c][i / 8] >> i % 8 & 1 ? value : -value;
    }
    out[i] = sum;
  }
}

}  // namespace

void pack_signs(const Context& context, const PackSigns& op) {
  const std::int64_t count = op.in.count();
  const unsigned blocks = blocks_for((count + 7) / 8, threads, most_blocks);
  const auto scratch = context.device.allocate(most_blocks * sizeof(double), MemoryKind::workspace);
  auto* parts = op.magnitude ? reinterpret_cast<double*>(scratch->data()) : nullptr;
  launch(context, "pack_signs", pack, blocks, threads, op.in.data<float>(), count,
         op.signs.data<std::uint8_t>(), parts, op.root_mean_square);
  if (op.magnitude)
    launch(context, "pack_signs", mean_of_parts, 1, threads, parts, static_cast<int>(blocks), count,
           op.magnitude.data<float>(), op.root_mean_square);
}

void add_signs(const Context& context, const AddSigns& op) {
  const std::int64_t count = op.out.count();
  for (std::size_t first = 0; first == 0 || first < op.signs.size(); first += SignCodes::most) {
    SignCodes codes{};
    for (std::size_t c = first; c < std::min(first + SignCodes::most, op.signs.size()); ++c) {
      codes.signs[codes.count] = op.signs[c].data<std::uint8_t>();
      codes.magnitudes[codes.count++] =
          op.magnitudes.empty() ? nullptr : op.magnitudes[c].data<float>();
    }
    launch(context, "add_signs", add_bits,
           blocks_for(count, threads, std::int64_t{32} * context.multiprocessors), threads, codes,
           op.scale, op.out.data<float>(), count, op.onto || first > 0);
  }
}

}  // namespace ringside::cuda
