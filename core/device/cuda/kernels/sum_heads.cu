#include "core/device/cuda/kernels/sum_heads.h"

#include "core/device/cuda/runtime/launch.h"
#include "core/device/cuda/kernels/vectors.cuh"

namespace ringside::cuda {
namespace {

constexpr int threads = 256;

template <class T>
__global__ __launch_bounds__(threads) void add_up(SumHeads op) {
  const std::int64_t each = op.positions * op.depth;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < each;
       i += std::int64_t{gridDim.x} * threads) {
    float sum = 0;
    for (std::int64_t head = 0; head < op.heads; ++head) sum += op.parts[head * each + i];
    store_float(static_cast<T*>(op.out) + i / op.depth * op.stride + i % op.depth, sum);
  }
}

}  // namespace

void sum_heads(const Context& context, const SumHeads& op) {
  with_type(op.dtype, [&]<class T>(std::type_identity<T>) {
    launch(context, "sum_heads", add_up<T>,
           blocks_for(op.positions * op.depth, threads,
                      std::int64_t{32} * context.multiprocessors),
           threads, op);
  });
}

}  // namespace ringside::cuda
