// Convolutions through oneDNN, which chooses how it wants the weights laid out.
#include <algorithm>
#include <dnnl.hpp>
#include <unordered_map>

#include "core/base/error.h"
#include "core/device/cpu/convolution_taps.h"
#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"

extern "C" void omp_set_num_threads(int threads);

namespace ringside::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
using Arguments = std::unordered_map<int, dnnl::memory>;

/// The extents of a convolution and what oneDNN calls them.
struct Extents {
  dnnl::memory::dims x, weight, bias, y, strides, padding;

  template <class Op>
  Extents(const Op& op, const Tensor& y_like) {
    const Shape &xs = op.x.shape(), &ws = op.weight.shape(), &ys = y_like.shape();
    x = {xs[0], xs[3], xs[1], xs[2]};
    weight = {ws[0], ws[3], ws[1], ws[2]};
    bias = {ws[0]};
    y = {ys[0], ys[3], ys[1], ys[2]};
    strides = {op.stride, op.stride};
    padding = {op.padding, op.padding};
  }
  static Desc image(const dnnl::memory::dims& dims, Tag layout = Tag::nhwc) {
    return {dims, dnnl::memory::data_type::f32, layout};
  }
  Desc our_weight() const { return {weight, dnnl::memory::data_type::f32, Tag::ohwi}; }
  Desc any_weight() const { return {weight, dnnl::memory::data_type::f32, Tag::any}; }
  Desc our_bias(bool wanted) const {
    return wanted ? Desc{bias, dnnl::memory::data_type::f32, Tag::x} : Desc{};
  }
  std::string text() const {
    return fmt::format("convolution of {}x{}x{}x{} with {} kernels of {}x{}", x[0], x[2], x[3],
                       x[1], weight[0], weight[2], weight[3]);
  }
};

/// Runs primitives made in the calling thread, as their default scratch memory would demand.
class Runner {
 public:
  explicit Runner(const Context& context) : context_(context) {
    omp_set_num_threads(context.threads);  // holds for the calling thread only
  }

  const dnnl::engine& engine() const { return engine_; }
  /// New ones: a copy would share what it is a copy of.
  static dnnl::primitive_attr attributes() {
    dnnl::primitive_attr out;
    out.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return out;
  }

  dnnl::memory memory(const Desc& desc, const Tensor& tensor) const {
    return {desc, engine_, tensor.data<float>()};
  }
  /// Scratch memory, which `keep` owns.
  dnnl::memory scratch(const Desc& desc, Tensor& keep) const {
    keep = context_.device.tensor(Shape{static_cast<std::int64_t>(desc.get_size())},
                                  MemoryKind::workspace, DType::u8);
    return {desc, engine_, keep.data<std::uint8_t>()};
  }

  template <class Primitive, class PrimitiveDesc>
  void run(const PrimitiveDesc& desc, Arguments arguments) {
    Tensor keep;
    if (desc.scratchpad_desc().get_size() > 0)
      arguments.emplace(DNNL_ARG_SCRATCHPAD, scratch(desc.scratchpad_desc(), keep));
    Primitive(desc).execute(stream_, arguments);
  }

  void reorder(const dnnl::memory& from, const dnnl::memory& to) {
    const dnnl::reorder::primitive_desc desc(engine_, from.get_desc(), engine_, to.get_desc(),
                                             attributes());
    run<dnnl::reorder>(desc, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }
  /// What `ours` holds as `wanted`, in `keep` where that is not how it is.
  dnnl::memory laid_out(const dnnl::memory& ours, const Desc& wanted, Tensor& keep) {
    if (ours.get_desc() == wanted) return ours;
    const dnnl::memory theirs = scratch(wanted, keep);
    reorder(ours, theirs);
    return theirs;
  }

 private:
  const Context& context_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
};

/// Small images are computed faster in a layout of oneDNN's own, which leaves out the padding, and
/// cost little to bring there.
bool is_small(const Extents& of) {
  constexpr std::int64_t vector = 16;
  return of.weight[2] > 1 && of.y[2] * of.y[3] <= 49 && of.x[1] % vector == 0 &&
         of.y[1] % vector == 0;
}

auto forward_desc(const Runner& runner, const Extents& of, bool bias, bool relu,
                  Tag images = Tag::nhwc) {
  dnnl::primitive_attr attributes = runner.attributes();
  if (relu) {
    dnnl::post_ops after;
    after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    attributes.set_post_ops(after);
  }
  const dnnl::convolution_forward::desc desc(
      dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct,
      of.image(of.x, images), of.any_weight(), of.our_bias(bias), of.image(of.y, images),
      of.strides, of.padding, of.padding);
  return dnnl::convolution_forward::primitive_desc(desc, attributes, runner.engine());
}

void forward(Runner& runner, const Extents& of, const ConvolutionForward& op) {
  const auto desc = forward_desc(runner, of, static_cast<bool>(op.bias), op.relu,
                                 is_small(of) ? Tag::any : Tag::nhwc);
  Tensor keep_x, keep_weight, keep_y;
  const dnnl::memory y = runner.memory(of.image(of.y), op.y);
  const bool same = y.get_desc() == desc.dst_desc();
  const dnnl::memory theirs = same ? y : runner.scratch(desc.dst_desc(), keep_y);
  Arguments arguments{
      {DNNL_ARG_SRC, runner.laid_out(runner.memory(of.image(of.x), op.x), desc.src_desc(), keep_x)},
      {DNNL_ARG_WEIGHTS, runner.laid_out(runner.memory(of.our_weight(), op.weight),
                                         desc.weights_desc(), keep_weight)},
      {DNNL_ARG_DST, theirs}};
  if (op.bias) arguments.emplace(DNNL_ARG_BIAS, runner.memory(of.our_bias(true), op.bias));
  runner.run<dnnl::convolution_forward>(desc, std::move(arguments));
  if (!same) runner.reorder(theirs, y);
}

void backward_data(Runner& runner, const Extents& of, const ConvolutionBackward& op) {
  const dnnl::convolution_backward_data::primitive_desc desc(
      {dnnl::algorithm::convolution_direct, of.image(of.x), of.any_weight(), of.image(of.y),
       of.strides, of.padding, of.padding},
      runner.attributes(), runner.engine(), forward_desc(runner, of, false, false));
  Tensor keep;
  runner.run<dnnl::convolution_backward_data>(
      desc, {{DNNL_ARG_DIFF_DST, runner.memory(of.image(of.y), op.dy)},
             {DNNL_ARG_WEIGHTS, runner.laid_out(runner.memory(of.our_weight(), op.weight),
                                                desc.weights_desc(), keep)},
             {DNNL_ARG_DIFF_SRC, runner.memory(of.image(of.x), op.dx)}});
}

void backward_weights(Runner& runner, const Extents& of, const ConvolutionBackward& op) {
  const bool bias = static_cast<bool>(op.dbias);
  const dnnl::convolution_backward_weights::primitive_desc desc(
      {dnnl::algorithm::convolution_direct, of.image(of.x), of.any_weight(), of.our_bias(bias),
       of.image(of.y), of.strides, of.padding, of.padding},
      runner.attributes(), runner.engine(), forward_desc(runner, of, bias, false));
  const dnnl::memory ours = runner.memory(of.our_weight(), op.dweight);
  Tensor keep;
  const bool same = ours.get_desc() == desc.diff_weights_desc();
  const dnnl::memory theirs = same ? ours : runner.scratch(desc.diff_weights_desc(), keep);
  Arguments arguments{{DNNL_ARG_SRC, runner.memory(of.image(of.x), op.x)},
                      {DNNL_ARG_DIFF_DST, runner.memory(of.image(of.y), op.dy)},
                      {DNNL_ARG_DIFF_WEIGHTS, theirs}};
  if (bias) arguments.emplace(DNNL_ARG_DIFF_BIAS, runner.memory(of.our_bias(true), op.dbias));
  runner.run<dnnl::convolution_backward_weights>(desc, std::move(arguments));
  if (!same) runner.reorder(theirs, ours);
}

/// dy = 0 where y is not above 0.
void through_relu(const Context& context, const Tensor& y_tensor, const Tensor& dy_tensor) {
  parallel_for(context.threads, dy_tensor.count(), 1 << 15,
               [&](std::int64_t begin, std::int64_t end, int) {
                 const float* __restrict y = y_tensor.data<float>();
                 float* __restrict dy = dy_tensor.data<float>();
                 for (std::int64_t i = begin; i < end; ++i) dy[i] = y[i] > 0 ? dy[i] : 0.0f;
               });
}

Error failure(const Extents& of, const dnnl::error& cause) {
  return Error("{} on the CPU: oneDNN status {} ({}); is there memory left?", of.text(),
               static_cast<int>(cause.status), cause.what());
}

}  // namespace

void convolution_forward(const Context& context, const ConvolutionForward& op) {
  const Extents of(op, op.y);
  try {
    Runner runner(context);
    forward(runner, of, op);
  } catch (const dnnl::error& cause) {
    throw failure(of, cause);
  }
}

void convolution_backward(const Context& context, const ConvolutionBackward& op) {
  const Extents of(op, op.dy);
  if (op.relu) through_relu(context, op.y, op.dy);
  try {
    Runner runner(context);
    if (op.dx) backward_data(runner, of, op);
    if (taps_are_faster(op))
      weight_gradient_by_taps(context, op);
    else
      backward_weights(runner, of, op);
  } catch (const dnnl::error& cause) {
    throw failure(of, cause);
  }
}

}  // namespace ringside::cpu
