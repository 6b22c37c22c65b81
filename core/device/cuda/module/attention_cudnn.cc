// cuDNN's fused attention through its graph interface. The only file that knows cuDNN.
#include "core/device/cuda/module/attention_cudnn.h"

#include <cudnn.h>
#include <cudnn_frontend.h>

#include <cmath>
#include <compare>
#include <initializer_list>
#include <map>
#include <unordered_map>

#include "core/base/error.h"
#include "core/device/cuda/module/launch.h"

namespace ringside::cuda {
namespace {

namespace fe = cudnn_frontend;
using TensorRef = std::shared_ptr<fe::graph::Tensor_attributes>;

void check(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) throw Error("{}: {}", call, cudnnGetErrorString(status));
}

/// What an engine is chosen by.
struct Key {
  std::int64_t samples, positions, heads, depth;
  bool causal, backward;

  Key(const Tensor& qkv, bool causal, bool backward)
      : samples(qkv.shape()[0]),
        positions(qkv.shape()[1]),
        heads(qkv.shape()[3]),
        depth(qkv.shape()[4]),
        causal(causal),
        backward(backward) {}
  auto operator<=>(const Key&) const = default;

  std::int64_t width() const { return heads * depth; }
};

/// The operands' names within a graph.
enum Operand : std::int64_t { q = 1, k, v, y, statistics, dy, dq, dk, dv };
using Operands = std::unordered_map<std::int64_t, void*>;

struct Plan {
  fe::graph::Graph graph;
  std::int64_t workspace_bytes = 0;
  bool exists = false;
};

/// cuDNN sees [B, H, T, D] with strides.
void describe(const TensorRef& tensor, const Key& key, Operand operand, std::int64_t row) {
  tensor->set_uid(operand)
      .set_dim({key.samples, key.heads, key.positions, key.depth})
      .set_stride({key.positions * row, key.depth, row, 1});
}
void describe_statistics(const TensorRef& tensor, const Key& key) {
  tensor->set_uid(statistics)
      .set_dim({key.samples, key.heads, key.positions, 1})
      .set_stride({key.heads * key.positions, key.positions, 1, 1})
      .set_data_type(fe::DataType_t::FLOAT);
}
TensorRef input(fe::graph::Graph& graph, const Key& key, Operand operand, std::int64_t row) {
  auto tensor = graph.tensor(fe::graph::Tensor_attributes());
  describe(tensor, key, operand, row);
  return tensor;
}

float scale_of(const Key& key) { return 1 / std::sqrt(static_cast<float>(key.depth)); }

void describe_forward(fe::graph::Graph& graph, const Key& key) {
  const std::int64_t packed = 3 * key.width();
  auto options = fe::graph::SDPA_attributes()
                     .set_name("attention_forward")
                     .set_generate_stats(true)
                     .set_attn_scale(scale_of(key));
  if (key.causal) options.set_causal_mask(true);
  const auto [out, sums] = graph.sdpa(input(graph, key, q, packed), input(graph, key, k, packed),
                                      input(graph, key, v, packed), options);
  describe(out, key, y, key.width());
  out->set_output(true);
  describe_statistics(sums, key);
  sums->set_output(true);
}

void describe_backward(fe::graph::Graph& graph, const Key& key) {
  const std::int64_t packed = 3 * key.width();
  // Without this dq is added up in the order in which blocks come.
  auto options = fe::graph::SDPA_backward_attributes()
                     .set_name("attention_backward")
                     .set_deterministic_algorithm(true)
                     .set_attn_scale(scale_of(key));
  if (key.causal) options.set_causal_mask(true);
  auto sums = graph.tensor(fe::graph::Tensor_attributes());
  describe_statistics(sums, key);
  const auto gradients = graph.sdpa_backward(
      input(graph, key, q, packed), input(graph, key, k, packed), input(graph, key, v, packed),
      input(graph, key, y, key.width()), input(graph, key, dy, key.width()), sums, options);
  constexpr Operand names[] = {dq, dk, dv};
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    describe(gradients[i], key, names[i], packed);
    gradients[i]->set_output(true);
  }
}

/// Looks for an engine; throws what cuDNN's headers throw.
void build(cudnnHandle_t handle, const Key& key, Plan& plan) {
  plan.graph.set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  key.backward ? describe_backward(plan.graph, key) : describe_forward(plan.graph, key);
  if (plan.graph.build(handle, {fe::HeurMode_t::A}).is_bad()) return;
  plan.exists = plan.graph.get_workspace_size(plan.workspace_bytes).is_good();
}

/// Operands and strides of less than 16 bytes are not for cuDNN.
bool is_aligned(std::initializer_list<const Tensor*> tensors, const Key& key) {
  for (const Tensor* tensor : tensors)
    if (reinterpret_cast<std::uintptr_t>(tensor->data<std::uint8_t>()) % 16 != 0) return false;
  return key.depth % 8 == 0;
}

/// Parts 0, 1 and 2 of [B, T, 3, H, D].
void* part(const Tensor& packed, const Key& key, int index) {
  return packed.data<bf16>() + index * key.width();
}

class CudnnAttention final : public FusedAttention {
 public:
  explicit CudnnAttention(const Context& context) : context_(context) {}
  ~CudnnAttention() override {
    plans_.clear();
    if (handle_) cudnnDestroy(handle_);
  }
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  bool forward(const AttentionForward& op) override {
    const Key key(op.qkv, op.causal, false);
    if (op.qkv.dtype() != DType::bf16 || !is_aligned({&op.qkv, &op.y}, key)) return false;
    return run(key, {{q, part(op.qkv, key, 0)},
                     {k, part(op.qkv, key, 1)},
                     {v, part(op.qkv, key, 2)},
                     {y, op.y.data<bf16>()},
                     {statistics, op.statistics.data<float>()}});
  }

  bool backward(const AttentionBackward& op) override {
    const Key key(op.qkv, op.causal, true);
    if (op.qkv.dtype() != DType::bf16 || !is_aligned({&op.qkv, &op.y, &op.dy, &op.dqkv}, key))
      return false;
    return run(key, {{q, part(op.qkv, key, 0)},
                     {k, part(op.qkv, key, 1)},
                     {v, part(op.qkv, key, 2)},
                     {y, op.y.data<bf16>()},
                     {statistics, op.statistics.data<float>()},
                     {dy, op.dy.data<bf16>()},
                     {dq, part(op.dqkv, key, 0)},
                     {dk, part(op.dqkv, key, 1)},
                     {dv, part(op.dqkv, key, 2)}});
  }

 private:
  Plan& plan_for(const Key& key) {
    // Not before it is wanted: cuDNN takes memory of its own.
    if (!handle_) {
      check(cudnnCreate(&handle_), "cudnnCreate");
      check(cudnnSetStream(handle_, context_.stream), "cudnnSetStream");
    }
    auto& plan = plans_[key];
    if (plan) return *plan;
    plan = std::make_unique<Plan>();
    try {
      build(handle_, key, *plan);
    } catch (const std::exception&) {
      plan->exists = false;  // some shapes are refused this way
    }
    return *plan;
  }

  bool run(const Key& key, Operands operands) {
    use(context_);
    Plan& plan = plan_for(key);
    if (!plan.exists) return false;
    const auto workspace = context_.device.allocate(static_cast<std::size_t>(plan.workspace_bytes),
                                                    MemoryKind::workspace);
    auto status = plan.graph.execute(handle_, operands, workspace->data());
    if (status.is_bad())
      throw Error("gpu {}: cuDNN's attention of {}x{}x{}x{}: {}", context_.device.ordinal(),
                  key.samples, key.positions, key.heads, key.depth, status.get_message());
    return true;
  }

  Context context_;
  cudnnHandle_t handle_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace

std::unique_ptr<FusedAttention> make_fused_attention(const Context& context) {
  return std::make_unique<CudnnAttention>(context);
}

std::string cudnn_version() {
  const std::size_t version = cudnnGetVersion();  // 91900
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace ringside::cuda
