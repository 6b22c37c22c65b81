// Convolutions and batch norms on every device against float64 references.
#include <algorithm>

#include "tests/device/harness.h"
#include "tests/device/windows.h"

namespace ringside {
namespace {

using reference::ChannelStatistics;
using reference::Values;
using reference::Windows;

class ImageKernels : public KernelsOnDevice {
 protected:
  Tensor upload_f32(Shape shape, const Values& values) { return upload(shape, values, DType::f32); }
};
INSTANTIATE_TEST_SUITE_P(Devices, ImageKernels, ::testing::ValuesIn(layers_under_test()),
                         case_name);

/// The gradient of a relu's input, where `dy` is the gradient of its output y.
Values through_relu(Values dy, const Values& y) {
  for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = y[i] > 0 ? dy[i] : 0;
  return dy;
}
Values relu(Values y) {
  for (auto& value : y) value = std::max(value, 0.0);
  return y;
}

// B, H, W, C, K, R, S, stride, padding, groups
constexpr Windows convolutions[] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 0},
    {2, 5, 7, 3, 5, 3, 3, 1, 0},
    {2, 5, 7, 3, 16, 3, 3, 1, 1},
    {1, 6, 5, 1, 3, 3, 3, 2, 1},
    {2, 9, 9, 3, 7, 7, 7, 1, 3},
    {1, 15, 13, 3, 64, 7, 7, 2, 3},
    {2, 4, 4, 33, 17, 1, 1, 1, 0},
    {2, 8, 8, 16, 32, 1, 1, 2, 0},
    {1, 8, 8, 64, 64, 3, 3, 1, 1},
    {2, 8, 8, 32, 64, 3, 3, 2, 1},
    {2, 7, 5, 20, 24, 3, 3, 2, 1},
    {1, 6, 6, 8, 10, 3, 3, 1, 2},
    {1, 4, 4, 128, 64, 3, 3, 1, 1},
    {3, 2, 2, 64, 48, 3, 3, 1, 1},
    {1, 9, 9, 3, 32, 5, 5, 3, 2},
    {2, 7, 7, 48, 21, 1, 1, 2, 0},
    {1, 5, 4, 6, 4, 2, 3, 1, 1},
    {2, 4, 4, 128, 128, 3, 3, 1, 1},
    {1, 6, 5, 128, 144, 3, 3, 2, 1},
    {1, 2, 2, 129, 128, 5, 5, 1, 2},
    // AlexNet's first.
    {1, 23, 19, 3, 16, 11, 11, 4, 2},
    // Kernels and margins that are not square: of few and of many channels, with kernels beyond the
    // image, at a stride, in groups.
    {2, 9, 8, 6, 5, 1, 7, 1, {0, 3}},
    {1, 8, 9, 33, 17, 7, 1, 1, {3, 0}},
    {2, 4, 5, 16, 32, 1, 3, 1, {0, 1}},
    {1, 5, 4, 128, 144, 3, 1, 1, {1, 0}},
    {1, 2, 2, 128, 128, 7, 1, 1, {3, 0}},
    {1, 2, 2, 128, 128, 1, 7, 1, {0, 3}},
    {1, 6, 6, 64, 64, 3, 3, 1, {0, 1}},
    {1, 5, 6, 64, 64, 3, 3, 1, {2, 1}},
    {2, 7, 9, 16, 16, 3, 1, 2, {1, 0}},
    {1, 5, 6, 8, 12, 1, 3, 1, {1, 2}, 2},
    // Groups: of one channel, of one kernel, of shapes that have other ways with one group.
    {2, 5, 6, 6, 9, 3, 3, 1, 1, 3},
    {2, 6, 5, 4, 4, 3, 3, 2, 1, 4},
    {1, 7, 7, 64, 64, 3, 3, 1, 1, 16},
    {2, 9, 9, 128, 128, 3, 3, 1, 1, 2},
    {1, 8, 8, 256, 256, 3, 3, 2, 1, 2},
    {2, 4, 4, 24, 16, 1, 1, 1, 0, 8},
    {1, 6, 6, 16, 32, 1, 1, 2, 0, 4}};

/// The operation after the products of a convolution's forward.
struct Epilogue {
  bool bias, relu;
};
constexpr Epilogue epilogues[] = {{true, true}, {true, false}, {false, true}, {false, false}};

/// The epilogues to try with the convolution of this index: all, or, on a device that makes a plan
/// for each, one in turn, and another one in every dtype.
std::vector<Epilogue> epilogues_of(const KernelCase& on, std::size_t index) {
  if (!on.device.plans_convolutions) return {std::begin(epilogues), std::end(epilogues)};
  const auto& dtypes = on.device.layer_dtypes;
  const auto place = std::find(dtypes.begin(), dtypes.end(), on.dtype) - dtypes.begin();
  return {epilogues[(index + static_cast<std::size_t>(place)) % std::size(epilogues)]};
}

TEST_P(ImageKernels, ConvolutionForwardAgreesWithReference) {
  for (std::size_t i = 0; i < std::size(convolutions); ++i)
    for (const auto [with_bias, with_relu] : epilogues_of(GetParam(), i)) {
      const Windows& o = convolutions[i];
      const Values x = normal(o.x_count()), weight = normal(o.weight_count());
      const Values bias = normal(o.K);
      ConvolutionForward op{.x = upload(x_shape(o), x),
                            .weight = upload(weight_shape(o), weight),
                            .relu = with_relu,
                            .stride = o.stride,
                            .padding = o.padding,
                            .y = output(y_shape(o))};
      if (with_bias) op.bias = upload({o.K}, bias);
      kernels().convolution_forward(op);
      Values y = reference::convolution(x, weight, o);
      if (with_bias)
        for (std::size_t j = 0; j < y.size(); ++j) y[j] += bias[j % bias.size()];
      SCOPED_TRACE(text(o));
      EXPECT_CLOSE(op.y, with_relu ? relu(y) : y);
    }
}

TEST_P(ImageKernels, ConvolutionBackwardAgreesWithReference) {
  for (const auto& o : convolutions)
    for (const bool optional : {true, false})
      for (const bool with_relu : {true, false}) {
        const Values x = normal(o.x_count()), weight = normal(o.weight_count());
        const Values dy = normal(o.y_count()), y = relu(normal(o.y_count()));
        ConvolutionBackward op{.dy = upload(y_shape(o), dy),
                               .x = upload(x_shape(o), x),
                               .weight = upload(weight_shape(o), weight),
                               .relu = with_relu,
                               .stride = o.stride,
                               .padding = o.padding,
                               .dweight = output(weight_shape(o))};
        if (with_relu) op.y = upload(y_shape(o), y);
        if (optional) {
          op.dx = output(x_shape(o));
          op.dbias = output({o.K});
        }
        kernels().convolution_backward(op);
        const Values dz = with_relu ? through_relu(dy, y) : dy;
        const auto expected = reference::convolution_backward(dz, x, weight, o);
        SCOPED_TRACE(text(o));
        EXPECT_CLOSE(op.dy, dz);
        EXPECT_CLOSE(op.dweight, expected.dweight);
        if (!optional) continue;
        EXPECT_CLOSE(op.dx, expected.dx);
        Values dbias(static_cast<std::size_t>(o.K), 0.0);
        for (std::size_t i = 0; i < dz.size(); ++i) dbias[i % dbias.size()] += dz[i];
        EXPECT_CLOSE(op.dbias, dbias);
      }
}

TEST_P(ImageKernels, ConvolutionBackwardInHalvesHasTheBitsOfTheWhole) {
  for (const auto& o : convolutions)
    for (const bool with_relu : {true, false}) {
      const Values dy = normal(o.y_count()), y = relu(normal(o.y_count()));
      ConvolutionBackward whole{.dy = upload(y_shape(o), dy),
                                .x = upload(x_shape(o), normal(o.x_count())),
                                .weight = upload(weight_shape(o), normal(o.weight_count())),
                                .relu = with_relu,
                                .stride = o.stride,
                                .padding = o.padding,
                                .dx = output(x_shape(o)),
                                .dweight = output(weight_shape(o)),
                                .dbias = output({o.K})};
      if (with_relu) whole.y = upload(y_shape(o), y);
      ConvolutionBackward input = whole, parameters = whole;
      input.dy = parameters.dy = upload(y_shape(o), dy);
      input.dx = output(x_shape(o));
      input.x = input.dweight = input.dbias = {};
      parameters.dweight = output(weight_shape(o));
      parameters.dbias = output({o.K});
      parameters.weight = parameters.dx = parameters.y = {};
      parameters.relu = false;
      for (const ConvolutionBackward& op : {whole, input, parameters})
        kernels().convolution_backward(op);
      SCOPED_TRACE(text(o));
      EXPECT_EQ(download(input.dy), download(whole.dy));
      EXPECT_EQ(download(input.dx), download(whole.dx));
      EXPECT_EQ(download(parameters.dweight), download(whole.dweight));
      EXPECT_EQ(download(parameters.dbias), download(whole.dbias));
    }
}

struct ImageRows {
  std::int64_t rows, channels;
};
constexpr ImageRows image_rows[] = {{1, 1},    {2, 3},     {7, 33},   {130, 16},
                                    {5000, 3}, {1030, 64}, {70, 512}, {300, 100}};

TEST_P(ImageKernels, BatchNormStatisticsAgreeWithReference) {
  for (const auto& s : image_rows) {
    const Values x = normal(s.rows * s.channels);
    const BatchNormStatistics op{.x = upload({s.rows, s.channels}, x),
                                 .mean = output_f32({s.channels}),
                                 .variance = output_f32({s.channels})};
    kernels().batch_norm_statistics(op);
    const auto expected = reference::channel_statistics(x, s.channels);
    SCOPED_TRACE(op.x.shape().text());
    EXPECT_CLOSE(op.mean, expected.mean);
    EXPECT_CLOSE(op.variance, expected.variance);
  }
}

TEST_P(ImageKernels, BatchNormStatisticsHoldFarFromZero) {
  // The variance is so small beside the mean that "mean of the squares minus square of the mean"
  // would lose all its digits.
  constexpr std::int64_t rows = 3000, channels = 5;
  Values x = normal_f32(rows * channels);
  for (auto& value : x) value = value / 8 + (dtype() == DType::f32 ? 1000 : 10);
  x = held(x);
  const BatchNormStatistics op{.x = upload({rows, channels}, x),
                               .mean = output_f32({channels}),
                               .variance = output_f32({channels})};
  kernels().batch_norm_statistics(op);
  const auto expected = reference::channel_statistics(x, channels);
  EXPECT_CLOSE(op.mean, expected.mean);
  EXPECT_LT(distance(op.variance, expected.variance), 1e-4);
}

TEST_P(ImageKernels, BatchNormMergeIsTheStatisticsOfAllGroups) {
  for (const std::int64_t groups : {1, 2, 3, 8}) {
    constexpr std::int64_t rows = 40, channels = 33;
    Values x = normal_f32(groups * rows * channels), parts;
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] += static_cast<double>(i / (rows * channels));  // every group gets another mean
    for (std::int64_t g = 0; g < groups; ++g) {
      const auto of = reference::channel_statistics(
          Values(x.begin() + g * rows * channels, x.begin() + (g + 1) * rows * channels), channels);
      parts.insert(parts.end(), of.mean.begin(), of.mean.end());
      parts.insert(parts.end(), of.variance.begin(), of.variance.end());
    }
    const BatchNormMerge op{.groups = upload_f32({groups, 2, channels}, parts),
                            .mean = output_f32({channels}),
                            .variance = output_f32({channels})};
    kernels().batch_norm_merge(op);
    const auto expected = reference::channel_statistics(x, channels);
    EXPECT_CLOSE(op.mean, expected.mean);
    EXPECT_CLOSE(op.variance, expected.variance);
  }
}

/// So large that a kernel with another one would be far from the reference.
constexpr float usual_epsilon = 1e-5f, large_epsilon = 0.5f;

/// Statistics rounded to fp32, as a kernel would return them.
ChannelStatistics given_statistics(const Values& x, std::int64_t channels) {
  auto of = reference::channel_statistics(x, channels);
  return {reference::rounded(of.mean, DType::f32), reference::rounded(of.variance, DType::f32)};
}

TEST_P(ImageKernels, BatchNormForwardAgreesWithReference) {
  for (const auto& s : image_rows)
    for (const bool with_residual : {true, false})
      for (const bool with_relu : {true, false}) {
        const float epsilon = with_relu ? usual_epsilon : large_epsilon;
        const Values x = normal(s.rows * s.channels), residual = normal(s.rows * s.channels);
        const Values weight = normal(s.channels), bias = normal(s.channels);
        const auto of = given_statistics(x, s.channels);
        BatchNormForward op{.x = upload({s.rows, s.channels}, x),
                            .mean = upload_f32({s.channels}, of.mean),
                            .variance = upload_f32({s.channels}, of.variance),
                            .weight = upload({s.channels}, weight),
                            .bias = upload({s.channels}, bias),
                            .epsilon = epsilon,
                            .relu = with_relu,
                            .y = output({s.rows, s.channels})};
        if (with_residual) op.residual = upload({s.rows, s.channels}, residual);
        kernels().batch_norm_forward(op);
        Values y = reference::normalised(x, of, double{epsilon});
        for (std::size_t i = 0; i < y.size(); ++i)
          y[i] = y[i] * weight[i % weight.size()] + bias[i % bias.size()] +
                 (with_residual ? residual[i] : 0);
        SCOPED_TRACE(op.x.shape().text());
        EXPECT_CLOSE(op.y, with_relu ? relu(y) : y);
      }
}

TEST_P(ImageKernels, BatchNormBackwardAgreesWithReference) {
  enum Case { dx_apart, dx_in_dy, both_apart, dresidual_in_dy };
  for (const auto& s : image_rows)
    for (const auto which : {dx_apart, dx_in_dy, both_apart, dresidual_in_dy})
      for (const bool with_relu : {true, false}) {
        const float epsilon = with_relu ? usual_epsilon : large_epsilon;
        const Shape shape{s.rows, s.channels};
        const Values x = normal(shape.count()), dy = normal(shape.count());
        const Values y = relu(normal(shape.count())), weight = normal(s.channels);
        const auto of = given_statistics(x, s.channels);
        BatchNormReduce reduce{.dy = upload(shape, dy),
                               .x = upload(shape, x),
                               .mean = upload_f32({s.channels}, of.mean),
                               .variance = upload_f32({s.channels}, of.variance),
                               .epsilon = epsilon,
                               .relu = with_relu,
                               .sums = output_f32({2, s.channels})};
        if (with_relu) reduce.y = upload(shape, y);
        kernels().batch_norm_reduce(reduce);
        const Values dz = with_relu ? through_relu(dy, y) : dy;
        const Values sums = reference::batch_norm_sums(dz, x, of, double{epsilon});
        SCOPED_TRACE(::testing::Message() << shape.text() << " case " << which);
        EXPECT_CLOSE(reduce.sums, sums);

        // Pretends that a second rank has the same number of rows as this one: `all` stands for the
        // sums over the rows of both ranks.
        Values all = sums;
        for (auto& value : all) value = static_cast<float>(value * 1.5 + 1);
        BatchNormBackward op{.dy = reduce.dy,
                             .x = reduce.x,
                             .y = reduce.y,
                             .mean = reduce.mean,
                             .variance = reduce.variance,
                             .weight = upload({s.channels}, weight),
                             .epsilon = epsilon,
                             .relu = with_relu,
                             .sums = upload_f32({2, s.channels}, all),
                             .rows = 2 * s.rows};
        op.dx = which == dx_in_dy ? op.dy : output(shape);
        if (which == both_apart) op.dresidual = output(shape);
        if (which == dresidual_in_dy) op.dresidual = op.dy;
        kernels().batch_norm_backward(op);
        EXPECT_CLOSE(op.dx,
                     reference::batch_norm_backward(dz, x, of, weight, all,
                                                    static_cast<double>(op.rows), double{epsilon}));
        if (op.dresidual) {
          EXPECT_EQ(distance(op.dresidual, dz), 0);
        }
      }
}

}  // namespace
}  // namespace ringside
