// Tests of our kernels for operations that cuBLASLt or cuDNN does not offer, and of plain attention
// and plain convolution with workspaces of bounded size.
#include <gtest/gtest.h>

#include "core/device/cuda/kernels/activation.h"
#include "core/device/cuda/kernels/column_sums.h"
#include "core/device/cuda/kernels/convolution_cudnn.h"
#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/kernels/matmul.h"
#include "core/device/cuda/kernels/plain_product.h"
#include "tests/cuda_on_host/control.h"
#include "tests/device/harness.h"

namespace ringside {
namespace {

using reference::Values;

class KernelParts : public KernelsOnDevice {
 protected:
  cuda::Context context() const {
    auto& gpu = cuda::cuda_device(device());
    return {.device = gpu,
            .stream = static_cast<cudaStream_t>(gpu.compute_stream()),
            .multiprocessors = 4,
            .major = 9};
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, KernelParts, ::testing::ValuesIn(layers_under_test()), case_name);

struct Extents {
  std::int64_t rows, columns;
};

TEST_P(KernelParts, SumColumns) {
  for (const auto& s : {Extents{1, 1}, Extents{3, 33}, Extents{130, 7}, Extents{500, 64},
                        Extents{70, 1032}, Extents{2000, 8}}) {
    const Values in = normal(s.rows * s.columns);
    const Tensor out = output({s.columns});
    cuda::sum_columns(context(), upload({s.rows, s.columns}, in), out);
    Values expected(static_cast<std::size_t>(s.columns), 0.0);
    for (std::size_t i = 0; i < in.size(); ++i) expected[i % expected.size()] += in[i];
    SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.columns);
    EXPECT_CLOSE(out, expected);
  }
}

TEST_P(KernelParts, AddBias) {
  for (const auto& s : {Extents{1, 1}, Extents{3, 33}, Extents{20, 520}}) {
    Values x = normal(s.rows * s.columns);
    const Values bias = normal(s.columns);
    const Tensor out = upload({s.rows, s.columns}, x);
    cuda::add_bias(context(), upload({s.columns}, bias), out);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += bias[i % bias.size()];
    EXPECT_CLOSE(out, x);
  }
}

TEST_P(KernelParts, ProductWithoutCublas) {
  constexpr std::int64_t batch = 3, m = 17, n = 33, k = 21;
  const Values a = normal(batch * m * k), b = normal(batch * k * n);
  const auto matrix = [](const Values& all, std::int64_t index, std::int64_t count) {
    return Values(all.begin() + index * count, all.begin() + (index + 1) * count);
  };
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const bool rounded : {false, true}) {
        const Tensor c = rounded ? output({batch, m, n}) : output_f32({batch, m, n});
        const Tensor stored_a = upload({batch, m, k}, a), stored_b = upload({batch, k, n}, b);
        cuda::plain_product(context(), {.in = dtype(),
                                        .out = c.dtype(),
                                        .transpose_a = transpose_a,
                                        .transpose_b = transpose_b,
                                        .m = m,
                                        .n = n,
                                        .k = k,
                                        .alpha = 0.5F,
                                        .a = stored_a.data<std::uint8_t>(),
                                        .lda = transpose_a ? m : k,
                                        .b = stored_b.data<std::uint8_t>(),
                                        .ldb = transpose_b ? k : n,
                                        .c = c.data<std::uint8_t>(),
                                        .ldc = n,
                                        .batch = batch,
                                        .stride_a = m * k,
                                        .stride_b = k * n,
                                        .stride_c = m * n});
        Values expected;
        for (std::int64_t i = 0; i < batch; ++i)
          for (const double value : reference::product(matrix(a, i, m * k), transpose_a,
                                                       matrix(b, i, k * n), transpose_b, m, n, k))
            expected.push_back(0.5 * value);
        EXPECT_CLOSE(c, expected);
      }
}

TEST_P(KernelParts, AttentionWithRoomForFewHeadsGivesTheSameBits) {
  constexpr std::int64_t samples = 2, positions = 20, heads = 6, depth = 8;
  for (const std::int64_t key_heads : {6, 1}) {
    const Shape qkv_shape{samples, positions, heads + 2 * key_heads, depth};
    const Tensor qkv = upload(qkv_shape, normal(qkv_shape.count()));
    const Shape y_shape{samples, positions, heads, depth};
    const Tensor dy = upload(y_shape, normal(samples * positions * heads * depth));
    cuda::Matmul matmul(context());
    std::vector<std::vector<float>> results;
    // Memory for all heads at once, for a few heads, and for one head at a time.
    for (const std::int64_t bytes : {1 << 20, 2 * 6 * 20 * 20, 0}) {
      const AttentionForward forward{
          .qkv = qkv, .y = output(y_shape), .statistics = output_f32({samples, heads, positions})};
      cuda::attention_forward(context(), matmul, forward, bytes);
      const AttentionBackward backward{.dy = dy,
                                       .qkv = qkv,
                                       .y = forward.y,
                                       .statistics = forward.statistics,
                                       .dqkv = output(qkv.shape())};
      cuda::attention_backward(context(), matmul, backward, bytes);
      auto bits = download(backward.dqkv);
      for (const auto& more : {forward.y, forward.statistics})
        for (const float value : download(more)) bits.push_back(value);
      results.push_back(std::move(bits));
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
}

TEST_P(KernelParts, CrossAttentionWithRoomForFewHeadsGivesTheSameBits) {
  constexpr std::int64_t samples = 2, queries = 20, keys = 11, heads = 6, depth = 8;
  const Shape q_shape{samples, queries, heads, depth}, kv_shape{samples, keys, 2 * heads, depth};
  const Shape bias_shape{queries + keys - 1, heads};
  const Tensor q = upload(q_shape, normal(q_shape.count()));
  const Tensor kv = upload(kv_shape, normal(kv_shape.count()));
  const Tensor bias = upload(bias_shape, normal(bias_shape.count()));
  const Tensor dy = upload(q_shape, normal(q_shape.count()));
  cuda::Matmul matmul(context());
  std::vector<std::vector<float>> results;
  // As above.
  for (const std::int64_t bytes : {1 << 20, 2 * 6 * 20 * 11, 0}) {
    const CrossAttentionForward forward{.q = q,
                                        .kv = kv,
                                        .bias = bias,
                                        .y = output(q_shape),
                                        .statistics = output_f32({samples, heads, queries})};
    cuda::cross_attention_forward(context(), matmul, forward, bytes);
    const CrossAttentionBackward backward{
        .dy = dy,
        .q = q,
        .kv = kv,
        .bias = bias,
        .y = forward.y,
        .statistics = forward.statistics,
        .dq = output(q_shape),
        .dkv = output(kv_shape),
        .dbias = upload(bias_shape, Values(static_cast<std::size_t>(bias_shape.count()), 0.5),
                        DType::f32)};
    cuda::cross_attention_backward(context(), matmul, backward, bytes);
    auto bits = download(backward.dq);
    for (const auto& more : {backward.dkv, backward.dbias, forward.y, forward.statistics})
      for (const float value : download(more)) bits.push_back(value);
    results.push_back(std::move(bits));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

/// A convolution with bias, relu, stride and padding, and its gradients.
struct Convolution {
  ConvolutionForward forward;
  ConvolutionBackward backward;
};

class ConvolutionParts : public KernelParts {
 protected:
  static constexpr std::int64_t images = 5, side = 6, channels = 8, filters = 10;

  Convolution convolution() {
    const Shape x{images, side, side, channels}, weight{filters, 3, 3, channels};
    const Shape y{images, 3, 3, filters};
    const ConvolutionForward forward{.x = upload(x, normal(x.count())),
                                     .weight = upload(weight, normal(weight.count())),
                                     .bias = upload({filters}, normal(filters)),
                                     .relu = true,
                                     .stride = 2,
                                     .padding = 1,
                                     .y = output(y)};
    return {forward,
            {.dy = upload(y, normal(y.count())),
             .x = forward.x,
             .weight = forward.weight,
             .y = forward.y,
             .relu = true,
             .stride = 2,
             .padding = 1,
             .dx = output(x),
             .dweight = output(weight),
             .dbias = output({filters})}};
  }
  /// Returns y, dx, dweight and dbias. Works on a copy of dy, which the relu's backward overwrites.
  std::vector<Values> run(Convolution one, cuda::FusedConvolution* fused, std::int64_t bytes) {
    cuda::Matmul matmul(context());
    const Tensor dy = output(one.backward.dy.shape());
    kernels().copy({.in = one.backward.dy, .out = dy});
    one.backward.dy = dy;
    cuda::convolution_forward(context(), matmul, fused, one.forward, bytes);
    cuda::convolution_backward(context(), matmul, fused, one.backward, bytes);
    std::vector<Values> out;
    for (const auto& tensor :
         {one.forward.y, one.backward.dx, one.backward.dweight, one.backward.dbias}) {
      const auto values = download(tensor);
      out.emplace_back(values.begin(), values.end());
    }
    return out;
  }
  void expect_near(const std::vector<Values>& actual, const std::vector<Values>& expected) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto count = static_cast<std::int64_t>(actual[i].size());
      EXPECT_CLOSE(upload({count}, actual[i]), expected[i]) << "operand " << i;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, ConvolutionParts, ::testing::ValuesIn(layers_under_test()),
                         case_name);

TEST_P(ConvolutionParts, WithRoomForFewImagesIsTheSame) {
  const Convolution one = convolution();
  const auto expected = run(one, nullptr, 1 << 20);
  const std::int64_t image = 9 * 9 * channels * 4;
  for (const std::int64_t bytes : {2 * image, std::int64_t{0}})
    expect_near(run(one, nullptr, bytes), expected);
}

/// Stands for a library that has convolutions only without bias and relu, and their gradients only
/// if `gradients` is true.
class Library final : public cuda::FusedConvolution {
 public:
  Library(const cuda::Context& context, bool gradients)
      : context_(context), matmul_(context), gradients_(gradients) {}

  bool forward(const ConvolutionForward& op) override {
    if (op.bias || op.relu) return false;
    ++calls;
    cuda::convolution_forward(context_, matmul_, nullptr, op, 1 << 20);
    return true;
  }
  bool input_gradient(const ConvolutionBackward& op) override { return gradient(op, op.dx); }
  bool weight_gradient(const ConvolutionBackward& op) override { return gradient(op, op.dweight); }

  int calls = 0;

 private:
  bool gradient(const ConvolutionBackward& op, const Tensor& wanted) {
    if (!gradients_) return false;
    ++calls;
    ConvolutionBackward bare = op;
    bare.relu = false;
    bare.dbias = {};
    // Writes only `wanted`. If `wanted` is dx, dweight goes to a tensor that is dropped. If
    // `wanted` is dweight, dx is not computed.
    const auto other = [&](const Tensor& of) {
      return context_.device.tensor(of.shape(), MemoryKind::workspace, of.dtype());
    };
    if (wanted.shape() == op.dx.shape())
      bare.dweight = other(op.dweight);
    else
      bare.dx = {};
    cuda::convolution_backward(context_, matmul_, nullptr, bare, 1 << 20);
    return true;
  }

  cuda::Context context_;
  cuda::Matmul matmul_;
  bool gradients_;
};

TEST_P(ConvolutionParts, WhatALibraryHasNotIsAddedToWhatItHas) {
  const Convolution one = convolution();
  const auto expected = run(one, nullptr, 1 << 20);
  for (const bool gradients : {false, true}) {
    Library library(context(), gradients);
    expect_near(run(one, &library, 1 << 20), expected);
    EXPECT_EQ(library.calls, gradients ? 3 : 1);
  }
}

TEST_P(KernelParts, NothingWaitsForTheDeviceInASteadyStep) {
  constexpr std::int64_t rows = 64, width = 32, classes = 40;
  const LinearForward linear{.x = upload({rows, width}, normal(rows * width)),
                             .weight = upload({width, width}, normal(width * width)),
                             .bias = upload({width}, normal(width)),
                             .activation = Activation::gelu,
                             .pre = output({rows, width}),
                             .y = output({rows, width})};
  const LinearBackward gradient{.dy = upload({rows, width}, normal(rows * width)),
                                .x = linear.x,
                                .weight = linear.weight,
                                .activation = Activation::gelu,
                                .pre = linear.pre,
                                .dx = output({rows, width}),
                                .dweight = output({width, width}),
                                .dbias = output({width})};
  const AttentionForward attention{.qkv = upload({2, 16, 4, 8}, normal(2 * 16 * 4 * 8)),
                                   .y = output({2, 16, 2, 8}),
                                   .statistics = output_f32({2, 2, 16})};
  const AttentionBackward attended{.dy = upload({2, 16, 2, 8}, normal(2 * 16 * 16)),
                                   .qkv = attention.qkv,
                                   .y = attention.y,
                                   .statistics = attention.statistics,
                                   .dqkv = output({2, 16, 4, 8})};
  const EmbeddingBackward embedding{.tokens = upload({2, 32}, integers(rows, classes)),
                                    .dy = gradient.dy,
                                    .dtoken_table = output({classes, width})};
  const CrossEntropy loss{.logits = upload({rows, classes}, normal(rows * classes)),
                          .targets = upload({rows}, integers(rows, classes)),
                          .losses = output_f32({rows}),
                          .dlogits = output({rows, classes})};
  const ConvolutionForward convolution{.x = upload({2, 6, 6, 8}, normal(576)),
                                       .weight = upload({8, 3, 3, 8}, normal(576)),
                                       .padding = 1,
                                       .y = output({2, 6, 6, 8})};
  const ConvolutionBackward convolved{.dy = upload({2, 6, 6, 8}, normal(576)),
                                      .x = convolution.x,
                                      .weight = convolution.weight,
                                      .padding = 1,
                                      .dx = output({2, 6, 6, 8}),
                                      .dweight = output({8, 3, 3, 8})};
  const BatchNormStatistics statistics{
      .x = convolution.y.reshaped({72, 8}), .mean = output_f32({8}), .variance = output_f32({8})};
  const BatchNormReduce reduce{.dy = convolved.dy.reshaped({72, 8}),
                               .x = statistics.x,
                               .mean = statistics.mean,
                               .variance = statistics.variance,
                               .sums = output_f32({2, 8})};
  const SumOfSquares norm{.in = gradient.dweight, .out = output_sums(1)};
  const auto step = [&] {
    kernels().linear_forward(linear);
    kernels().linear_backward(gradient);
    kernels().attention_forward(attention);
    kernels().attention_backward(attended);
    kernels().embedding_backward(embedding);
    kernels().cross_entropy(loss);
    kernels().convolution_forward(convolution);
    kernels().batch_norm_statistics(statistics);
    kernels().batch_norm_reduce(reduce);
    kernels().convolution_backward(convolved);
    kernels().sum_of_squares(norm);
  };
  for (int i = 0; i < 2; ++i) step();
  device().synchronize();
  const auto before = cuda_on_host::counters();
  for (int i = 0; i < 3; ++i) step();
  const auto after = cuda_on_host::counters();
  EXPECT_EQ(after.host_waits, before.host_waits);
  EXPECT_EQ(after.mallocs, before.mallocs);
  EXPECT_GT(after.launches, before.launches);
}

}  // namespace
}  // namespace ringside
