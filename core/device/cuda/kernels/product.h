// The description of a matrix product.
#pragma once

#include <cstdint>

#include "core/tensor/dtype.h"

namespace ringside::cuda {

/// An operation that is computed together with a product.
enum class Epilogue : std::uint8_t {
  none,
  bias,        // + bias, one value for each column of c
  gelu,        // `pre` receives the product, c the gelu of `pre`
  gelu_bias,   // as gelu, but `pre` receives the product + bias
  sum_columns  // op(a)'s rows are summed over k into `bias`, one value for each row of c
};

/// c = alpha * op(a) * op(b), row-major, with op(a) [m, k] and op(b) [k, n]. `ld*` is the number of
/// elements from one row of the stored matrix to the next; `transpose_*` says that op transposes.
/// There are `batch` such products, whose matrices lie `stride_*` elements apart. Sums run in fp32
/// and are rounded once.
struct Product {
  DType in = DType::f32, out = DType::f32;  // `in`: dtype of a and b; `out`: of c, bias and pre
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  float alpha = 1;
  const void* a = nullptr;
  std::int64_t lda = 0;
  const void* b = nullptr;
  std::int64_t ldb = 0;
  void* c = nullptr;
  std::int64_t ldc = 0;
  std::int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
  Epilogue epilogue = Epilogue::none;
  const void* bias = nullptr;  // sum_columns writes it
  void* pre = nullptr;         // [m, n] with leading dimension n
};

}  // namespace ringside::cuda
