// Matrix products through cuBLASLt.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <map>
#include <memory>

#include "core/device/cuda/kernels/product.h"
#include "core/device/cuda/runtime/context.h"

namespace ringside::cuda {

/// Descriptors and algorithms are found once for each shape and kept, as is the workspace, so that
/// later steps need no look-up in cuBLASLt. For one thread at a time.
class Matmul {
 public:
  explicit Matmul(const Context& context);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  /// Enqueues a product without epilogue. If cuBLASLt has no algorithm for the product, a slower
  /// kernel of our own computes it. Throws Error if cuBLASLt fails.
  void run(const Product& product);
  /// Enqueues the product and returns true; or does nothing and returns false if cuBLASLt has no
  /// algorithm with this epilogue for this shape. The answer is found once for each shape and does
  /// not change.
  bool try_run(const Product& product);

 private:
  /// Everything that the choice of an algorithm depends on: shape, types and alignment.
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
  std::shared_ptr<Buffer> workspace_;  // allocated by the first product
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace ringside::cuda
