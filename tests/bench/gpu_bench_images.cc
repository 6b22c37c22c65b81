// The kernels of a ResNet-50 (224 x 224).
#include <fmt/format.h>

#include "tests/bench/gpu_bench.h"

namespace ringside {
namespace {

/// A convolution of a ResNet-50: images of side x side x channels, and `filters` filters of
/// size x size.
struct ConvolutionShape {
  std::int64_t side, channels, filters, size, stride;
};
constexpr ConvolutionShape convolutions[] = {
    {224, 3, 64, 7, 2},   {56, 64, 64, 3, 1},    {56, 64, 256, 1, 1},  {28, 128, 128, 3, 1},
    {14, 256, 256, 3, 1}, {14, 1024, 256, 1, 1}, {28, 256, 256, 3, 2}, {7, 512, 512, 3, 1}};

void add_convolution(Bench& b, DType dtype, std::int64_t images, const ConvolutionShape& s) {
  const std::int64_t out = (s.side - 1) / s.stride + 1;  // padding is half the filter
  const std::string shape =
      fmt::format("{}x{}, {}-{}{}", s.size, s.size, s.channels, s.filters,
                  s.stride > 1 ? fmt::format(" /{}", s.stride) : std::string());
  const ConvolutionForward forward{
      .x = b.random({images, s.side, s.side, s.channels}, dtype),
      .weight = b.random({s.filters, s.size, s.size, s.channels}, dtype, 0.1f),
      .stride = s.stride,
      .padding = s.size / 2,
      .y = b.random({images, out, out, s.filters}, dtype)};
  b.time("conv " + shape, dtype, forward, b.kernels().convolution_forward, true);
  ConvolutionBackward backward{.dy = b.random(forward.y.shape(), dtype),
                               .x = forward.x,
                               .weight = forward.weight,
                               .stride = s.stride,
                               .padding = s.size / 2,
                               .dweight = b.random(forward.weight.shape(), dtype)};
  if (s.channels != 3)
    backward.dx = b.random(forward.x.shape(), dtype);  // the first layer needs no dx
  b.time("conv backward " + shape, dtype, backward, b.kernels().convolution_backward, true);
}

void add_batch_norm(Bench& b, DType dtype, std::int64_t images, std::int64_t side,
                    std::int64_t channels) {
  const std::int64_t rows = images * side * side;
  const auto wide = [&] { return b.random({rows, channels}, dtype); };
  const auto narrow = [&](DType type) { return b.random({channels}, type); };
  const auto name = [&](const char* part) {
    return fmt::format("batch norm {} {}x{}", part, side, channels);
  };
  const BatchNormStatistics statistics{
      .x = wide(), .mean = narrow(DType::f32), .variance = narrow(DType::f32)};
  b.time(name("statistics"), dtype, statistics, b.kernels().batch_norm_statistics);
  const BatchNormForward forward{.x = statistics.x,
                                 .residual = wide(),
                                 .mean = statistics.mean,
                                 .variance = statistics.variance,
                                 .weight = narrow(dtype),
                                 .bias = narrow(dtype),
                                 .relu = true,
                                 .y = wide()};
  b.time(name("forward"), dtype, forward, b.kernels().batch_norm_forward);
  const BatchNormReduce reduce{.dy = wide(),
                               .x = forward.x,
                               .y = forward.y,
                               .mean = forward.mean,
                               .variance = forward.variance,
                               .relu = true,
                               .sums = b.random({2, channels}, DType::f32)};
  b.time(name("reduce"), dtype, reduce, b.kernels().batch_norm_reduce);
  b.time<BatchNormBackward>(name("backward"), dtype,
                            {.dy = reduce.dy,
                             .x = forward.x,
                             .y = forward.y,
                             .mean = forward.mean,
                             .variance = forward.variance,
                             .weight = forward.weight,
                             .relu = true,
                             .sums = reduce.sums,
                             .rows = rows,
                             .dx = wide(),
                             .dresidual = reduce.dy},
                            b.kernels().batch_norm_backward);
}

void add_max_pool(Bench& b, DType dtype, std::int64_t images, std::int64_t side) {
  const std::int64_t out = (side - 1) / 2 + 1;
  const MaxPoolForward forward{.x = b.random({images, side, side, 64}, dtype),
                               .size = 3,
                               .stride = 2,
                               .padding = 1,
                               .y = b.random({images, out, out, 64}, dtype),
                               .where = b.bytes({images, out, out, 64})};
  b.time("max pool forward", dtype, forward, b.kernels().max_pool_forward);
  b.time<MaxPoolBackward>("max pool backward", dtype,
                          {.dy = forward.y,
                           .where = forward.where,
                           .size = 3,
                           .stride = 2,
                           .padding = 1,
                           .dx = b.random(forward.x.shape(), dtype)},
                          b.kernels().max_pool_backward);
}

}  // namespace

std::vector<Measurement> convolutions_of_resnet(DType dtype, std::int64_t images, bool small) {
  std::vector<Measurement> list;
  for (ConvolutionShape shape : convolutions) {
    if (small)
      for (std::int64_t* extent : {&shape.side, &shape.channels, &shape.filters})
        *extent = std::min<std::int64_t>(*extent, 9);
    list.push_back([=](Bench& b) { add_convolution(b, dtype, images, shape); });
  }
  return list;
}

std::vector<Measurement> norms_and_pools_of_resnet(DType dtype, std::int64_t images, bool small) {
  std::vector<Measurement> list;
  for (const auto& [side, channels] : {std::pair{112, 64}, {56, 256}, {14, 1024}, {7, 512}})
    list.push_back([=, side = small ? 7 : side, channels = small ? 16 : channels](Bench& b) {
      add_batch_norm(b, dtype, images, side, channels);
    });
  list.push_back([=](Bench& b) { add_max_pool(b, dtype, images, small ? 9 : 112); });
  return list;
}

}  // namespace ringside
