// Tests the convolutions that are not oneDNN's, also on processors on which the device does not use
// them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/device/cpu/convolution_windows.h"
#include "core/device/cpu/convolution_winograd.h"
#include "core/device/cpu/cpu_device.h"
#include "core/num/random.h"
#include "tests/device/reference/images.h"

namespace ringside {
namespace {

using reference::Values;
using reference::Windows;

/// One way of computing convolutions, and shapes that it can compute.
struct Way {
  const char* name;
  void (*forward)(const cpu::Context&, const ConvolutionForward&);
  void (*image_gradient)(const cpu::Context&, const ConvolutionBackward&);   // for stride 1
  void (*weight_gradient)(const cpu::Context&, const ConvolutionBackward&);  // null: there is none
  std::vector<Windows> shapes;
  Windows several_groups;  // images that the way does not compute all at once
};

const Way ways[] = {
    // Groups that consist of one image and of several images; windows that reach beyond the image
    // on all sides; and tiles that are not full.
    {"windows",
     cpu::convolve_by_windows,
     cpu::image_gradient_by_windows,
     nullptr,
     {{5, 7, 9, 64, 128, 3, 3, 1, 1},
      {3, 17, 15, 64, 64, 3, 3, 2, 1},
      {2, 6, 6, 128, 64, 5, 5, 1, 2},
      {1, 5, 4, 64, 64, 3, 3, 1, 0},
      {2, 4, 4, 192, 64, 2, 2, 1, 1}},
     {3, 12, 12, 64, 64, 3, 3, 1, 1}},
    // Every padding; results whose last tiles are not full at the bottom, at the right, or at both;
    // an image smaller than a tile; and more channels than one slice of a panel has rows.
    {"winograd",
     cpu::convolve_by_winograd,
     cpu::image_gradient_by_winograd,
     cpu::weight_gradient_by_winograd,
     {{2, 7, 8, 64, 128, 3, 3, 1, 1},
      {1, 6, 9, 128, 64, 3, 3, 1, 0},
      {1, 5, 5, 64, 64, 3, 3, 1, 2},
      {3, 1, 1, 64, 64, 3, 3, 1, 1},
      {1, 4, 4, 320, 64, 3, 3, 1, 1}},
     {3, 14, 15, 64, 64, 3, 3, 1, 1}},
};

class OwnConvolutions : public ::testing::TestWithParam<Way> {
 protected:
  Tensor random(Shape shape) {
    const Tensor out = device_->tensor(shape, MemoryKind::activation);
    for (std::int64_t i = 0; i < out.count(); ++i)
      out.data<float>()[i] = static_cast<float>(random_normal(1, Stream::synthetic_data, next_++));
    return out;
  }
  static Values values(const Tensor& tensor) {
    const auto floats = tensor.span<float>();
    return {floats.begin(), floats.end()};
  }
  /// The distance between `actual` and `expected`, divided by the norm of `expected`.
  static double distance(const Tensor& actual, const Values& expected) {
    double apart = 0, norm = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double by = static_cast<double>(actual.span<float>()[i]) - expected[i];
      apart += by * by;
      norm += expected[i] * expected[i];
    }
    return std::sqrt(apart / norm);
  }
  static bool same_bits(const Tensor& a, const Tensor& b) {
    return std::memcmp(a.data<float>(), b.data<float>(), a.bytes()) == 0;
  }

  ConvolutionForward forward(const Windows& o) {
    return {.x = random({o.B, o.H, o.W, o.C}),
            .weight = random({o.K, o.R, o.S, o.C}),
            .stride = o.stride,
            .padding = o.padding,
            .y = random({o.B, o.P(), o.Q(), o.K})};
  }
  ConvolutionBackward backward(const Windows& o) {
    return {.dy = random({o.B, o.P(), o.Q(), o.K}),
            .x = random({o.B, o.H, o.W, o.C}),
            .weight = random({o.K, o.R, o.S, o.C}),
            .stride = o.stride,
            .padding = o.padding,
            .dx = random({o.B, o.H, o.W, o.C}),
            .dweight = random({o.K, o.R, o.S, o.C})};
  }
  /// Computes those gradients of `op` that this way can compute.
  static void run(const cpu::Context& context, const ConvolutionBackward& op) {
    if (op.stride == 1) GetParam().image_gradient(context, op);
    if (GetParam().weight_gradient) GetParam().weight_gradient(context, op);
  }

  std::unique_ptr<Device> device_ = make_cpu_device(2);
  cpu::Context one_thread_{*device_, 1}, two_threads_{*device_, 2};
  std::uint64_t next_ = 0;
};

TEST_P(OwnConvolutions, AgreeWithReference) {
  auto shapes = GetParam().shapes;
  shapes.push_back(GetParam().several_groups);
  for (const auto& o : shapes) {
    SCOPED_TRACE(::testing::Message() << o.B << "x" << o.H << "x" << o.W << "x" << o.C);
    auto op = forward(o);
    GetParam().forward(one_thread_, op);
    Values y = reference::convolution(values(op.x), values(op.weight), o);
    EXPECT_LT(distance(op.y, y), 1e-6);

    op.bias = random({o.K});
    op.relu = true;
    GetParam().forward(two_threads_, op);
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = std::max(0.0, y[i] + static_cast<double>(
                                      op.bias.span<float>()[i % static_cast<std::size_t>(o.K)]));
    EXPECT_LT(distance(op.y, y), 1e-6);

    const auto back = backward(o);
    run(one_thread_, back);
    const auto expected =
        reference::convolution_backward(values(back.dy), values(back.x), values(back.weight), o);
    if (o.stride == 1) {
      EXPECT_LT(distance(back.dx, expected.dx), 1e-6);
    }
    if (GetParam().weight_gradient) {
      EXPECT_LT(distance(back.dweight, expected.dweight), 1e-6);
    }
  }
}

TEST_P(OwnConvolutions, HaveTheSameBitsWithEveryNumberOfThreads) {
  const Windows& o = GetParam().several_groups;
  auto op = forward(o);
  auto back = backward(o);
  GetParam().forward(one_thread_, op);
  run(one_thread_, back);
  const Tensor y = op.y, dx = back.dx, dweight = back.dweight;
  op.y = random(y.shape());
  back.dx = random(dx.shape());
  if (GetParam().weight_gradient) back.dweight = random(dweight.shape());
  GetParam().forward(two_threads_, op);
  run(two_threads_, back);
  EXPECT_TRUE(same_bits(op.y, y));
  EXPECT_TRUE(same_bits(back.dx, dx));
  EXPECT_TRUE(same_bits(back.dweight, dweight));
}

TEST_P(OwnConvolutions, GiveAnImageTheSameBitsInEveryBatch) {
  const Windows& o = GetParam().several_groups;
  const auto op = forward(o);
  const auto back = backward(o);
  GetParam().forward(one_thread_, op);
  run(one_thread_, back);
  for (std::int64_t i = 0; i < o.B; ++i) {
    SCOPED_TRACE(i);
    const auto image = [&](const Tensor& of) {
      const Shape& all = of.shape();
      return of.view(i * of.count() / all[0], {1, all[1], all[2], all[3]});
    };
    auto alone = op;
    alone.x = image(op.x);
    alone.y = random(image(op.y).shape());
    GetParam().forward(one_thread_, alone);
    EXPECT_TRUE(same_bits(alone.y, image(op.y)));
    auto back_alone = back;
    back_alone.dy = image(back.dy);
    back_alone.dx = random(image(back.dx).shape());
    GetParam().image_gradient(one_thread_, back_alone);
    EXPECT_TRUE(same_bits(back_alone.dx, image(back.dx)));
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, OwnConvolutions, ::testing::ValuesIn(ways),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ringside
