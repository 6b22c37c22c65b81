// cuDNN's convolutions through its graph interface: channels-last tensors and filters.
#include "core/device/cuda/kernels/convolution_cudnn.h"

#include <compare>

#include "core/device/cuda/kernels/cudnn_graphs.h"
#include "core/device/cuda/kernels/patches.h"

namespace ringside::cuda {
namespace {

using TensorRef = std::shared_ptr<fe::graph::Tensor_attributes>;

enum class Pass { forward, input_gradient, weight_gradient };

/// Everything that cuDNN's choice of an engine (an implementation) depends on.
struct Key {
  ConvolutionExtents extents;
  DType dtype;
  Pass pass;
  bool bias = false, relu = false;
  bool tf32 = false;

  auto operator<=>(const Key&) const = default;
};

/// Numbers of the operands within a graph.
enum Operand : std::int64_t { x = 1, weight, bias, y, dy, dx, dweight };

/// cuDNN takes extents in the order [B, C, H, W], whatever the order in memory is. The strides tell
/// that channels come last in memory.
void describe(const TensorRef& tensor, Operand operand, std::int64_t count, std::int64_t height,
              std::int64_t width, std::int64_t channels) {
  tensor->set_uid(operand)
      .set_dim({count, channels, height, width})
      .set_stride({height * width * channels, 1, width * channels, channels});
}
void describe_in(const TensorRef& tensor, Operand operand, const ConvolutionExtents& e) {
  describe(tensor, operand, e.images, e.height, e.width, e.channels);
}
void describe_out(const TensorRef& tensor, Operand operand, const ConvolutionExtents& e) {
  describe(tensor, operand, e.images, e.out_height, e.out_width, e.filters);
}
void describe_filter(const TensorRef& tensor, Operand operand, const ConvolutionExtents& e) {
  describe(tensor, operand, e.filters, e.filter_height, e.filter_width, e.group_channels());
}
TensorRef input(fe::graph::Graph& graph) { return graph.tensor(fe::graph::Tensor_attributes()); }

template <class Attributes>
Attributes attributes(const char* name, const ConvolutionExtents& e) {
  return Attributes()
      .set_name(name)
      .set_padding({e.padding_rows, e.padding_columns})
      .set_stride({e.stride, e.stride})
      .set_dilation({1, 1});
}

void describe_forward(fe::graph::Graph& graph, const Key& key) {
  const ConvolutionExtents& e = key.extents;
  const TensorRef images = input(graph), filters = input(graph);
  describe_in(images, x, e);
  describe_filter(filters, weight, e);
  TensorRef out = graph.conv_fprop(images, filters,
                                   attributes<fe::graph::Conv_fprop_attributes>("convolution", e));
  const auto then = [](fe::PointwiseMode_t mode) {
    return fe::graph::Pointwise_attributes().set_mode(mode);
  };
  if (key.bias) {
    const TensorRef more = input(graph);
    describe(more, bias, 1, 1, 1, e.filters);
    out = graph.pointwise(out, more, then(fe::PointwiseMode_t::ADD));
  }
  if (key.relu) out = graph.pointwise(out, then(fe::PointwiseMode_t::RELU_FWD));
  describe_out(out, y, e);
  out->set_output(true);
}

void describe_input_gradient(fe::graph::Graph& graph, const Key& key) {
  const TensorRef gradient = input(graph), filters = input(graph);
  describe_out(gradient, dy, key.extents);
  describe_filter(filters, weight, key.extents);
  const TensorRef out =
      graph.conv_dgrad(gradient, filters,
                       attributes<fe::graph::Conv_dgrad_attributes>("convolution_dx", key.extents));
  describe_in(out, dx, key.extents);
  out->set_output(true);
}

void describe_weight_gradient(fe::graph::Graph& graph, const Key& key) {
  const TensorRef gradient = input(graph), images = input(graph);
  describe_out(gradient, dy, key.extents);
  describe_in(images, x, key.extents);
  const TensorRef out = graph.conv_wgrad(
      gradient, images,
      attributes<fe::graph::Conv_wgrad_attributes>("convolution_dweight", key.extents));
  describe_filter(out, dweight, key.extents);
  out->set_output(true);
}

/// Builds a graph with an engine for `key`. Throws what cuDNN's headers throw.
fe::error_t build(cudnnHandle_t handle, fe::graph::Graph& graph, const Key& key) {
  graph.set_io_data_type(graph_type(key.dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  switch (key.pass) {
    case Pass::forward:
      describe_forward(graph, key);
      break;
    case Pass::input_gradient:
      describe_input_gradient(graph, key);
      break;
    case Pass::weight_gradient:
      describe_weight_gradient(graph, key);
      break;
  }
  std::vector<fe::NumericalNote_t> refused = {
      fe::NumericalNote_t::NONDETERMINISTIC, fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION,
      fe::NumericalNote_t::DOWN_CONVERT_INPUTS, fe::NumericalNote_t::WINOGRAD_TILE_6x6,
      fe::NumericalNote_t::WINOGRAD_TILE_13x13};
  // fp32 on tensor cores would be TF32, which was not asked for.
  if (key.dtype == DType::f32 && !key.tf32) refused.push_back(fe::NumericalNote_t::TENSOR_CORE);
  if (auto status = graph.validate(); status.is_bad()) return status;
  if (auto status = graph.build_operation_graph(handle); status.is_bad()) return status;
  const std::vector<fe::HeurMode_t> modes = {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK};
  if (auto status = graph.create_execution_plans(modes); status.is_bad()) return status;
  graph.deselect_numeric_notes(refused);
  if (auto status = graph.check_support(); status.is_bad()) return status;
  return graph.build_plans();
}

std::string text(const Key& key) {
  const ConvolutionExtents& e = key.extents;
  return fmt::format("convolution of {}x{}x{}x{} by {}x{}x{} in {} groups", e.images, e.height,
                     e.width, e.channels, e.filters, e.filter_height, e.filter_width, e.groups);
}

void* raw(const Tensor& tensor) { return tensor.data<std::uint8_t>(); }

class CudnnConvolution final : public FusedConvolution {
 public:
  explicit CudnnConvolution(const Context& context) : tf32_(context.tf32), graphs_(context) {}

  bool forward(const ConvolutionForward& op) override {
    if (!is_for_cudnn(op.x, op.weight, op.bias, op.y)) return false;
    GraphOperands operands = {{x, raw(op.x)}, {weight, raw(op.weight)}, {y, raw(op.y)}};
    if (op.bias) operands.emplace(bias, raw(op.bias));
    return graphs_.run(
        {.extents = ConvolutionExtents::of(op.x, op.weight, op.y, op.stride, op.padding),
         .dtype = op.x.dtype(),
         .pass = Pass::forward,
         .bias = static_cast<bool>(op.bias),
         .relu = op.relu,
         .tf32 = tf32_},
        build, std::move(operands), text);
  }

  bool input_gradient(const ConvolutionBackward& op) override {
    return is_for_cudnn(op.dy, op.weight, op.dx) &&
           graphs_.run(key(op, Pass::input_gradient), build,
                       {{dy, raw(op.dy)}, {weight, raw(op.weight)}, {dx, raw(op.dx)}}, text);
  }

  bool weight_gradient(const ConvolutionBackward& op) override {
    return is_for_cudnn(op.dy, op.x, op.dweight) &&
           graphs_.run(key(op, Pass::weight_gradient), build,
                       {{dy, raw(op.dy)}, {x, raw(op.x)}, {dweight, raw(op.dweight)}}, text);
  }

 private:
  Key key(const ConvolutionBackward& op, Pass pass) const {
    return {.extents = ConvolutionExtents::of(op.x, op.weight, op.dy, op.stride, op.padding),
            .dtype = op.dy.dtype(),
            .pass = pass,
            .tf32 = tf32_};
  }

  const bool tf32_;
  CudnnGraphs<Key> graphs_;
};

}  // namespace

std::unique_ptr<FusedConvolution> make_fused_convolution(const Context& context) {
  return std::make_unique<CudnnConvolution>(context);
}

}  // namespace ringside::cuda
