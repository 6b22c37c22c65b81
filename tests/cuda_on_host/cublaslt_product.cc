// Products of cuBLASLt on the host.
#include "tests/cuda_on_host/cublaslt_product.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/num/bf16.h"
#include "core/num/fp16.h"

namespace cuda_on_host::cublaslt {
namespace {

using ringside::to_bf16;
using ringside::to_float;
using ringside::to_fp16;

bool is_transpose(std::int32_t operation) { return operation != CUBLAS_OP_N; }

float load(const void* data, cudaDataType_t type, std::int64_t i) {
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[i];
  if (type == CUDA_R_16F) return to_float(static_cast<const ringside::fp16*>(data)[i]);
  return to_float(static_cast<const ringside::bf16*>(data)[i]);
}

void store(void* data, cudaDataType_t type, std::int64_t i, float value) {
  if (type == CUDA_R_32F)
    static_cast<float*>(data)[i] = value;
  else if (type == CUDA_R_16F)
    static_cast<ringside::fp16*>(data)[i] = to_fp16(value);
  else
    static_cast<ringside::bf16*>(data)[i] = to_bf16(value);
}

// Rounds to the nearest value with 10 bits of mantissa, ties away from zero, as the conversion
// instruction does.
float to_tf32(float value) {
  if (!std::isfinite(value)) return value;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x1000) & ~0x1fffU);
}

// Returns matrix `index` of the batch with element (i, l) at [l * outer + i], for i below `outer`
// and l below `k`.
std::vector<float> pack(const void* data, const cublasLtMatrixLayoutOpaque_t& layout, int index,
                        bool columns_outside, std::int64_t outer, std::int64_t k) {
  std::vector<float> packed(static_cast<std::size_t>(outer * k));
  const std::int64_t begin = index * layout.stride;
  for (std::int64_t l = 0; l < k; ++l)
    for (std::int64_t i = 0; i < outer; ++i)
      packed[static_cast<std::size_t>(l * outer + i)] = load(
          data, layout.type, begin + (columns_outside ? i * layout.ld + l : l * layout.ld + i));
  return packed;
}

float gelu(float x) {
  return 0.5F * x * (1 + std::tanh(0.7978845608028654F * (x + 0.044715F * x * x * x)));
}

// Sets bias[i] to the sum of the elements (i, l) of a packed matrix over all l.
void store_sums(const Problem& p, const std::vector<float>& packed, std::int64_t outer) {
  for (std::int64_t i = 0; i < outer; ++i) {
    double sum = 0;
    for (std::int64_t l = 0; l < p.k; ++l) sum += packed[static_cast<std::size_t>(l * outer + i)];
    store(p.desc.bias, p.d.type, i, static_cast<float>(sum));
  }
}

void finish(const Product& call, int index, std::int64_t row, std::int64_t column, float product) {
  const Problem& p = call.problem;
  float value = call.alpha * product;
  if (call.beta != 0)
    value += call.beta * load(call.c, p.c.type, index * p.c.stride + column * p.c.ld + row);
  if (p.has(CUBLASLT_EPILOGUE_BIAS)) value += load(p.desc.bias, p.d.type, row);
  if (p.has_aux()) store(p.desc.aux, p.d.type, column * p.desc.aux_ld + row, value);
  if (p.has(CUBLASLT_EPILOGUE_GELU)) value = gelu(value);
  if (p.has(CUBLASLT_EPILOGUE_RELU)) value = std::max(value, 0.0F);
  store(call.d, p.d.type, index * p.d.stride + column * p.d.ld + row, value);
}

// Adds up groups of 64 products in fp32, and the sums of the groups in fp64. Computes four columns
// of a block of rows at a time.
void multiply(const Product& call, int index, const std::vector<float>& a,
              const std::vector<float>& b) {
  constexpr std::int64_t block = 256, width = 4, depth = 64;
  const Problem& p = call.problem;
  const std::int64_t m = p.d.rows, n = p.d.columns;
  for (std::int64_t row = 0; row < m; row += block)
    for (std::int64_t column = 0; column < n; column += width) {
      const std::int64_t rows = std::min(block, m - row), columns = std::min(width, n - column);
      double sums[width][block] = {};
      for (std::int64_t begin = 0; begin < p.k; begin += depth) {
        float part[width][block] = {};
        for (std::int64_t l = begin; l < std::min(begin + depth, p.k); ++l) {
          const float* from = a.data() + l * m + row;
          for (std::int64_t j = 0; j < columns; ++j) {
            const float factor = b[static_cast<std::size_t>(l * n + column + j)];
            for (std::int64_t i = 0; i < rows; ++i) part[j][i] += from[i] * factor;
          }
        }
        for (std::int64_t j = 0; j < columns; ++j)
          for (std::int64_t i = 0; i < rows; ++i) sums[j][i] += part[j][i];
      }
      for (std::int64_t j = 0; j < columns; ++j)
        for (std::int64_t i = 0; i < rows; ++i)
          finish(call, index, row + i, column + j, static_cast<float>(sums[j][i]));
    }
}

}  // namespace

bool is_supported(const Problem& p) {
  const auto a = p.a.type, d = p.d.type;
  if (p.desc.scale != CUDA_R_32F || p.b.type != a || p.c.type != d) return false;
  const bool fp32 = a == CUDA_R_32F && d == CUDA_R_32F;
  const bool narrow = (a == CUDA_R_16BF || a == CUDA_R_16F) && (d == a || d == CUDA_R_32F);
  if (p.desc.compute != CUBLAS_COMPUTE_32F || !(fp32 || narrow))
    if (p.desc.compute != CUBLAS_COMPUTE_32F_FAST_TF32 || !fp32) return false;
  switch (p.desc.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB:
      break;
    default:
      return false;
  }
  // A batch with aux matrices or bias gradients needs strides for them, which the kernels never
  // set.
  if (p.d.batch > 1 && (p.has_aux() || p.has_bias_gradient())) return false;
  const bool wrong_bias = p.desc.bias_type != -1 && p.desc.bias_type != d;
  const bool wrong_aux = p.desc.aux_type != -1 && p.desc.aux_type != d;
  if ((p.has(CUBLASLT_EPILOGUE_BIAS) || p.has_bias_gradient()) && wrong_bias) return false;
  if (p.has_aux() && wrong_aux) return false;
  for (const auto* layout : {&p.a, &p.b, &p.c, &p.d})
    if (layout->order != CUBLASLT_ORDER_COL) return false;
  return true;
}

bool is_consistent(Problem& p) {
  for (const auto operation : {p.desc.transpose_a, p.desc.transpose_b})
    if (operation < CUBLAS_OP_N || operation > CUBLAS_OP_C) return false;
  for (const auto* layout : {&p.a, &p.b, &p.c, &p.d}) {
    if (layout->rows <= 0 || layout->columns <= 0 || layout->ld < layout->rows) return false;
    if (layout->batch < 1 || layout->batch != p.d.batch) return false;
  }
  const bool ta = is_transpose(p.desc.transpose_a), tb = is_transpose(p.desc.transpose_b);
  p.k = ta ? p.a.rows : p.a.columns;
  if ((ta ? p.a.columns : p.a.rows) != p.d.rows) return false;
  if ((tb ? p.b.rows : p.b.columns) != p.d.columns) return false;
  if ((tb ? p.b.columns : p.b.rows) != p.k) return false;
  if (p.c.rows != p.d.rows || p.c.columns != p.d.columns) return false;
  if (p.d.batch > 1 && p.d.stride == 0) return false;  // all matrices d would be one
  return !p.has_aux() || (p.desc.aux_ld >= p.d.rows && p.desc.aux_ld % 8 == 0);
}

void compute(const Product& call) {
  const Problem& p = call.problem;
  if (call.workspace_size > 0) std::memset(call.workspace, 0xff, call.workspace_size);
  for (int index = 0; index < p.d.batch; ++index) {
    auto a = pack(call.a, p.a, index, is_transpose(p.desc.transpose_a), p.d.rows, p.k);
    auto b = pack(call.b, p.b, index, !is_transpose(p.desc.transpose_b), p.d.columns, p.k);
    if (p.desc.epilogue == CUBLASLT_EPILOGUE_BGRADA) store_sums(p, a, p.d.rows);
    if (p.desc.epilogue == CUBLASLT_EPILOGUE_BGRADB) store_sums(p, b, p.d.columns);
    if (p.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32)
      for (auto* packed : {&a, &b})
        std::transform(packed->begin(), packed->end(), packed->begin(), to_tf32);
    multiply(call, index, a, b);
  }
}

}  // namespace cuda_on_host::cublaslt
