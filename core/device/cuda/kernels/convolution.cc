// Convolutions by cuDNN where it supports the shape, else by products over patches of the images,
// for as many images at a time as fit into a bounded workspace.
#include <algorithm>

#include "core/device/cuda/kernels/activation.h"
#include "core/device/cuda/kernels/column_sums.h"
#include "core/device/cuda/kernels/convolution_cudnn.h"
#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/kernels/linear.h"
#include "core/device/cuda/kernels/patches.h"

namespace ringside::cuda {
namespace {

/// A matrix within a tensor: where it begins, and how many elements lie between its rows.
struct Matrix {
  void* data;
  std::int64_t stride;
};

Matrix from(const Tensor& tensor, std::int64_t begin, std::int64_t stride) {
  return {tensor.data<std::uint8_t>() + begin * static_cast<std::int64_t>(size_of(tensor.dtype())),
          stride};
}

/// The columns of a portion's filters in y [B, P, Q, K].
Matrix results(const Tensor& y, const ConvolutionExtents& e, const Portion& portion) {
  return from(y, portion.first * e.positions() * e.filters + portion.group * e.group_filters(),
              e.filters);
}

/// The columns of a portion's channels in x [B, H, W, C], where pixels are patches.
Matrix pixels(const Tensor& x, const ConvolutionExtents& e, const Portion& portion) {
  return from(x, portion.first * e.positions() * e.channels + portion.group * e.group_channels(),
              e.channels);
}

/// The filters of a group in weight [K, R, S, C / G].
Matrix filters_of(const Tensor& weight, const ConvolutionExtents& e, std::int64_t group) {
  return from(weight, group * e.group_filters() * e.patch(), e.patch());
}

/// Calls visit(first image, images) for parts of the batch, each of at least one image, whose
/// patches of `dtype` fit into `most_bytes`, a group at a time. If no patches are needed, one part
/// has all images.
template <class Visit>
void for_each_part(const ConvolutionExtents& e, DType dtype, std::int64_t most_bytes,
                   Visit&& visit) {
  const std::int64_t bytes = e.positions() * e.patch() * static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t most =
      e.is_product() ? e.images : std::clamp<std::int64_t>(most_bytes / bytes, 1, e.images);
  for (std::int64_t first = 0; first < e.images; first += most)
    visit(first, std::min(most, e.images - first));
}

/// Calls visit(portion) for every group of every part.
template <class Visit>
void for_each_portion(const ConvolutionExtents& e, DType dtype, std::int64_t most_bytes,
                      Visit&& visit) {
  for_each_part(e, dtype, most_bytes, [&](std::int64_t first, std::int64_t images) {
    for (std::int64_t group = 0; group < e.groups; ++group) visit(Portion{first, images, group});
  });
}

/// The patches of a portion of x: the rows that products read. `keep` owns them if they are made.
Matrix patches(const Context& context, const ConvolutionExtents& e, const Tensor& x,
               const Portion& portion, Tensor& keep) {
  if (e.is_product()) return pixels(x, e, portion);
  keep = context.device.tensor({portion.images * e.positions(), e.patch()}, MemoryKind::workspace,
                               x.dtype());
  take_patches(context, e, x, portion, keep);
  return from(keep, 0, e.patch());
}

void forward_by_products(const Context& context, Matmul& matmul, const ConvolutionForward& op,
                         std::int64_t most_bytes) {
  const auto e = ConvolutionExtents::of(op.x, op.weight, op.y, op.stride, op.padding);
  const DType dtype = op.x.dtype();
  for_each_portion(e, dtype, most_bytes, [&](const Portion& portion) {
    Tensor keep;
    const Matrix rows = patches(context, e, op.x, portion, keep);
    const Matrix filters = filters_of(op.weight, e, portion.group);
    const Matrix y = results(op.y, e, portion);
    Product product{.in = dtype,
                    .out = dtype,
                    .transpose_b = true,
                    .m = portion.images * e.positions(),
                    .n = e.group_filters(),
                    .k = e.patch(),
                    .a = rows.data,
                    .lda = rows.stride,
                    .b = filters.data,
                    .ldb = filters.stride,
                    .c = y.data,
                    .ldc = y.stride};
    if (e.groups > 1) return matmul.run(product);
    const Tensor out = op.y.view(portion.first * e.positions() * e.filters, {product.m, product.n});
    product_and_bias(context, matmul, product, op.bias, out);
  });
  if (e.groups > 1 && op.bias)
    add_bias(context, op.bias, op.y.reshaped({op.y.count() / e.filters, e.filters}));
}

void input_gradient_by_products(const Context& context, Matmul& matmul,
                                const ConvolutionBackward& op, std::int64_t most_bytes) {
  const auto e = ConvolutionExtents::of(op.dx, op.weight, op.dy, op.stride, op.padding);
  const DType dtype = op.dy.dtype();
  // Patches that are added up later are kept in fp32, not rounded.
  const DType made = e.is_product() ? dtype : DType::f32;
  for_each_portion(e, made, most_bytes, [&](const Portion& portion) {
    const Matrix dy = results(op.dy, e, portion);
    const Matrix filters = filters_of(op.weight, e, portion.group);
    const std::int64_t rows = portion.images * e.positions();
    Tensor keep;
    if (!e.is_product())
      keep = context.device.tensor({rows, e.patch()}, MemoryKind::workspace, made);
    const Matrix out = e.is_product() ? pixels(op.dx, e, portion) : from(keep, 0, e.patch());
    matmul.run({.in = dtype,
                .out = made,
                .m = rows,
                .n = e.patch(),
                .k = e.group_filters(),
                .a = dy.data,
                .lda = dy.stride,
                .b = filters.data,
                .ldb = filters.stride,
                .c = out.data,
                .ldc = out.stride});
    if (!e.is_product()) add_patches(context, e, keep, portion, op.dx);
  });
}

void weight_gradient_by_products(const Context& context, Matmul& matmul,
                                 const ConvolutionBackward& op, std::int64_t most_bytes) {
  const auto e = ConvolutionExtents::of(op.x, op.weight, op.dy, op.stride, op.padding);
  const DType dtype = op.dy.dtype();
  const auto scratch = [&] {
    return context.device.tensor({op.dweight.count()}, MemoryKind::workspace);
  };
  Tensor sum;  // of the parts' gradients, in fp32; empty if there is only one part
  for_each_part(e, dtype, most_bytes, [&](std::int64_t first, std::int64_t images) {
    const bool alone = images == e.images;
    const Tensor out = alone ? op.dweight : scratch();
    for (std::int64_t group = 0; group < e.groups; ++group) {
      const Portion portion{first, images, group};
      Tensor keep;
      const Matrix rows = patches(context, e, op.x, portion, keep);
      const Matrix dy = results(op.dy, e, portion), filters = filters_of(out, e, group);
      matmul.run({.in = dtype,
                  .out = out.dtype(),
                  .transpose_a = true,
                  .m = e.group_filters(),
                  .n = e.patch(),
                  .k = images * e.positions(),
                  .a = dy.data,
                  .lda = dy.stride,
                  .b = rows.data,
                  .ldb = rows.stride,
                  .c = filters.data,
                  .ldc = filters.stride});
    }
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
                          const ConvolutionBackward& given, std::int64_t most_bytes) {
  const ConvolutionBackward op = with_extents(given);
  if (op.relu) deactivate(context, Activation::relu, op.y, op.dy);
  const std::int64_t filters = op.weight.shape()[0];
  if (op.dbias) sum_columns(context, op.dy.reshaped({op.dy.count() / filters, filters}), op.dbias);
  if (op.dx && !(fused && fused->input_gradient(op)))
    input_gradient_by_products(context, matmul, op, most_bytes);
  if (op.dweight && !(fused && fused->weight_gradient(op)))
    weight_gradient_by_products(context, matmul, op, most_bytes);
}

}  // namespace ringside::cuda
