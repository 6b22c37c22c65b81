#include "core/device/cuda/kernels/matmul.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/device/cuda/kernels/plain_product.h"
#include "core/device/cuda/runtime/launch.h"

namespace ringside::cuda {
namespace {

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error("{}: {}: {}", call, cublasLtGetStatusName(status), cublasLtGetStatusString(status));
}

constexpr cudaDataType_t type_of(DType type) {
  return type == DType::bf16 ? CUDA_R_16BF : type == DType::f16 ? CUDA_R_16F : CUDA_R_32F;
}

/// The alignment in bytes that all matrices of a batch have. At most 16, because more does not
/// matter to the algorithms.
int alignment(const void* first, std::int64_t stride = 0, DType type = DType::f32) {
  const auto places =
      reinterpret_cast<std::uintptr_t>(first) | static_cast<std::uintptr_t>(stride) * size_of(type);
  int bytes = 16;
  while (places % static_cast<std::uintptr_t>(bytes) != 0) bytes /= 2;
  return bytes;
}

cublasLtEpilogue_t epilogue_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::gelu:
      return CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::gelu_bias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::sum_columns:
      return CUBLASLT_EPILOGUE_BGRADB;  // our a is cuBLASLt's B
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

/// Owns a cuBLASLt object.
template <class T, cublasStatus_t (*destroy)(T)>
class Owned {
 public:
  Owned() = default;
  ~Owned() {
    if (object_) destroy(object_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  T* fill() { return &object_; }
  T get() const { return object_; }

 private:
  T object_ = nullptr;
};
using Description = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <class T>
void set(const Description& to, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublasLtMatmulDescSetAttribute(to.get(), attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
}
template <class T>
void set(const Preference& to, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(to.get(), attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
}

/// Describes a row-major matrix with rows of `width` elements as the column-major matrix with the
/// same memory.
void describe(Layout& layout, DType type, std::int64_t rows, std::int64_t width, std::int64_t ld,
              std::int64_t batch, std::int64_t stride) {
  check(cublasLtMatrixLayoutCreate(layout.fill(), type_of(type), static_cast<std::uint64_t>(width),
                                   static_cast<std::uint64_t>(rows), ld),
        "cublasLtMatrixLayoutCreate");
  if (batch == 1) return;
  const auto count = static_cast<std::int32_t>(batch);
  check(cublasLtMatrixLayoutSetAttribute(layout.get(), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                         sizeof(count)),
        "cublasLtMatrixLayoutSetAttribute");
  check(cublasLtMatrixLayoutSetAttribute(layout.get(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                         &stride, sizeof(stride)),
        "cublasLtMatrixLayoutSetAttribute");
}

}  // namespace

struct Matmul::Plan {
  Description description;
  Layout a, b, c;
  cublasLtMatmulAlgo_t algorithm{};
  bool exists = false;  // whether there is an algorithm

  /// Sets the pointers of the epilogue, which change from call to call.
  void point(const Product& product) const {
    if (product.bias) set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
    if (product.pre) set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, product.pre);
  }
};

Matmul::Matmul(const Context& context)
    : context_(context),
      // NVIDIA's recommendation: 32 MiB for Hopper and newer GPUs, 4 MiB for older ones.
      workspace_bytes_(std::size_t{context.major >= 9 ? 32u : 4u} << 20) {
  use(context_);
  check(cublasLtCreate(&handle_), "cublasLtCreate");
}

Matmul::~Matmul() { cublasLtDestroy(handle_); }

void* Matmul::workspace() {
  if (!workspace_) workspace_ = context_.device.allocate(workspace_bytes_, MemoryKind::workspace);
  return workspace_->data();
}

Matmul::Key Matmul::key_of(const Product& p) {
  int align_c = alignment(p.c, p.stride_c, p.out);
  // cuBLASLt has no separate alignments of bias and pre, so the alignment of c covers them.
  for (const void* more : {p.bias, static_cast<const void*>(p.pre)})
    align_c = std::min(align_c, alignment(more));
  return {.in = p.in,
          .out = p.out,
          .transpose_a = p.transpose_a,
          .transpose_b = p.transpose_b,
          .m = p.m,
          .n = p.n,
          .k = p.k,
          .lda = p.lda,
          .ldb = p.ldb,
          .ldc = p.ldc,
          .batch = p.batch,
          .stride_a = p.stride_a,
          .stride_b = p.stride_b,
          .stride_c = p.stride_c,
          .epilogue = p.epilogue,
          .align_a = alignment(p.a, p.stride_a, p.in),
          .align_b = alignment(p.b, p.stride_b, p.in),
          .align_c = align_c};
}

// cuBLASLt takes column-major matrices. It sees a row-major matrix as its transpose, so it computes
// c^T = op(b)^T * op(a)^T in place of c = op(a) * op(b): a and b change places, and each is
// transposed if its op says so, as before.
std::unique_ptr<Matmul::Plan> Matmul::make_plan(const Key& key, const Product& product) const {
  auto plan = std::make_unique<Plan>();
  const bool tf32 = context_.tf32 && key.in == DType::f32;
  check(cublasLtMatmulDescCreate(plan->description.fill(),
                                 tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                 CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  const auto operation = [](bool transpose) {
    return static_cast<std::int32_t>(transpose ? CUBLAS_OP_T : CUBLAS_OP_N);
  };
  set(plan->description, CUBLASLT_MATMUL_DESC_TRANSA, operation(key.transpose_b));
  set(plan->description, CUBLASLT_MATMUL_DESC_TRANSB, operation(key.transpose_a));
  set(plan->description, CUBLASLT_MATMUL_DESC_EPILOGUE,
      static_cast<std::uint32_t>(epilogue_of(key.epilogue)));
  if (product.bias)
    set(plan->description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
        static_cast<std::int32_t>(type_of(key.out)));
  // `pre` has the type of c: cuBLASLt allows a different type only with fp8.
  if (product.pre) set(plan->description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key.n);
  plan->point(product);
  describe(plan->a, key.in, key.transpose_a ? key.k : key.m, key.transpose_a ? key.m : key.k,
           key.lda, key.batch, key.stride_a);
  describe(plan->b, key.in, key.transpose_b ? key.n : key.k, key.transpose_b ? key.k : key.n,
           key.ldb, key.batch, key.stride_b);
  describe(plan->c, key.out, key.m, key.n, key.ldc, key.batch, key.stride_c);

  Preference preference;
  check(cublasLtMatmulPreferenceCreate(preference.fill()), "cublasLtMatmulPreferenceCreate");
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
      static_cast<std::uint64_t>(workspace_bytes_));
  // Partial sums over k must be added before they are rounded.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
      static_cast<std::uint32_t>(key.align_b));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      static_cast<std::uint32_t>(key.align_a));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(preference, attribute, static_cast<std::uint32_t>(key.align_c));

  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const auto status = cublasLtMatmulAlgoGetHeuristic(
      handle_, plan->description.get(), plan->b.get(), plan->a.get(), plan->c.get(), plan->c.get(),
      preference.get(), 1, &found, &count);
  plan->exists =
      status == CUBLAS_STATUS_SUCCESS && count == 1 && found.state == CUBLAS_STATUS_SUCCESS;
  plan->algorithm = found.algo;
  return plan;
}

bool Matmul::try_run(const Product& product) {
  use(context_);
  const Key key = key_of(product);
  auto& plan = plans_[key];
  if (!plan) plan = make_plan(key, product);
  if (!plan->exists) return false;
  plan->point(product);
  const float none = 0;
  const auto status = cublasLtMatmul(handle_, plan->description.get(), &product.alpha, product.b,
                                     plan->b.get(), product.a, plan->a.get(), &none, product.c,
                                     plan->c.get(), product.c, plan->c.get(), &plan->algorithm,
                                     workspace(), workspace_bytes_, context_.stream);
  // The heuristic may name an algorithm that does not work.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return plan->exists = false;
  check(status, "cublasLtMatmul");
  return true;
}

void Matmul::run(const Product& product) {
  if (!try_run(product)) plain_product(context_, product);
}

}  // namespace ringside::cuda
