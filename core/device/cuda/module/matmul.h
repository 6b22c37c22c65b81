// Matrix products through cuBLASLt.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <map>
#include <memory>

#include "core/device/cuda/module/context.h"

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

/// Descriptors and algorithms are found once a shape and kept, and so is the workspace: a steady
/// step asks cuBLASLt for nothing. For one thread at a time.
class Matmul {
 public:
  explicit Matmul(const Context& context);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  /// Enqueues a product without epilogue; where cuBLASLt has no algorithm for it, a slow kernel of
  /// our own. Throws Error if cuBLASLt fails.
  void run(const Product& product);
  /// Enqueues and returns true; or false, and nothing has happened: there is no algorithm with this
  /// epilogue for this shape. Once per shape, always the same.
  bool try_run(const Product& product);

 private:
  /// All that an algorithm is chosen by: shape, types, alignment.
  struct Key {
    DType in, out;
    bool transpose_a, transpose_b;
    std::int64_t m, n, k, lda, ldb, ldc, batch, stride_a, stride_b, stride_c;
    Epilogue epilogue;
    int align_a, align_b, align_c;  // bytes

    auto operator<=>(const Key&) const = default;
  };
  struct Plan;

  static Key key_of(const Product& product);
  std::unique_ptr<Plan> make_plan(const Key& key, const Product& product) const;
  void* workspace();

  Context context_;
  cublasLtHandle_t handle_ = nullptr;
  std::size_t workspace_bytes_;
  std::shared_ptr<Buffer> workspace_;  // from the first product on
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace ringside::cuda
