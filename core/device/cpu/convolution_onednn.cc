// Convolutions by oneDNN, in fp32 or bf16.
#include "core/device/cpu/convolution_onednn.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/device/cpu/onednn.h"

namespace ringside::cpu {
namespace {

using onednn::Arguments;
using onednn::Desc;
using onednn::Runner;
using onednn::Tag;

/// The extents of a convolution in oneDNN's order, and its operands as oneDNN describes them. With
/// several groups the weights have their number as an extent of its own, before all others.
struct Extents {
  dnnl::memory::dims x, weight, bias, y, strides, padding;
  dnnl::memory::data_type type;  // of all operands
  std::int64_t groups = 1;

  template <class Op>
  Extents(const Op& op, const Tensor& y_like) {
    const Shape &xs = op.x.shape(), &ws = op.weight.shape(), &ys = y_like.shape();
    x = {xs[0], xs[3], xs[1], xs[2]};
    weight = {ws[0], ws[3], ws[1], ws[2]};
    bias = {ws[0]};
    y = {ys[0], ys[3], ys[1], ys[2]};
    strides = {op.stride, op.stride};
    padding = {op.padding.rows, op.padding.columns};
    type = onednn::type_of(op.x.dtype());
    groups = groups_of(op.x, op.weight);
    if (groups > 1) weight = {groups, ws[0] / groups, ws[3], ws[1], ws[2]};
  }
  Desc image(const dnnl::memory::dims& dims, Tag layout = Tag::nhwc) const {
    return {dims, type, layout};
  }
  Desc our_weight() const { return {weight, type, groups > 1 ? Tag::gohwi : Tag::ohwi}; }
  Desc any_weight() const { return {weight, type, Tag::any}; }
  Desc our_bias(bool wanted) const { return wanted ? Desc{bias, type, Tag::x} : Desc{}; }
  std::string text() const {
    const std::size_t kernel = weight.size() - 2;
    return fmt::format("convolution of {}x{}x{}x{} with {} kernels of {}x{} in {} groups", x[0],
                       x[2], x[3], x[1], y[1], weight[kernel], weight[kernel + 1], groups);
  }
};

/// Whether the images are so small that oneDNN is faster in an image layout of its own, in which it
/// computes nothing for the padding. Converting small images costs little.
bool is_small(const Extents& of) {
  constexpr std::int64_t vector = 16;
  return of.groups == 1 && of.weight[2] > 1 && of.y[2] * of.y[3] <= 49 && of.x[1] % vector == 0 &&
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

/// Replaces oneDNN's choice of a kernel where that kernel writes beyond its scratch memory, and
/// with it into the memory of others: at a stride above 1 the kernels for windows of one pixel
/// gather the pixels in scratch memory that has room for C channels each, and write a whole vector
/// (oneDNN issue 6035, open for version 3.12).
void avoid_overrun(const Extents& of, dnnl::convolution_backward_weights::primitive_desc& desc) {
  constexpr std::int64_t longest_vector = 16;
  const std::int64_t channels = of.weight[of.weight.size() - 3];
  if (of.strides[0] == 1 || channels >= longest_vector) return;
  const auto overruns = [&] {
    return std::string_view(desc.impl_info_str()).starts_with("jit_1x1");
  };
  while (overruns() && desc.next_impl()) {
  }
}

void backward_weights(Runner& runner, const Extents& of, const ConvolutionBackward& op) {
  const bool bias = static_cast<bool>(op.dbias);
  // next_impl() of the descriptor below reads these two again.
  const auto hint = forward_desc(runner, of, bias, false);
  const dnnl::convolution_backward_weights::desc operation(
      dnnl::algorithm::convolution_direct, of.image(of.x), of.any_weight(), of.our_bias(bias),
      of.image(of.y), of.strides, of.padding, of.padding);
  dnnl::convolution_backward_weights::primitive_desc desc(operation, runner.attributes(),
                                                          runner.engine(), hint);
  avoid_overrun(of, desc);
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

/// Runs body(runner); an error of oneDNN names the convolution.
template <class Body>
void run(const Context& context, const Extents& of, Body body) {
  try {
    Runner runner(context);
    body(runner);
  } catch (const dnnl::error& cause) {
    throw refused_by_onednn(of.text(), cause.status, cause.what());
  }
}

}  // namespace

void convolve_by_onednn(const Context& context, const ConvolutionForward& op) {
  const Extents of(op, op.y);
  run(context, of, [&](Runner& runner) { forward(runner, of, op); });
}

void image_gradient_by_onednn(const Context& context, const ConvolutionBackward& op) {
  const Extents of(op, op.dy);
  run(context, of, [&](Runner& runner) { backward_data(runner, of, op); });
}

void weight_gradient_by_onednn(const Context& context, const ConvolutionBackward& op) {
  const Extents of(op, op.dy);
  run(context, of, [&](Runner& runner) { backward_weights(runner, of, op); });
}

}  // namespace ringside::cpu
