// Convolutions by cuDNN where it supports the shape, else by products over patches of the images,
// for as many images at a time as fit into a bounded workspace.
#include <algorithm>

#include "core/device/cuda/module/activation.h"
#include "core/device/cuda/module/column_sums.h"
#include "core/device/cuda/module/convolution_cudnn.h"
#include "core/device/cuda/module/kernels.h"
#include "core/device/cuda/module/linear.h"
#include "core/device/cuda/module/patches.h"

namespace ringside::cuda {
namespace {

void* raw(const Tensor& tensor) { return tensor.data<std::uint8_t>(); }

/// Calls visit(first image, images) for groups of images, each of at least one image, whose patches
/// of `dtype` fit into `most_bytes`. If no patches are needed, one group has all images.
template <class Visit>
void for_each_group(const ConvolutionExtents& e, DType dtype, std::int64_t most_bytes,
                    Visit&& visit) {
  const std::int64_t bytes = e.positions() * e.patch() * static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t most =
      e.is_product() ? e.images : std::clamp<std::int64_t>(most_bytes / bytes, 1, e.images);
  for (std::int64_t first = 0; first < e.images; first += most)
    visit(first, std::min(most, e.images - first));
}

/// The patches of `images` images of x from image `first` on: the rows that products read.
Tensor patches(const Context& context, const ConvolutionExtents& e, const Tensor& x,
               std::int64_t first, std::int64_t images) {
  const std::int64_t rows = images * e.positions();
  if (e.is_product()) return x.view(first * e.positions() * e.channels, {rows, e.channels});
  const Tensor out = context.device.tensor({rows, e.patch()}, MemoryKind::workspace, x.dtype());
  take_patches(context, e, x, first, images, out);
  return out;
}

/// The rows of `images` images of y [B, P, Q, K] from image `first` on.
Tensor rows_of(const Tensor& y, const ConvolutionExtents& e, std::int64_t first,
               std::int64_t images) {
  return y.view(first * e.positions() * e.filters, {images * e.positions(), e.filters});
}

void forward_by_products(const Context& context, Matmul& matmul, const ConvolutionForward& op,
                         std::int64_t most_bytes) {
  const auto e = ConvolutionExtents::of(op.x, op.weight, op.y, op.stride, op.padding);
  const DType dtype = op.x.dtype();
  for_each_group(e, dtype, most_bytes, [&](std::int64_t first, std::int64_t images) {
    const Tensor rows = patches(context, e, op.x, first, images);
    const Product product{.in = dtype,
                          .out = dtype,
                          .transpose_b = true,
                          .m = rows.shape()[0],
                          .n = e.filters,
                          .k = e.patch(),
                          .a = raw(rows),
                          .lda = e.patch(),
                          .b = raw(op.weight),
                          .ldb = e.patch(),
                          .ldc = e.filters};
    product_and_bias(context, matmul, product, op.bias, rows_of(op.y, e, first, images));
  });
}

void input_gradient_by_products(const Context& context, Matmul& matmul,
                                const ConvolutionBackward& op, std::int64_t most_bytes) {
  const auto e = ConvolutionExtents::of(op.dx, op.weight, op.dy, op.stride, op.padding);
  const DType dtype = op.dy.dtype();
  // Patches that are added up later are kept in fp32, not rounded.
  const DType made = e.is_product() ? dtype : DType::f32;
  for_each_group(e, made, most_bytes, [&](std::int64_t first, std::int64_t images) {
    const Tensor dy = rows_of(op.dy, e, first, images);
    const Tensor out = e.is_product() ? op.dx
                                      : context.device.tensor({dy.shape()[0], e.patch()},
                                                              MemoryKind::workspace, made);
    matmul.run({.in = dtype,
                .out = made,
                .m = dy.shape()[0],
                .n = e.patch(),
                .k = e.filters,
                .a = raw(dy),
                .lda = e.filters,
                .b = raw(op.weight),
                .ldb = e.patch(),
                .c = raw(out),
                .ldc = e.patch()});
    if (!e.is_product()) add_patches(context, e, out, first, images, op.dx);
  });
}

void weight_gradient_by_products(const Context& context, Matmul& matmul,
                                 const ConvolutionBackward& op, std::int64_t most_bytes) {
  const auto e = ConvolutionExtents::of(op.x, op.weight, op.dy, op.stride, op.padding);
  const DType dtype = op.dy.dtype();
  const auto scratch = [&] {
    return context.device.tensor({op.dweight.count()}, MemoryKind::workspace);
  };
  Tensor sum;  // of the groups' gradients, in fp32; empty if there is only one group
  for_each_group(e, dtype, most_bytes, [&](std::int64_t first, std::int64_t images) {
    const bool alone = images == e.images;
    const Tensor dy = rows_of(op.dy, e, first, images);
    const Tensor rows = patches(context, e, op.x, first, images);
    const Tensor out = alone ? op.dweight : scratch();
    matmul.run({.in = dtype,
                .out = out.dtype(),
                .transpose_a = true,
                .m = e.filters,
                .n = e.patch(),
                .k = dy.shape()[0],
                .a = raw(dy),
                .lda = e.filters,
                .b = raw(rows),
                .ldb = e.patch(),
                .c = raw(out),
                .ldc = e.patch()});
    if (alone) return;
    if (sum)
      add(context, {.in = out, .out = sum});
    else
      sum = out;
  });
  if (sum) cast(context, {.in = sum, .out = op.dweight});
}

}  // namespace

void convolution_forward(const Context& context, Matmul& matmul, FusedConvolution* fused,
                         const ConvolutionForward& op, std::int64_t most_bytes) {
  if (fused && fused->forward(op)) return;
  ConvolutionForward bare = op;
  bare.bias = {};
  bare.relu = false;
  const bool more = op.bias || op.relu;
  if (more && fused && fused->forward(bare)) {
    const std::int64_t filters = op.weight.shape()[0];
    if (op.bias) add_bias(context, op.bias, op.y.reshaped({op.y.count() / filters, filters}));
  } else {
    forward_by_products(context, matmul, op, most_bytes);
  }
  if (op.relu) activate(context, Activation::relu, op.y, op.y);
}

void convolution_backward(const Context& context, Matmul& matmul, FusedConvolution* fused,
                          const ConvolutionBackward& op, std::int64_t most_bytes) {
  if (op.relu) deactivate(context, Activation::relu, op.y, op.dy);
  const std::int64_t filters = op.weight.shape()[0];
  if (op.dbias) sum_columns(context, op.dy.reshaped({op.dy.count() / filters, filters}), op.dbias);
  if (op.dx && !(fused && fused->input_gradient(op)))
    input_gradient_by_products(context, matmul, op, most_bytes);
  if (!(fused && fused->weight_gradient(op)))
    weight_gradient_by_products(context, matmul, op, most_bytes);
}

}  // namespace ringside::cuda
