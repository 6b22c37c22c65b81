// Pooling, and the copies that join channels, on every device against float64 references.
#include "tests/device/harness.h"
#include "tests/device/windows.h"

namespace ringside {
namespace {

using reference::Values;
using reference::Windows;

class Pooling : public KernelsOnDevice {
 protected:
  Tensor upload_bytes(Shape shape, const std::vector<std::uint8_t>& values) {
    Tensor out = device().tensor(shape, MemoryKind::activation, DType::u8);
    device().write(out, std::as_bytes(std::span(values)));
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Pooling, ::testing::ValuesIn(layers_under_test()), case_name);

// B, H, W, C, K = C, R, S, stride, padding
constexpr Windows pools[] = {{1, 2, 2, 1, 1, 2, 2, 2, 0},   {2, 6, 8, 3, 3, 2, 2, 2, 0},
                             {2, 7, 9, 17, 17, 3, 3, 2, 1}, {1, 8, 8, 64, 64, 3, 3, 2, 1},
                             {1, 5, 5, 4, 4, 3, 3, 1, 1},   {2, 7, 7, 5, 5, 2, 2, 3, 1},
                             {1, 9, 4, 33, 33, 4, 4, 2, 2}, {2, 8, 9, 20, 20, 3, 3, 2, 0}};

TEST_P(Pooling, MaxPoolAgreesWithReference) {
  for (const auto& o : pools) {
    Values x = normal(o.x_count());
    for (auto& value : x) value = std::round(value * 2) / 2;  // many are equal
    const Values dy = normal(o.y_count());
    const auto expected = reference::max_pool(x, o);
    MaxPoolForward forward{.x = upload(x_shape(o), x),
                           .size = o.R,
                           .stride = o.stride,
                           .padding = o.padding.rows,
                           .y = output(y_shape(o))};
    SCOPED_TRACE(text(o));
    kernels().max_pool_forward(forward);
    EXPECT_EQ(distance(forward.y, expected.y), 0) << "without places";
    forward.y = output(y_shape(o));
    forward.where = upload_bytes(y_shape(o), std::vector<std::uint8_t>(expected.where.size(), 255));
    kernels().max_pool_forward(forward);
    EXPECT_EQ(distance(forward.y, expected.y), 0);
    EXPECT_EQ(download(forward.where),
              std::vector<float>(expected.where.begin(), expected.where.end()));

    const MaxPoolBackward backward{.dy = upload(y_shape(o), dy),
                                   .where = upload_bytes(y_shape(o), expected.where),
                                   .size = o.R,
                                   .stride = o.stride,
                                   .padding = o.padding.rows,
                                   .dx = output(x_shape(o))};
    kernels().max_pool_backward(backward);
    EXPECT_CLOSE(backward.dx, reference::max_pool_backward(dy, expected.where, o));
  }
}

TEST_P(Pooling, MaxPoolPassesOnNaNAndInfinity) {
  for (const std::size_t place : {0, 1, 2, 3}) {
    Values x(4, -double{INFINITY});
    const MaxPoolForward lowest{.x = upload({1, 2, 2, 1}, x), .y = output({1, 1, 1, 1})};
    kernels().max_pool_forward(lowest);
    EXPECT_EQ(download(lowest.y)[0], -INFINITY);
    x[place] = double{NAN};
    const MaxPoolForward bad{.x = upload({1, 2, 2, 1}, x), .y = output({1, 1, 1, 1})};
    kernels().max_pool_forward(bad);
    EXPECT_TRUE(std::isnan(download(bad.y)[0])) << place;
  }
}

TEST_P(Pooling, AverageWindowsAgreeWithReference) {
  for (const auto& o : pools) {
    const Values x = normal(o.x_count()), dy = normal(o.y_count());
    const AverageWindowsForward forward{.x = upload(x_shape(o), x),
                                        .size = o.R,
                                        .stride = o.stride,
                                        .padding = o.padding.rows,
                                        .y = output(y_shape(o))};
    const AverageWindowsBackward backward{.dy = upload(y_shape(o), dy),
                                          .size = o.R,
                                          .stride = o.stride,
                                          .padding = o.padding.rows,
                                          .dx = output(x_shape(o))};
    kernels().average_windows_forward(forward);
    kernels().average_windows_backward(backward);
    SCOPED_TRACE(text(o));
    EXPECT_CLOSE(forward.y, reference::window_means(x, o));
    EXPECT_CLOSE(backward.dx, reference::window_means_backward(dy, o));
  }
}

TEST_P(Pooling, AveragePoolAgreesWithReference) {
  for (const auto& s :
       {Shape{1, 1, 1, 1}, Shape{3, 7, 7, 33}, Shape{2, 4, 4, 512}, Shape{2, 5, 3, 1}}) {
    const std::int64_t samples = s[0], positions = s[1] * s[2], channels = s[3];
    const Values x = normal(s.count()), dy = normal(samples * channels);
    const AveragePoolForward forward{.x = upload(s, x), .y = output({samples, channels})};
    const AveragePoolBackward backward{.dy = upload({samples, channels}, dy), .dx = output(s)};
    kernels().average_pool_forward(forward);
    kernels().average_pool_backward(backward);
    Values y(dy.size(), 0.0), dx(x.size());
    for (std::int64_t i = 0; i < s.count(); ++i) {
      const auto mean =
          static_cast<std::size_t>(i / (positions * channels) * channels + i % channels);
      y[mean] += x[static_cast<std::size_t>(i)] / static_cast<double>(positions);
      dx[static_cast<std::size_t>(i)] = dy[mean] / static_cast<double>(positions);
    }
    EXPECT_CLOSE(forward.y, y);
    EXPECT_CLOSE(backward.dx, dx);
  }
}

TEST_P(Pooling, CopyColumnsLeavesOtherColumnsAlone) {
  struct {
    std::int64_t rows, in_width, out_width, from, to, columns;
  } shapes[] = {{1, 1, 1, 0, 0, 1},        {3, 7, 9, 2, 5, 3},       {40, 96, 288, 0, 128, 96},
                {40, 288, 64, 160, 0, 64}, {130, 24, 40, 8, 16, 16}, {5, 2000, 700, 1300, 0, 700},
                {5, 12, 16, 4, 1, 8},      {4, 5, 6, 1, 2, 0}};
  for (const auto& s : shapes) {
    const Values in = normal(s.rows * s.in_width), before = normal(s.rows * s.out_width);
    const CopyColumns op{.in = upload({s.rows, s.in_width}, in),
                         .out = upload({s.rows, s.out_width}, before),
                         .from = s.from,
                         .to = s.to,
                         .columns = s.columns};
    kernels().copy_columns(op);
    Values expected = before;
    for (std::int64_t row = 0; row < s.rows; ++row)
      for (std::int64_t c = 0; c < s.columns; ++c)
        expected[static_cast<std::size_t>(row * s.out_width + s.to + c)] =
            in[static_cast<std::size_t>(row * s.in_width + s.from + c)];
    EXPECT_EQ(distance(op.out, expected), 0) << s.in_width << " to " << s.out_width;
  }
}

}  // namespace
}  // namespace ringside
