// Elementwise operations on flat ranges.
//
// A body reads what it needs of n elements at once and later writes their results:
//   template <int n> __device__ auto read(std::int64_t i) const;
//   template <int n> __device__ void write(std::int64_t i, const decltype(read<n>(i))&) const;
// If an operation may run on shards of a range, its result for an element must not depend on n. The
// files of such operations are compiled without contraction of a product and a sum into one
// operation (cmake/cuda.cmake).
#pragma once

#include "core/device/cuda/runtime/launch.h"
#include "core/device/cuda/kernels/vectors.cuh"

namespace ringside::cuda {

inline constexpr int elementwise_threads = 256;

/// A range in groups of `width` elements that are aligned in every operand. The elements before and
/// after the groups are processed one by one.
struct Split {
  std::int64_t count = 0, head = 0, groups = 0;
};

template <int width, class... T>
Split split(std::int64_t count, const T*... operands) {
  std::int64_t head = 0;
  while (head < width && !(is_aligned(operands + head, width) && ...)) ++head;
  // If the operands are never aligned at the same element, there are no groups.
  if (head == width || head > count) return {.count = count};
  return {.count = count, .head = head, .groups = (count - head) / width};
}

/// Each thread reads `unroll` groups before it writes the first, so that enough memory accesses are
/// in flight.
template <int width, int unroll, class Body>
__global__ __launch_bounds__(elementwise_threads) void elementwise_kernel(Body body, Split split) {
  const std::int64_t block = blockIdx.x, blocks = gridDim.x;
  for (std::int64_t first = block * elementwise_threads * unroll + threadIdx.x;
       first < split.groups; first += blocks * elementwise_threads * unroll) {
    decltype(body.template read<width>(0)) values[unroll] = {};
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      const std::int64_t group = first + u * elementwise_threads;
      if (group < split.groups) values[u] = body.template read<width>(split.head + group * width);
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      const std::int64_t group = first + u * elementwise_threads;
      if (group < split.groups) body.template write<width>(split.head + group * width, values[u]);
    }
  }
  const std::int64_t alone = split.count - split.groups * width;
  for (std::int64_t i = block * elementwise_threads + threadIdx.x; i < alone;
       i += blocks * elementwise_threads) {
    const std::int64_t element = i < split.head ? i : i + split.groups * width;
    body.template write<1>(element, body.template read<1>(element));
  }
}

/// Runs `body` on `count` elements. `operands` are all tensors that the body reads or writes.
/// `width` must be the number of elements of the largest type that take 16 bytes.
template <int width, int unroll, class Body, class... T>
void elementwise(const Context& context, const char* name, std::int64_t count, const Body& body,
                 const T*... operands) {
  const Split parts = split<width>(count, operands...);
  const std::int64_t work =
      std::max((parts.groups + unroll - 1) / unroll, count - parts.groups * width);
  launch(context, name, elementwise_kernel<width, unroll, Body>,
         blocks_for(work, elementwise_threads, std::int64_t{32} * context.multiprocessors),
         elementwise_threads, body, parts);
}

}  // namespace ringside::cuda
