// Matrix products through cuBLASLt.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <map>
#include <memory>

#include "core/device/cuda/module/context.h"
#include "core/device/cuda/module/product.h"

namespace ringside::cuda {

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
