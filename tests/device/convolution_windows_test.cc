// Tests convolutions by windows, also on processors on which the device uses oneDNN instead.
#include "core/device/cpu/convolution_windows.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/random.h"
#include "core/device/cpu/cpu_device.h"

namespace ringside {
namespace {

class ConvolutionWindows : public ::testing::TestWithParam<int> {
 protected:
  Tensor random(Shape shape) {
    const Tensor out = device_->tensor(shape, MemoryKind::activation);
    for (std::int64_t i = 0; i < out.count(); ++i)
      out.data<float>()[i] = static_cast<float>(random_normal(1, Stream::synthetic_data, next_++));
    return out;
  }
  static double distance(const Tensor& a, const Tensor& b) {
    double apart = 0, norm = 0;
    for (std::int64_t i = 0; i < a.count(); ++i) {
      const double x = a.data<float>()[i], y = b.data<float>()[i];
      apart += (x - y) * (x - y);
      norm += y * y;
    }
    return std::sqrt(apart / norm);
  }

  std::unique_ptr<Device> device_ = make_cpu_device(GetParam());
  cpu::Context context_{*device_, GetParam()};
  std::uint64_t next_ = 0;
};

TEST_P(ConvolutionWindows, AgreeWithOneDnn) {
  // The cases have groups of one and of several images, windows that reach beyond the image on all
  // sides, and tiles that are not full.
  struct {
    std::int64_t images, height, width, in, out, window, stride, padding;
  } const cases[] = {{5, 7, 9, 64, 128, 3, 1, 1},
                     {3, 17, 15, 64, 64, 3, 2, 1},
                     {2, 6, 6, 128, 64, 5, 1, 2},
                     {1, 5, 4, 64, 64, 3, 1, 0},
                     {2, 4, 4, 192, 64, 2, 1, 1}};
  for (const auto& c : cases) {
    const std::int64_t P = (c.height + 2 * c.padding - c.window) / c.stride + 1;
    const std::int64_t Q = (c.width + 2 * c.padding - c.window) / c.stride + 1;
    const Shape image{c.images, c.height, c.width, c.in}, result{c.images, P, Q, c.out};
    ConvolutionForward forward{.x = random(image),
                               .weight = random({c.out, c.window, c.window, c.in}),
                               .bias = random({c.out}),
                               .relu = true,
                               .stride = c.stride,
                               .padding = c.padding,
                               .y = random(result)};
    device_->kernels().convolution_forward(forward);
    const Tensor theirs = forward.y;
    forward.y = random(result);
    cpu::convolve_windows(context_, forward);
    EXPECT_LT(distance(forward.y, theirs), 1e-6);
    if (c.stride > 1) continue;
    ConvolutionBackward backward{.dy = random(result),
                                 .x = forward.x,
                                 .weight = forward.weight,
                                 .padding = c.padding,
                                 .dx = random(image),
                                 .dweight = random(forward.weight.shape())};
    device_->kernels().convolution_backward(backward);
    const Tensor gradient = backward.dx;
    backward.dx = random(image);
    cpu::image_gradient_by_windows(context_, backward);
    EXPECT_LT(distance(backward.dx, gradient), 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ConvolutionWindows, ::testing::Values(1, 2));

}  // namespace
}  // namespace ringside
