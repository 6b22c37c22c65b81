// A product of cuBLASLt on the host: its description, the checks of its arguments, and its
// computation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cublasLt.h"

/// The attributes of a product. In aux_type and bias_type -1 stands for the type of D.
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_ld = 0;
  std::int32_t aux_type = -1, bias_type = -1;
};

struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::int64_t rows, columns, ld;
  std::int32_t order = CUBLASLT_ORDER_COL;
  std::int32_t batch = 1;
  std::int64_t stride = 0;
};

namespace cuda_on_host::cublaslt {

/// D = alpha * op(A) * op(B) + beta * C, where D is m x n and op(A) is m x k.
struct Problem {
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t a, b, c, d;
  std::int64_t k = 0;

  /// An epilogue is a set of flags.
  bool has(cublasLtEpilogue_t flag) const { return desc.epilogue & flag; }
  bool has_aux() const { return desc.epilogue & 128; }
  bool has_bias_gradient() const {
    return has(CUBLASLT_EPILOGUE_BGRADA) || has(CUBLASLT_EPILOGUE_BGRADB);
  }
};

/// One product with everything that it reads and writes.
struct Product {
  Problem problem;
  float alpha, beta;
  const void *a, *b, *c;
  void* d;
  void* workspace;
  std::size_t workspace_size;
};

/// Whether extents, leading dimensions and batches fit together. Sets k.
bool is_consistent(Problem& problem);

/// Whether the real library supports the types, the epilogue and the layouts.
bool is_supported(const Problem& problem);

/// Adds up groups of 64 products in fp32, and the sums of the groups in fp64. Overwrites the
/// workspace.
void compute(const Product& call);

}  // namespace cuda_on_host::cublaslt
