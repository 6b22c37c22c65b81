// cuBLASLt on the host: the library's functions. A product is a task of its stream.
#include "cublasLt.h"

#include <algorithm>
#include <cstring>

#include "tests/cuda_on_host/cublaslt_product.h"
#include "tests/cuda_on_host/stream.h"

using namespace cuda_on_host::cublaslt;

struct cublasLtContext {};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
};

namespace {

constexpr std::size_t workspace_wanted = 64 << 10;

template <class Value>
cublasStatus_t set(Value& to, const void* value, std::size_t size) {
  if (!value || size != sizeof(Value)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Object>
cublasStatus_t destroy(Object* object) {
  if (!object) return CUBLAS_STATUS_INVALID_VALUE;
  delete object;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                     cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                     Problem& problem) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!desc || !a || !b || !c || !d) return CUBLAS_STATUS_INVALID_VALUE;
  problem = {*desc, *a, *b, *c, *d};
  if (!is_consistent(problem)) return CUBLAS_STATUS_INVALID_VALUE;
  return is_supported(problem) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

// The algorithm can be used for problems of any size whose types, transpositions and epilogue are
// those of `p`.
cublasLtMatmulAlgo_t algorithm(const Problem& p, std::size_t workspace) {
  const auto kind = [](auto value) { return static_cast<std::uint64_t>(value); };
  return {{1, workspace, kind(p.desc.compute), kind(p.desc.epilogue),
           kind(p.desc.transpose_a) * 4 + kind(p.desc.transpose_b), kind(p.a.type), kind(p.d.type),
           0}};
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  int devices = 0;
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return handle ? destroy(handle) : CUBLAS_STATUS_NOT_INITIALIZED;
}

std::size_t cublasLtGetVersion() { return 130000; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR:
      return "CUBLAS_STATUS_LICENSE_ERROR";
  }
  return "unknown cublasStatus_t";
}

const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (!desc) return CUBLAS_STATUS_INVALID_VALUE;
  *desc = new cublasLtMatmulDescOpaque_t{compute, scale};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return destroy(desc); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t size) {
  if (!desc) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(desc->transpose_a, value, size);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(desc->transpose_b, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(desc->epilogue, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(desc->bias, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(desc->aux, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(desc->aux_ld, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return set(desc->aux_type, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return set(desc->bias_type, value, size);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t ld) {
  if (!layout) return CUBLAS_STATUS_INVALID_VALUE;
  *layout = new cublasLtMatrixLayoutOpaque_t{type, static_cast<std::int64_t>(rows),
                                             static_cast<std::int64_t>(columns), ld};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t size) {
  if (!layout) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return set(layout->order, value, size);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return set(layout->batch, value, size);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return set(layout->stride, value, size);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  if (!preference) return CUBLAS_STATUS_INVALID_VALUE;
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t size) {
  if (!preference) return CUBLAS_STATUS_INVALID_VALUE;
  std::uint32_t ignored = 0;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(preference->workspace, value, size);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(ignored, value, size);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* returned) {
  if (!preference || !results || !returned || requested <= 0) return CUBLAS_STATUS_INVALID_VALUE;
  *returned = 0;
  Problem problem;
  const auto status = check(handle, desc, a, b, c, d, problem);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const auto workspace = std::min<std::size_t>(preference->workspace, workspace_wanted);
  results[0] = {algorithm(problem, workspace), workspace, CUBLAS_STATUS_SUCCESS, 1.0F, {}};
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t workspace_size, cudaStream_t stream) {
  Product call;
  const auto status = check(handle, desc, a_layout, b_layout, c_layout, d_layout, call.problem);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const Problem& p = call.problem;
  if (!alpha || !beta || !a || !b || !d) return CUBLAS_STATUS_INVALID_VALUE;
  call.alpha = *static_cast<const float*>(alpha);
  call.beta = *static_cast<const float*>(beta);
  if (call.beta != 0 && !c) return CUBLAS_STATUS_INVALID_VALUE;
  if (c == d && (p.c.ld != p.d.ld || p.c.stride != p.d.stride)) return CUBLAS_STATUS_INVALID_VALUE;
  if ((p.has(CUBLASLT_EPILOGUE_BIAS) || p.has_bias_gradient()) && !p.desc.bias)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (p.has_aux() && !p.desc.aux) return CUBLAS_STATUS_INVALID_VALUE;

  std::size_t needed = std::min(workspace_size, workspace_wanted);
  if (algo) {
    needed = algo->data[1];
    const auto expected = algorithm(p, needed);
    if (std::memcmp(&expected, algo, sizeof expected) != 0) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool aligned = reinterpret_cast<std::uintptr_t>(workspace) % 256 == 0;
  if (needed > 0 && (!workspace || !aligned || workspace_size < needed))
    return CUBLAS_STATUS_INVALID_VALUE;

  call.a = a;
  call.b = b;
  call.c = c;
  call.d = d;
  call.workspace = workspace;
  call.workspace_size = needed;
  enqueue(stream, [call] { compute(call); });
  return CUBLAS_STATUS_SUCCESS;
}
