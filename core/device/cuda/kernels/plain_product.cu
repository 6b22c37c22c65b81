#include "core/device/cuda/kernels/plain_product.h"

#include "core/device/cuda/runtime/launch.h"
#include "core/device/cuda/kernels/vectors.cuh"

namespace ringside::cuda {
namespace {

constexpr int threads = 256;
constexpr std::int64_t most_rows = 65535;  // largest extent of a grid along y

/// Along x the grid has the elements of c, along y the products of the batch.
template <class In, class Out>
__global__ __launch_bounds__(threads) void product_elements(Product p) {
  const std::int64_t element = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (element >= p.m * p.n) return;
  const std::int64_t row = element / p.n, column = element % p.n;
  const std::int64_t step_a = p.transpose_a ? p.lda : 1, step_b = p.transpose_b ? 1 : p.ldb;
  for (std::int64_t each = blockIdx.y; each < p.batch; each += gridDim.y) {
    const In* a =
        static_cast<const In*>(p.a) + each * p.stride_a + row * (p.transpose_a ? 1 : p.lda);
    const In* b =
        static_cast<const In*>(p.b) + each * p.stride_b + column * (p.transpose_b ? p.ldb : 1);
    float sum = 0;
    for (std::int64_t i = 0; i < p.k; ++i)
      sum += load_float(a + i * step_a) * load_float(b + i * step_b);
    store_float(static_cast<Out*>(p.c) + each * p.stride_c + row * p.ldc + column, p.alpha * sum);
  }
}

}  // namespace

void plain_product(const Context& context, const Product& product) {
  const dim3 blocks(blocks_for(product.m * product.n, threads),
                    static_cast<unsigned>(std::min(product.batch, most_rows)));
  with_type(product.in, [&]<class T>(std::type_identity<T>) {
    const auto kernel =
        product.out == DType::f32 ? product_elements<T, float> : product_elements<T, T>;
    launch(context, "product", kernel, blocks, threads, product);
  });
}

}  // namespace ringside::cuda
