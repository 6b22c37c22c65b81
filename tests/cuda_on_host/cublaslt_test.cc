// cuBLASLt on the host: products and epilogues against float64, and refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <future>
#include <vector>

#include "core/num/bf16.h"
#include "cublasLt.h"
#include "tests/cuda_on_host/stream.h"

namespace {

using ringside::bf16;
using Floats = std::vector<float>;

// Values of both signs that bf16 holds exactly.
float value(std::int64_t i, int seed) {
  return static_cast<float>((i * 37 + seed * 11) % 61 - 30) / 16;
}

// An array of fp32 or bf16.
class Array {
 public:
  Array(cudaDataType_t type, std::int64_t size, int seed) : type_(type), size_(size) {
    fp32_.resize(type == CUDA_R_32F ? static_cast<std::size_t>(size) : 0);
    bf16_.resize(type == CUDA_R_32F ? 0 : static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < size; ++i) set(i, value(i, seed));
  }

  void* data() {
    return type_ == CUDA_R_32F ? static_cast<void*>(fp32_.data())
                               : static_cast<void*>(bf16_.data());
  }
  cudaDataType_t type() const { return type_; }
  std::int64_t size() const { return size_; }
  float operator[](std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    return type_ == CUDA_R_32F ? fp32_[at] : to_float(bf16_[at]);
  }
  void set(std::int64_t i, float value) {
    const auto at = static_cast<std::size_t>(i);
    if (type_ == CUDA_R_32F)
      fp32_[at] = value;
    else
      bf16_[at] = ringside::to_bf16(value);
  }

 private:
  cudaDataType_t type_;
  std::int64_t size_;
  Floats fp32_;
  std::vector<bf16> bf16_;
};

// A product with all that it depends on. Each test sets the members that it is about.
struct Product {
  std::int64_t m = 70, n = 9, k = 131;
  cublasOperation_t ta = CUBLAS_OP_N, tb = CUBLAS_OP_N;
  cudaDataType_t in = CUDA_R_32F, out = CUDA_R_32F;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int batch = 1;
  float alpha = 1, beta = 0;
  std::int64_t aux_ld = 72;
  std::int32_t bias_type = -1, aux_type = -1;
  std::uint64_t workspace_limit = 4096;

  std::int64_t rows_a() const { return ta == CUBLAS_OP_N ? m : k; }
  std::int64_t columns_a() const { return ta == CUBLAS_OP_N ? k : m; }
  std::int64_t rows_b() const { return tb == CUBLAS_OP_N ? k : n; }
  std::int64_t columns_b() const { return tb == CUBLAS_OP_N ? n : k; }
  std::int64_t lda() const { return rows_a() + 3; }
  std::int64_t ldb() const { return rows_b() + 1; }
  std::int64_t ldd() const { return m + 2; }
  float at_a(const Array& a, int batch_index, std::int64_t i, std::int64_t l) const {
    return a[batch_index * lda() * columns_a() +
             (ta == CUBLAS_OP_N ? l * lda() + i : i * lda() + l)];
  }
  float at_b(const Array& b, int batch_index, std::int64_t l, std::int64_t j) const {
    return b[batch_index * ldb() * columns_b() +
             (tb == CUBLAS_OP_N ? j * ldb() + l : l * ldb() + j)];
  }
};

class CublasLt : public ::testing::Test {
 protected:
  CublasLt() {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  }
  ~CublasLt() override {
    EXPECT_EQ(cublasLtDestroy(handle), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }

  // The library's objects for a product.
  struct Plan {
    Plan(const Product& p, void* bias, void* aux) : p(p) {
      cublasLtMatmulDescCreate(&desc, p.compute, CUDA_R_32F);
      EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_TRANSA, p.ta), CUBLAS_STATUS_SUCCESS);
      EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_TRANSB, p.tb), CUBLAS_STATUS_SUCCESS);
      EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue), CUBLAS_STATUS_SUCCESS);
      EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias), CUBLAS_STATUS_SUCCESS);
      EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, p.bias_type), CUBLAS_STATUS_SUCCESS);
      EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux), CUBLAS_STATUS_SUCCESS);
      EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.aux_ld), CUBLAS_STATUS_SUCCESS);
      EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, p.aux_type),
                CUBLAS_STATUS_SUCCESS);
      a = layout(p.in, p.rows_a(), p.columns_a(), p.lda());
      b = layout(p.in, p.rows_b(), p.columns_b(), p.ldb());
      d = layout(p.out, p.m, p.n, p.ldd());
      cublasLtMatmulPreferenceCreate(&preference);
      EXPECT_EQ(
          cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &p.workspace_limit, sizeof p.workspace_limit),
          CUBLAS_STATUS_SUCCESS);
    }
    ~Plan() {
      cublasLtMatmulPreferenceDestroy(preference);
      for (auto layout : {a, b, d}) cublasLtMatrixLayoutDestroy(layout);
      cublasLtMatmulDescDestroy(desc);
    }
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;

    template <class Value>
    cublasStatus_t set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
      return cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value);
    }
    cublasLtMatrixLayout_t layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                                  std::int64_t ld) const {
      cublasLtMatrixLayout_t made = nullptr;
      cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows),
                                 static_cast<std::uint64_t>(columns), ld);
      const std::int64_t stride = ld * columns;
      cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &p.batch,
                                       sizeof p.batch);
      cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                       sizeof stride);
      return made;
    }

    const Product p;
    cublasLtMatmulDesc_t desc = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
    cublasLtMatmulPreference_t preference = nullptr;
  };

  cublasStatus_t find(Plan& plan, cublasLtMatmulHeuristicResult_t& result) {
    int found = 0;
    const auto status = cublasLtMatmulAlgoGetHeuristic(handle, plan.desc, plan.a, plan.b, plan.d,
                                                       plan.d, plan.preference, 1, &result, &found);
    EXPECT_EQ(found, status == CUBLAS_STATUS_SUCCESS ? 1 : 0);
    return status;
  }

  cublasStatus_t multiply(Plan& plan, const cublasLtMatmulAlgo_t* algo,
                          std::size_t workspace_size) {
    const float alpha = plan.p.alpha, beta = plan.p.beta;
    return cublasLtMatmul(handle, plan.desc, &alpha, a.data(), plan.a, b.data(), plan.b, &beta,
                          d.data(), plan.d, d.data(), plan.d, algo, workspace, workspace_size,
                          stream);
  }

  // Computes the product with D in the memory of C, and compares all that is written.
  void check(const Product& p, double tolerance = 1e-5) {
    a = Array(p.in, p.batch * p.lda() * p.columns_a(), 1);
    b = Array(p.in, p.batch * p.ldb() * p.columns_b(), 2);
    d = Array(p.out, p.batch * p.ldd() * p.n, 3);
    bias = Array(p.out, std::max(p.m, p.n), 4);
    aux = Array(p.out, p.aux_ld * p.n, 5);
    const Array c = d, old_bias = bias;
    {
      Plan plan(p, bias.data(), aux.data());
      cublasLtMatmulHeuristicResult_t found;
      ASSERT_EQ(find(plan, found), CUBLAS_STATUS_SUCCESS);
      ASSERT_EQ(multiply(plan, &found.algo, found.workspaceSize), CUBLAS_STATUS_SUCCESS);
    }
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    const double rounding = p.out == CUDA_R_32F ? tolerance : 1.0 / 256;
    const auto expect = [&](double got, double wanted, const char* what, std::int64_t at) {
      ASSERT_NEAR(got, wanted, rounding * (1 + std::abs(wanted))) << what << " " << at;
    };
    const auto has = [&](std::uint32_t flag) { return (p.epilogue & flag) != 0; };
    for (int index = 0; index < p.batch; ++index)
      for (std::int64_t j = 0; j < p.n; ++j)
        for (std::int64_t i = 0; i < p.m; ++i) {
          double x = 0;
          for (std::int64_t l = 0; l < p.k; ++l)
            x += static_cast<double>(p.at_a(a, index, i, l)) * p.at_b(b, index, l, j);
          const std::int64_t at = index * p.ldd() * p.n + j * p.ldd() + i;
          x = p.alpha * x + p.beta * c[at];
          if (has(CUBLASLT_EPILOGUE_BIAS)) x += old_bias[i];
          if (has(128)) expect(aux[j * p.aux_ld + i], x, "aux", i);
          if (has(CUBLASLT_EPILOGUE_GELU))
            x *= 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
          if (has(CUBLASLT_EPILOGUE_RELU)) x = std::max(x, 0.0);
          expect(d[at], x, "d", at);
        }
    for (std::int64_t j = 0; j < p.n; ++j)
      for (std::int64_t i = p.m; i < p.ldd(); ++i)
        ASSERT_EQ(d[j * p.ldd() + i], c[j * p.ldd() + i]) << "between the columns";
    for (std::int64_t i = 0; i < bias.size(); ++i) {
      double sum = old_bias[i];
      if ((has(CUBLASLT_EPILOGUE_BGRADA) && i < p.m) ||
          (has(CUBLASLT_EPILOGUE_BGRADB) && i < p.n)) {
        sum = 0;
        for (std::int64_t l = 0; l < p.k; ++l)
          sum += has(CUBLASLT_EPILOGUE_BGRADA) ? p.at_a(a, 0, i, l) : p.at_b(b, 0, l, i);
      }
      expect(bias[i], sum, "bias", i);
    }
  }

  cudaStream_t stream = nullptr;
  cublasLtHandle_t handle = nullptr;
  Array a{CUDA_R_32F, 0, 0}, b = a, d = a, bias = a, aux = a;
  alignas(256) unsigned char workspace[4096] = {};
};

TEST_F(CublasLt, MultipliesWithEveryTranspose) {
  for (const auto ta : {CUBLAS_OP_N, CUBLAS_OP_T})
    for (const auto tb : {CUBLAS_OP_N, CUBLAS_OP_T})
      for (const auto in : {CUDA_R_32F, CUDA_R_16BF})
        for (const auto out : {CUDA_R_32F, in}) {
          SCOPED_TRACE(::testing::Message() << ta << tb << in << out);
          check({.ta = ta, .tb = tb, .in = in, .out = out, .alpha = 0.5F, .beta = -2});
          check({.m = 1, .n = 1, .k = 1, .ta = ta, .tb = tb, .in = in, .out = out, .batch = 3});
          check({.m = 300, .n = 5, .k = 64, .ta = ta, .tb = tb, .in = in, .out = out, .batch = 2});
        }
}

TEST_F(CublasLt, EpiloguesSeeWhatTheHeaderSays) {
  for (const auto epilogue :
       {CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS,
        CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX,
        CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB})
    for (const auto out : {CUDA_R_32F, CUDA_R_16BF})
      for (const auto operation : {CUBLAS_OP_N, CUBLAS_OP_T}) {
        SCOPED_TRACE(::testing::Message() << epilogue << " " << out << " " << operation);
        check({.ta = operation,
               .tb = operation,
               .in = out,
               .out = out,
               .epilogue = epilogue,
               .alpha = 1 / 64.0F,
               .beta = 1});
      }
}

TEST_F(CublasLt, Tf32KeepsTenBits) {
  a = Array(CUDA_R_32F, 4, 0);
  b = d = a;
  using Pair = std::pair<float, float>;
  for (const auto& [in, out] : {Pair(1 + 0x1p-10F, 1 + 0x1p-10F), Pair(1 + 0x1p-12F, 1),
                                Pair(1 + 0x3p-12F, 1 + 0x1p-10F)}) {
    for (const auto compute : {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32}) {
      a.set(0, in);
      b.set(0, 1);
      Plan plan({.m = 1, .n = 1, .k = 1, .compute = compute}, nullptr, nullptr);
      ASSERT_EQ(multiply(plan, nullptr, 0), CUBLAS_STATUS_SUCCESS);
      ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      EXPECT_EQ(d[0], compute == CUBLAS_COMPUTE_32F ? in : out);
    }
  }
}

TEST_F(CublasLt, ReadsMatricesInStreamOrderAndAllElseAtTheCall) {
  a = Array(CUDA_R_32F, 4, 0);
  b = d = a;
  a.set(0, 0);
  b.set(0, 3);
  std::promise<void> open;
  enqueue(stream, [this, gate = open.get_future().share()] {
    gate.wait();
    a.set(0, 2);
  });
  float alpha = 1, beta = 0;
  {
    Plan plan({.m = 1, .n = 1, .k = 1}, nullptr, nullptr);
    ASSERT_EQ(cublasLtMatmul(handle, plan.desc, &alpha, a.data(), plan.a, b.data(), plan.b, &beta,
                             nullptr, plan.d, d.data(), plan.d, nullptr, nullptr, 0, stream),
              CUBLAS_STATUS_SUCCESS);
  }
  alpha = beta = 7;
  open.set_value();
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(d[0], 6);
}

TEST_F(CublasLt, AlgorithmsUseTheWorkspaceThatTheyAskFor) {
  Product p;
  a = Array(p.in, p.lda() * p.columns_a(), 1);
  b = Array(p.in, p.ldb() * p.columns_b(), 2);
  d = Array(p.out, p.ldd() * p.n, 3);
  Plan plan(p, nullptr, nullptr);
  cublasLtMatmulHeuristicResult_t found;
  ASSERT_EQ(find(plan, found), CUBLAS_STATUS_SUCCESS);
  EXPECT_GT(found.workspaceSize, 0U);
  EXPECT_LE(found.workspaceSize, p.workspace_limit);
  EXPECT_EQ(multiply(plan, &found.algo, found.workspaceSize - 1), CUBLAS_STATUS_INVALID_VALUE);
  ASSERT_EQ(multiply(plan, &found.algo, found.workspaceSize), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(workspace[0], 0xff);
  EXPECT_EQ(workspace[found.workspaceSize - 1], 0xff);

  p.workspace_limit = 0;
  Plan frugal(p, nullptr, nullptr);
  ASSERT_EQ(find(frugal, found), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(found.workspaceSize, 0U);
  p.epilogue = CUBLASLT_EPILOGUE_RELU;
  Plan other(p, nullptr, nullptr);
  EXPECT_EQ(multiply(other, &found.algo, 0), CUBLAS_STATUS_INVALID_VALUE);
  const cublasLtMatmulAlgo_t none{};
  EXPECT_EQ(multiply(frugal, &none, 0), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(CublasLt, RefusesWhatTheLibraryDoesNotHave) {
  const auto status = [&](const Product& p) {
    Plan plan(p, workspace, workspace);
    cublasLtMatmulHeuristicResult_t found;
    const auto result = find(plan, found);
    EXPECT_EQ(multiply(plan, nullptr, 0), result);
    return result;
  };
  const auto bf16 = CUDA_R_16BF;
  const auto gelu = CUBLASLT_EPILOGUE_GELU_AUX;
  constexpr auto unsupported = CUBLAS_STATUS_NOT_SUPPORTED, invalid = CUBLAS_STATUS_INVALID_VALUE;
  a = b = d = Array(CUDA_R_32F, 100000, 0);
  EXPECT_EQ(status({.out = bf16}), unsupported);
  EXPECT_EQ(status({.in = CUDA_R_64F, .out = CUDA_R_64F}), unsupported);
  EXPECT_EQ(status({.in = bf16, .compute = CUBLAS_COMPUTE_32F_FAST_TF32}), unsupported);
  EXPECT_EQ(status({.compute = CUBLAS_COMPUTE_16F}), unsupported);
  EXPECT_EQ(status({.epilogue = 12345}), unsupported);
  EXPECT_EQ(status({.epilogue = CUBLASLT_EPILOGUE_BIAS, .bias_type = bf16}), unsupported);
  EXPECT_EQ(status({.epilogue = gelu, .aux_type = bf16}), unsupported);
  EXPECT_EQ(status({.epilogue = gelu, .batch = 2}), unsupported);
  EXPECT_EQ(status({.epilogue = gelu, .aux_ld = 71}), invalid);  // no multiple of 8
  EXPECT_EQ(status({.epilogue = gelu, .aux_ld = 64}), invalid);  // less than m
  EXPECT_EQ(status({.batch = 0}), invalid);
  EXPECT_EQ(status({.k = 0}), invalid);
}

TEST_F(CublasLt, RefusesWhatDoesNotFit) {
  a = b = d = Array(CUDA_R_32F, 10000, 0);
  Product p;
  // Changes one thing of a plan, and returns the status of the product.
  const auto with = [&](const std::function<void(Plan&)>& change) {
    Plan plan(p, nullptr, nullptr);
    change(plan);
    return multiply(plan, nullptr, 0);
  };
  const auto relay = [](cublasLtMatrixLayout_t& layout, cublasLtMatrixLayout_t to) {
    cublasLtMatrixLayoutDestroy(layout);
    layout = to;
  };
  constexpr auto invalid = CUBLAS_STATUS_INVALID_VALUE;
  EXPECT_EQ(with([](Plan&) {}), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(with([&](Plan& x) { relay(x.a, x.layout(p.in, p.m, p.k, p.m - 1)); }), invalid);
  EXPECT_EQ(with([&](Plan& x) { relay(x.a, x.layout(p.in, p.m + 1, p.k, p.m + 1)); }), invalid);
  EXPECT_EQ(with([&](Plan& x) { relay(x.b, x.layout(p.in, p.k + 1, p.n, p.k + 1)); }), invalid);
  EXPECT_EQ(with([&](Plan& x) { relay(x.b, x.layout(p.in, p.k, p.n + 1, p.k)); }), invalid);
  EXPECT_EQ(with([&](Plan& x) { relay(x.b, nullptr); }), invalid);
  EXPECT_EQ(with([](Plan& x) { x.set(CUBLASLT_MATMUL_DESC_TRANSA, std::int32_t{9}); }), invalid);
  EXPECT_EQ(with([](Plan& x) {
              const std::int32_t two = 2;
              cublasLtMatrixLayoutSetAttribute(x.a, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &two, 4);
            }),
            invalid);
  EXPECT_EQ(with([](Plan& x) {
              const std::int32_t row = CUBLASLT_ORDER_ROW;
              cublasLtMatrixLayoutSetAttribute(x.a, CUBLASLT_MATRIX_LAYOUT_ORDER, &row, 4);
            }),
            CUBLAS_STATUS_NOT_SUPPORTED);
  for (const auto epilogue :
       {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BGRADB, CUBLASLT_EPILOGUE_GELU_AUX}) {
    p.epilogue = epilogue;
    EXPECT_EQ(with([](Plan&) {}), invalid) << "a null pointer, epilogue " << epilogue;
  }
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);

  Plan plan({}, nullptr, nullptr);
  const float one = 1;
  const auto call = [&](cublasLtHandle_t handle, const float* alpha, const void* c, void* d_at) {
    return cublasLtMatmul(handle, plan.desc, alpha, a.data(), plan.a, b.data(), plan.b, &one, c,
                          plan.d, d_at, plan.d, nullptr, nullptr, 0, stream);
  };
  EXPECT_EQ(call(nullptr, &one, d.data(), d.data()), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(call(handle, nullptr, d.data(), d.data()), invalid);
  EXPECT_EQ(call(handle, &one, nullptr, d.data()), invalid);
  EXPECT_EQ(call(handle, &one, d.data(), nullptr), invalid);
  const std::int64_t wide = 0;
  EXPECT_EQ(plan.set(CUBLASLT_MATMUL_DESC_TRANSA, wide), invalid);
}

}  // namespace
