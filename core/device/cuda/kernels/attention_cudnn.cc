// cuDNN's fused attention through its graph interface.
#include "core/device/cuda/kernels/attention_cudnn.h"

#include <cmath>
#include <compare>

#include "core/device/cuda/kernels/cudnn_graphs.h"

namespace ringside::cuda {
namespace {

using TensorRef = std::shared_ptr<fe::graph::Tensor_attributes>;

/// Everything that the choice of an engine depends on.
struct Key {
  DType dtype;
  std::int64_t samples, positions, heads, key_heads, depth;
  bool causal, backward;

  Key(const Tensor& qkv, const Tensor& y, bool causal, bool backward)
      : dtype(y.dtype()),
        samples(y.shape()[0]),
        positions(y.shape()[1]),
        heads(y.shape()[2]),
        key_heads(key_heads_of(qkv, y)),
        depth(y.shape()[3]),
        causal(causal),
        backward(backward) {}
  auto operator<=>(const Key&) const = default;

  std::int64_t width() const { return heads * depth; }
  /// Elements of a position of q, k and v together.
  std::int64_t packed() const { return (heads + 2 * key_heads) * depth; }
};

/// Numbers of the operands within a graph.
enum Operand : std::int64_t { q = 1, k, v, y, statistics, dy, dq, dk, dv };

bool is_of_keys(Operand operand) {
  return operand == k || operand == v || operand == dk || operand == dv;
}

/// For cuDNN the extents are [B, H, T, D], with K heads in place of H for keys and values, and
/// strides say where the elements lie.
void describe(const TensorRef& tensor, const Key& key, Operand operand, std::int64_t row) {
  const std::int64_t heads = is_of_keys(operand) ? key.key_heads : key.heads;
  tensor->set_uid(operand)
      .set_dim({key.samples, heads, key.positions, key.depth})
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
  const std::int64_t packed = key.packed();
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
  const std::int64_t packed = key.packed();
  // Without the deterministic option the terms of dq are added in the order in which blocks finish.
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

/// Builds a graph with an engine for `key`. Throws what cuDNN's headers throw.
fe::error_t build(cudnnHandle_t handle, fe::graph::Graph& graph, const Key& key) {
  graph.set_io_data_type(graph_type(key.dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  key.backward ? describe_backward(graph, key) : describe_forward(graph, key);
  return graph.build(handle, {fe::HeurMode_t::A});
}

bool is_for_it(const Key& key) { return key.dtype != DType::f32 && key.depth % 8 == 0; }

std::string text(const Key& key) {
  return fmt::format("attention of {}x{}x{}x{} with {} heads of keys", key.samples, key.positions,
                     key.heads, key.depth, key.key_heads);
}

void* raw(const Tensor& tensor) { return tensor.data<std::uint8_t>(); }

/// Address of the first head of q, k or v (part 0, 1 or 2) in [B, T, H + 2 * K, D].
void* part(const Tensor& packed, const Key& key, int index) {
  const std::int64_t heads = index == 0 ? 0 : key.heads + (index - 1) * key.key_heads;
  return packed.data<std::uint8_t>() +
         static_cast<std::size_t>(heads * key.depth) * size_of(key.dtype);
}

class CudnnAttention final : public FusedAttention {
 public:
  explicit CudnnAttention(const Context& context) : graphs_(context) {}

  bool forward(const AttentionForward& op) override {
    const Key key(op.qkv, op.y, op.causal, false);
    if (!is_for_it(key) || !is_for_cudnn(op.qkv, op.y)) return false;
    return graphs_.run(key, build,
                       {{q, part(op.qkv, key, 0)},
                        {k, part(op.qkv, key, 1)},
                        {v, part(op.qkv, key, 2)},
                        {y, raw(op.y)},
                        {statistics, raw(op.statistics)}},
                       text);
  }

  bool backward(const AttentionBackward& op) override {
    const Key key(op.qkv, op.y, op.causal, true);
    if (!is_for_it(key) || !is_for_cudnn(op.qkv, op.y, op.dy, op.dqkv)) return false;
    return graphs_.run(key, build,
                       {{q, part(op.qkv, key, 0)},
                        {k, part(op.qkv, key, 1)},
                        {v, part(op.qkv, key, 2)},
                        {y, raw(op.y)},
                        {statistics, raw(op.statistics)},
                        {dy, raw(op.dy)},
                        {dq, part(op.dqkv, key, 0)},
                        {dk, part(op.dqkv, key, 1)},
                        {dv, part(op.dqkv, key, 2)}},
                       text);
  }

 private:
  CudnnGraphs<Key> graphs_;
};

}  // namespace

std::unique_ptr<FusedAttention> make_fused_attention(const Context& context) {
  return std::make_unique<CudnnAttention>(context);
}

std::string cudnn_version() {
  const std::size_t version = cudnnGetVersion();  // for example 91900
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace ringside::cuda
