// A matrix product, as whoever computes it is told of it.
#pragma once

#include <cstdint>

#include "core/tensor/dtype.h"

namespace ringside::cuda {

/// What a product does on its way.
enum class Epilogue : std::uint8_t {
  none,
  bias,        // + bias, one value a column of c
  gelu,        // `pre` receives the product, c its gelu
  gelu_bias,   // the same with the bias added first
  sum_columns  // op(a)'s rows are summed over k into `bias`, one value a row of c
};

/// c = alpha op(a) op(b), row-major, op(a) [m, k] and op(b) [k, n], `ld*` elements from a row of
/// the stored matrix to the next; `transpose` says that op transposes. `batch` such products, whose
/// matrices lie `stride_*` elements apart. Sums run in fp32 and are rounded once.
struct Product {
  DType in = DType::f32, out = DType::f32;  // of a and b; of c, bias and pre
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
  const void* bias = nullptr;  // written by sum_columns
  void* pre = nullptr;         // [m, n], n its leading dimension
};

}  // namespace ringside::cuda
