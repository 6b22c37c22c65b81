// Selection, and moves by index, of the operations of codes (core/device/ops/codes.h).
#include <cmath>

#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/kernels/random_words.cuh"
#include "core/device/cuda/kernels/reduce.cuh"
#include "core/device/cuda/runtime/launch.h"
#include "core/num/random.h"

namespace ringside::cuda {
namespace {

constexpr int threads = 256;
constexpr int tiles = 16;  // tiles of one element a thread that a block looks through
constexpr std::int64_t stretch = std::int64_t{threads} * tiles;
constexpr int digits = 256;  // values of the 8 bits of a key that a pass looks at

/// Absolute values in the order of their keys: floats without their sign, as integers of 31 bits.
__device__ __forceinline__ unsigned key_of(float value) {
  return __float_as_uint(value) & 0x7fffffffu;
}

/// The search for the key of the k-th largest element, by its digits from the highest on (radix
/// selection), and afterwards the number of elements with that key that are selected.
struct Search {
  unsigned key = 0;      // the digits found so far
  unsigned missing = 0;  // how many elements with these digits are still to be selected
  unsigned counts[digits] = {};
};

__global__ void begin_search(Search* search, unsigned k) {
  if (threadIdx.x == 0) {
    search->key = 0;
    search->missing = k;
  }
  search->counts[threadIdx.x] = 0;
}

/// Counts the next digits of the elements whose higher digits are those of the search.
__global__ __launch_bounds__(threads) void count_digits(const float* in, std::int64_t count,
                                                        int shift, Search* search) {
  __shared__ unsigned counts[digits];
  counts[threadIdx.x] = 0;
  __syncthreads();
  const unsigned above = search->key;
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < count; i += step) {
    const unsigned key = key_of(in[i]);
    const bool fits = shift == 24 || key >> (shift + 8) == above >> (shift + 8);
    if (fits) atomicAdd(&counts[key >> shift & (digits - 1)], 1u);
  }
  __syncthreads();
  if (counts[threadIdx.x] > 0) atomicAdd(&search->counts[threadIdx.x], counts[threadIdx.x]);
}

__global__ void choose_digit(int shift, Search* search) {
  if (threadIdx.x == 0) {
    int digit = digits - 1;
    while (search->counts[digit] < search->missing) search->missing -= search->counts[digit--];
    search->key |= static_cast<unsigned>(digit) << shift;
  }
  __syncthreads();
  search->counts[threadIdx.x] = 0;
}

/// The numbers of elements before a place: with larger keys than that of the search, and with the
/// same.
struct Before {
  unsigned larger = 0, equal = 0;
};

/// The rank of this thread's element among those of the block whose `flag` is set; `total` becomes
/// their number. All threads of the block call it.
__device__ __forceinline__ unsigned rank_in_block(bool flag, unsigned& total) {
  __shared__ unsigned of_warps[threads / warp];
  const unsigned votes = __ballot_sync(whole_warp, flag ? 1 : 0);
  const unsigned lane = threadIdx.x % warp, mine = threadIdx.x / warp;
  if (lane == 0) of_warps[mine] = static_cast<unsigned>(__popc(votes));
  __syncthreads();
  unsigned rank = static_cast<unsigned>(__popc(votes & ((1u << lane) - 1)));
  total = 0;
  for (unsigned w = 0; w < threads / warp; ++w) {
    if (w < mine) rank += of_warps[w];
    total += of_warps[w];
  }
  __syncthreads();
  return rank;
}

__global__ __launch_bounds__(threads) void count_stretches(const float* in, std::int64_t count,
                                                           const Search* search, Before* before) {
  const unsigned threshold = search->key;
  unsigned sums[2] = {0, 0};
  const std::int64_t begin = std::int64_t{blockIdx.x} * stretch;
  for (int t = 0; t < tiles; ++t) {
    const std::int64_t i = begin + t * threads + threadIdx.x;
    const unsigned key = i < count ? key_of(in[i]) : 0;
    sums[0] += i < count && key > threshold ? 1 : 0;
    sums[1] += i < count && key == threshold ? 1 : 0;
  }
  block_sum(sums, 0);
  if (threadIdx.x == 0) before[blockIdx.x] = {sums[0], sums[1]};
}

/// Makes of the counts of stretches the counts before each stretch. One block; every thread adds up
/// consecutive stretches.
__global__ __launch_bounds__(threads) void add_up_stretches(Before* before, int stretches) {
  __shared__ Before sums[threads];
  const int each = (stretches + threads - 1) / threads;
  const int first = static_cast<int>(threadIdx.x) * each;
  Before sum;
  for (int s = first; s < first + each && s < stretches; ++s) {
    sum.larger += before[s].larger;
    sum.equal += before[s].equal;
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  Before at;
  for (unsigned t = 0; t < threadIdx.x; ++t) {
    at.larger += sums[t].larger;
    at.equal += sums[t].equal;
  }
  for (int s = first; s < first + each && s < stretches; ++s) {
    const Before own = before[s];
    before[s] = at;
    at.larger += own.larger;
    at.equal += own.equal;
  }
}

__global__ __launch_bounds__(threads) void write_selected(const float* in, std::int64_t count,
                                                          const Search* search,
                                                          const Before* before,
                                                          std::int32_t* indices, float* values) {
  const unsigned threshold = search->key, ties = search->missing;
  Before at = before[blockIdx.x];
  const std::int64_t begin = std::int64_t{blockIdx.x} * stretch;
  for (int t = 0; t < tiles; ++t) {
    const std::int64_t i = begin + t * threads + threadIdx.x;
    const float value = i < count ? in[i] : 0;
    const bool larger = i < count && key_of(value) > threshold;
    const bool equal = i < count && key_of(value) == threshold;
    unsigned all_larger = 0, all_equal = 0;
    const unsigned larger_before = at.larger + rank_in_block(larger, all_larger);
    const unsigned equal_before = at.equal + rank_in_block(equal, all_equal);
    if (larger || (equal && equal_before < ties)) {
      const unsigned to = larger_before + (equal_before < ties ? equal_before : ties);
      indices[to] = static_cast<std::int32_t>(i);
      values[to] = value;
    }
    at.larger += all_larger;
    at.equal += all_equal;
  }
}

__global__ __launch_bounds__(threads) void draw(std::int32_t* indices, std::int64_t k,
                                                std::int64_t below, uint2 key, std::uint32_t number,
                                                std::uint32_t step) {
  const std::int64_t j = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (j >= k) return;
  const auto four = static_cast<std::uint64_t>(j) / 4;
  const uint4 words = philox4x32(
      {static_cast<std::uint32_t>(four), static_cast<std::uint32_t>(four >> 32), number, step},
      key);
  const std::int64_t begin = j * below / k, size = (j + 1) * below / k - begin;
  const std::uint64_t drawn =
      word_of(words, static_cast<int>(j % 4)) * static_cast<std::uint64_t>(size) >> 32;
  const std::uint32_t word = philox4x32({~0u, ~0u, number, step}, key).x;
  const std::int64_t distance =
      static_cast<std::int64_t>(word * static_cast<std::uint64_t>(below) >> 32);
  const std::int64_t moved = begin + static_cast<std::int64_t>(drawn) + distance;
  indices[j] = static_cast<std::int32_t>(moved < below ? moved : moved - below);
}

__global__ __launch_bounds__(threads) void take(const float* in, const std::int32_t* indices,
                                                float* out, std::int64_t k) {
  const std::int64_t j = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (j < k) out[j] = in[indices[j]];
}

__global__ __launch_bounds__(threads) void put(const float* in, const std::int32_t* indices,
                                               float* out, std::int64_t k, std::int64_t count,
                                               float scale) {
  const std::int64_t j = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (j < k && indices[j] >= 0 && indices[j] < count) out[indices[j]] += scale * in[j];
}

/// 53 bits as a number above 0, at most 1.
__device__ __forceinline__ double open_unit(std::uint32_t low, std::uint32_t high) {
  const std::uint64_t bits = std::uint64_t{high} << 32 | low;
  return (static_cast<double>(bits >> 11) + 1) * 0x1p-53;
}

/// Box-Muller on the four words of each counter, as ringside::random_normal().
__global__ __launch_bounds__(threads) void draw_normals(float* out, std::int64_t count,
                                                        std::uint32_t number, uint2 key) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i >= count) return;
  const uint4 words = philox4x32(
      {static_cast<std::uint32_t>(i), number, static_cast<std::uint32_t>(Stream::codes), 0}, key);
  const double radius = sqrt(-2.0 * log(open_unit(words.x, words.y)));
  constexpr double turn = 6.283185307179586;
  out[i] = static_cast<float>(radius * cos(turn * open_unit(words.z, words.w)));
}

}  // namespace

void select_top_k(const Context& context, const SelectTopK& op) {
  const float* in = op.in.data<float>();
  const std::int64_t count = op.in.count();
  const unsigned stretches = blocks_for(count, stretch);
  const auto scratch =
      context.device.allocate(sizeof(Search) + stretches * sizeof(Before), MemoryKind::workspace);
  auto* search = reinterpret_cast<Search*>(scratch->data());
  auto* before = reinterpret_cast<Before*>(scratch->data() + sizeof(Search));
  const char* name = "select_top_k";
  launch(context, name, begin_search, 1, digits, search, static_cast<unsigned>(op.indices.count()));
  const unsigned blocks = blocks_for(count, stretch, std::int64_t{8} * context.multiprocessors);
  for (int shift = 24; shift >= 0; shift -= 8) {
    launch(context, name, count_digits, blocks, threads, in, count, shift, search);
    launch(context, name, choose_digit, 1, digits, shift, search);
  }
  launch(context, name, count_stretches, stretches, threads, in, count, search, before);
  launch(context, name, add_up_stretches, 1, threads, before, static_cast<int>(stretches));
  launch(context, name, write_selected, stretches, threads, in, count, search, before,
         op.indices.data<std::int32_t>(), op.values.data<float>());
}

void draw_indices(const Context& context, const DrawIndices& op) {
  const std::int64_t k = op.indices.count();
  const auto key = code_key(op.seed);
  launch(context, "draw_indices", draw, blocks_for(k, threads), threads,
         op.indices.data<std::int32_t>(), k, op.below, uint2{key[0], key[1]}, op.number, op.step);
}

void draw_normal(const Context& context, const DrawNormal& op) {
  const std::int64_t count = op.out.count();
  launch(context, "draw_normal", draw_normals, blocks_for(count, threads), threads,
         op.out.data<float>(), count, op.number,
         uint2{static_cast<std::uint32_t>(op.seed), static_cast<std::uint32_t>(op.seed >> 32)});
}

void take_elements(const Context& context, const TakeElements& op) {
  const std::int64_t k = op.out.count();
  launch(context, "take_elements", take, blocks_for(k, threads), threads, op.in.data<float>(),
         op.indices.data<std::int32_t>(), op.out.data<float>(), k);
}

void add_elements(const Context& context, const AddElements& op) {
  const std::int64_t k = op.in.count();
  launch(context, "add_elements", put, blocks_for(k, threads), threads, op.in.data<float>(),
         op.indices.data<std::int32_t>(), op.out.data<float>(), k, op.out.count(), op.scale);
}

}  // namespace ringside::cuda
