// Each thread copies a few columns of one row.
#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/kernels/spread.cuh"
#include "core/device/cuda/kernels/vectors.cuh"

namespace ringside::cuda {
namespace {

template <class T, int n>
__global__ __launch_bounds__(spread_threads) void copy_some(Spread at, const T* in, T* out,
                                                            std::int64_t rows,
                                                            std::int64_t in_width,
                                                            std::int64_t out_width) {
  const std::int64_t row = at.row_of_grid();
  if (!at.works() || row >= rows) return;
  store<n>(out + row * out_width + at.column(), load<n>(in + row * in_width + at.column()));
}

template <class T>
void copy_all(const Context& context, const CopyColumns& op) {
  const std::int64_t rows = op.in.shape()[0];
  const std::int64_t in_width = op.in.shape()[1], out_width = op.out.shape()[1];
  const T* in = data<T>(op.in) + op.from;
  T* out = data<T>(op.out) + op.to;
  const auto run = [&](auto n) {
    const Spread at = Spread::over(op.columns, n);
    launch(context, "copy_columns", copy_some<T, n()>, at.blocks(rows), spread_threads, at, in, out,
           rows, in_width, out_width);
  };
  constexpr int n = in_16_bytes<T>;
  if (op.columns % n == 0 && has_aligned_rows(in, in_width) && has_aligned_rows(out, out_width))
    run(std::integral_constant<int, n>());
  else
    run(std::integral_constant<int, 1>());
}

}  // namespace

void copy_columns(const Context& context, const CopyColumns& op) {
  with_type(op.in.dtype(), [&]<class T>(std::type_identity<T>) { copy_all<T>(context, op); });
}

}  // namespace ringside::cuda
