// Linear layers: cuBLASLt's products, with bias and activation included where cuBLASLt supports it.
#include "core/device/cuda/kernels/linear.h"

#include "core/device/cuda/kernels/activation.h"
#include "core/device/cuda/kernels/column_sums.h"
#include "core/device/cuda/kernels/kernels.h"

namespace ringside::cuda {
namespace {

void* raw(const Tensor& tensor) { return tensor.data<std::uint8_t>(); }

/// Tries to compute gelu as part of the product. In fp32 a kernel of our own computes gelu instead,
/// because cuBLASLt does not promise a gelu with more precision than tensor cores have.
bool gelu_on_the_way(Matmul& matmul, Product product, const LinearForward& op) {
  const bool aligned = product.n % 8 == 0;  // cuBLASLt requires this of the rows of `pre`
  if (op.activation != Activation::gelu || op.y.dtype() == DType::f32 || !aligned) return false;
  product.c = raw(op.y);
  product.pre = raw(op.pre);
  product.epilogue = op.bias ? Epilogue::gelu_bias : Epilogue::gelu;
  product.bias = raw(op.bias);
  return matmul.try_run(product);
}

/// Tries to sum the bias's gradient as part of the product, but not in fp32: with TF32 cuBLASLt
/// might sum rounded inputs.
bool sums_on_the_way(Matmul& matmul, Product dweight, const Tensor& dbias) {
  if (dweight.in == DType::f32) return false;
  dweight.epilogue = Epilogue::sum_columns;
  dweight.bias = raw(dbias);
  return matmul.try_run(dweight);
}

}  // namespace

void product_and_bias(const Context& context, Matmul& matmul, Product product, const Tensor& bias,
                      const Tensor& out) {
  product.c = raw(out);
  if (bias) {
    Product at_once = product;
    at_once.epilogue = Epilogue::bias;
    at_once.bias = raw(bias);
    if (matmul.try_run(at_once)) return;
  }
  matmul.run(product);
  if (bias) add_bias(context, bias, out);
}

void linear_forward(const Context& context, Matmul& matmul, const LinearForward& op) {
  const std::int64_t rows = op.x.shape()[0], in = op.weight.shape()[1], out = op.weight.shape()[0];
  const DType dtype = op.x.dtype();
  const Product product{.in = dtype,
                        .out = dtype,
                        .transpose_b = true,
                        .m = rows,
                        .n = out,
                        .k = in,
                        .a = raw(op.x),
                        .lda = in,
                        .b = raw(op.weight),
                        .ldb = in,
                        .ldc = out};
  if (gelu_on_the_way(matmul, product, op)) return;
  const bool active = op.activation != Activation::none;
  product_and_bias(context, matmul, product, op.bias, active ? op.pre : op.y);
  if (active) activate(context, op.activation, op.pre, op.y);
}

void linear_backward(const Context& context, Matmul& matmul, const LinearBackward& op) {
  const std::int64_t rows = op.dy.shape()[0], out = op.dy.shape()[1];
  const std::int64_t in = (op.dx ? op.dx : op.x).shape()[1];
  const DType dtype = op.dy.dtype();
  if (op.activation != Activation::none) deactivate(context, op.activation, op.pre, op.dy);
  if (op.dx)
    matmul.run({.in = dtype,
                .out = dtype,
                .m = rows,
                .n = in,
                .k = out,
                .a = raw(op.dy),
                .lda = out,
                .b = raw(op.weight),
                .ldb = in,
                .c = raw(op.dx),
                .ldc = in});
  if (!op.dweight) return;
  const Product dweight{.in = dtype,
                        .out = dtype,
                        .transpose_a = true,
                        .m = out,
                        .n = in,
                        .k = rows,
                        .a = raw(op.dy),
                        .lda = out,
                        .b = raw(op.x),
                        .ldb = in,
                        .c = raw(op.dweight),
                        .ldc = in};
  if (op.dbias) {
    if (sums_on_the_way(matmul, dweight, op.dbias)) return;
    sum_columns(context, op.dy, op.dbias);
  }
  matmul.run(dweight);
}

void matrix_product(const Context&, Matmul& matmul, const MatrixProduct& op) {
  const std::int64_t m = op.out.shape()[0], n = op.out.shape()[1];
  matmul.run({.in = op.a.dtype(),
              .out = op.out.dtype(),
              .transpose_a = op.transpose_a,
              .transpose_b = op.transpose_b,
              .m = m,
              .n = n,
              .k = op.a.shape()[op.transpose_a ? 0 : 1],
              .a = raw(op.a),
              .lda = op.a.shape()[1],
              .b = raw(op.b),
              .ldb = op.b.shape()[1],
              .c = raw(op.out),
              .ldc = n});
}

}  // namespace ringside::cuda
