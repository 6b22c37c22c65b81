// Embeddings. Backward sorts the positions by token, with a stable sort. For each row of the table
// it then adds up the row's positions in order, so the result does not depend on timing.
#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/runtime/launch.h"
#include "core/device/cuda/kernels/reduce.cuh"
#include "core/device/cuda/kernels/vectors.cuh"

namespace ringside::cuda {
namespace {

constexpr int row_threads = 128;

/// Each block looks up one position.
template <class T, int n>
__global__ __launch_bounds__(row_threads) void look_up(const std::int32_t* tokens, const T* table,
                                                       const T* places, T* y, int positions,
                                                       std::int64_t width) {
  const std::int64_t row = blockIdx.x;
  const T* token = table + tokens[row] * width;
  const T* place = places ? places + row % positions * width : nullptr;
  for (std::int64_t c = std::int64_t{threadIdx.x} * n; c < width; c += row_threads * n) {
    Floats<n> values = load_floats<n>(token + c);
    if (place) {
      const Floats<n> more = load_floats<n>(place + c);
#pragma unroll
      for (int i = 0; i < n; ++i) values.at[i] += more.at[i];
    }
    store_floats<n>(y + row * width + c, values);
  }
}

__global__ void number(std::int32_t* out, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) out[i] = i;
}

/// begins[v] = the number of sorted tokens that are less than v, for v in [0, rows].
__global__ void find_begins(const std::uint32_t* sorted, int count, std::int32_t* begins,
                            std::int64_t rows) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i > count) return;
  const std::int64_t from = i == 0 ? 0 : std::int64_t{sorted[i - 1]} + 1;
  const std::int64_t to = i == count ? rows : std::int64_t{sorted[i]};
  for (std::int64_t v = from; v <= to; ++v) begins[v] = i;
}

/// The positions of dy that a row of the token table sums.
struct ByToken {
  const std::int32_t *order, *begins;

  __device__ int count(std::int64_t row) const { return begins[row + 1] - begins[row]; }
  __device__ std::int64_t position(std::int64_t row, int i) const { return order[begins[row] + i]; }
};

/// The positions of dy that a row of the position table sums: one of each sample. A row beyond the
/// last position sums none.
struct ByPlace {
  int samples, positions;

  __device__ int count(std::int64_t row) const { return row < positions ? samples : 0; }
  __device__ std::int64_t position(std::int64_t row, int i) const {
    return std::int64_t{i} * positions + row;
  }
};

constexpr int sharers = 8;  // ranges of the positions of a row, each with a warp of its own

/// Each block computes one row of the table. It divides the row's positions into `sharers` ranges
/// and sums each in order.
template <class T, int n, class Positions>
__global__ __launch_bounds__(warp* sharers) void gather(Positions of, const T* dy, T* table,
                                                        std::int64_t width) {
  const std::int64_t row = blockIdx.x;
  const int count = of.count(row);
  const int begin = static_cast<int>(std::int64_t{count} * threadIdx.y / sharers);
  const int end = static_cast<int>(std::int64_t{count} * (threadIdx.y + 1) / sharers);
  for (std::int64_t first = 0; first < width; first += warp * n) {
    const std::int64_t c = first + std::int64_t{threadIdx.x} * n;
    Floats<n> sums = {};
    if (c < width)
#pragma unroll 4
      for (int i = begin; i < end; ++i) {
        const Floats<n> values = load_floats<n>(dy + of.position(row, i) * width + c);
#pragma unroll
        for (int e = 0; e < n; ++e) sums.at[e] += values.at[e];
      }
    if (count > 1) sum_over_y<sharers>(sums.at);
    // The threads of the first range hold the sum of all ranges. But if the row has a single
    // position, the position lies in the last range, and the threads of that range hold the sum.
    if (threadIdx.y != (count == 1 ? sharers - 1 : 0) || c >= width) continue;
    store_floats<n>(table + row * width + c, sums);
  }
}

template <class T, class Positions>
void gather_rows(const Context& context, const Positions& of, const Tensor& dy,
                 const Tensor& table) {
  constexpr int n = in_16_bytes<T>;
  const std::int64_t width = table.shape()[1];
  const bool aligned =
      has_aligned_rows(data<T>(dy), width) && has_aligned_rows(data<T>(table), width);
  const auto kernel = aligned ? gather<T, n, Positions> : gather<T, 1, Positions>;
  launch(context, "embedding_backward", kernel, blocks_for(table.shape()[0], 1),
         dim3(warp, sharers), of, data<T>(dy), data<T>(table), width);
}

/// Scratch memory of the sort. It must live until the kernels that use it have been enqueued.
struct Sorted {
  std::shared_ptr<Buffer> memory;
  ByToken by_token{};
};

Sorted sort_by_token(const Context& context, const Tensor& tokens, std::int64_t rows) {
  const int count = static_cast<int>(tokens.count());
  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(rows - 1)));
  // Tokens are not negative, so they can be sorted as unsigned numbers.
  const auto* keys = reinterpret_cast<const std::uint32_t*>(tokens.data<std::int32_t>());
  std::size_t sort_bytes = 0;
  const auto sort = [&](void* scratch, std::uint32_t* sorted, const std::int32_t* numbers,
                        std::int32_t* order) {
    use(context);
    check(cub::DeviceRadixSort::SortPairs(scratch, sort_bytes, keys, sorted, numbers, order, count,
                                          0, std::max(bits, 1), context.stream),
          "embedding_backward: cub::DeviceRadixSort");
  };
  sort(nullptr, nullptr, nullptr, nullptr);  // only sets sort_bytes to what sorting needs

  const auto part = static_cast<std::size_t>(count + 63) / 64 * 64 * sizeof(std::int32_t);
  const auto begins_bytes = static_cast<std::size_t>(rows / 64 + 1) * 64 * sizeof(std::int32_t);
  auto memory =
      context.device.allocate(3 * part + begins_bytes + sort_bytes, MemoryKind::workspace);
  auto* numbers = reinterpret_cast<std::int32_t*>(memory->data());
  auto* order = reinterpret_cast<std::int32_t*>(memory->data() + part);
  auto* sorted = reinterpret_cast<std::uint32_t*>(memory->data() + 2 * part);
  auto* begins = reinterpret_cast<std::int32_t*>(memory->data() + 3 * part);
  constexpr int threads = 256;
  launch(context, "embedding_backward", number, blocks_for(count, threads), threads, numbers,
         count);
  sort(memory->data() + 3 * part + begins_bytes, sorted, numbers, order);
  launch(context, "embedding_backward", find_begins, blocks_for(count + 1, threads), threads,
         sorted, count, begins, rows);
  return {std::move(memory), {order, begins}};
}

template <class T>
void forward(const Context& context, const EmbeddingForward& op) {
  constexpr int n = in_16_bytes<T>;
  const T *table = data<T>(op.token_table), *places = data<T>(op.position_table);
  T* y = data<T>(op.y);
  const std::int64_t width = op.token_table.shape()[1];
  const bool aligned = has_aligned_rows(table, width) && has_aligned_rows(places, width) &&
                       has_aligned_rows(y, width);
  launch(context, "embedding_forward", aligned ? look_up<T, n> : look_up<T, 1>,
         blocks_for(op.tokens.count(), 1), row_threads, op.tokens.data<std::int32_t>(), table,
         places, y, static_cast<int>(op.tokens.shape()[1]), width);
}

template <class T>
void backward(const Context& context, const EmbeddingBackward& op) {
  const Sorted sorted = sort_by_token(context, op.tokens, op.dtoken_table.shape()[0]);
  gather_rows<T>(context, sorted.by_token, op.dy, op.dtoken_table);
  if (!op.dposition_table) return;
  const ByPlace by_place{static_cast<int>(op.tokens.shape()[0]),
                         static_cast<int>(op.tokens.shape()[1])};
  gather_rows<T>(context, by_place, op.dy, op.dposition_table);
}

}  // namespace

void embedding_forward(const Context& context, const EmbeddingForward& op) {
  with_type(op.y.dtype(), [&]<class T>(std::type_identity<T>) { forward<T>(context, op); });
}

void embedding_backward(const Context& context, const EmbeddingBackward& op) {
  with_type(op.dy.dtype(), [&]<class T>(std::type_identity<T>) { backward<T>(context, op); });
}

}  // namespace ringside::cuda
