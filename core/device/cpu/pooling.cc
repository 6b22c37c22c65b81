// Pooling of channels-last images. The inner loops run over the channels.
#include <algorithm>
#include <limits>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"

namespace ringside::cpu {
namespace {

/// The part of a window that lies in the image, along one axis: positions [begin, end) of the
/// window. Position i of the window is position `at` + i of the image.
struct Overlap {
  std::int64_t at, begin, end;

  Overlap(std::int64_t window, std::int64_t size, std::int64_t stride, std::int64_t padding,
          std::int64_t extent)
      : at(window * stride - padding),
        begin(std::max<std::int64_t>(0, -at)),
        end(std::min(size, extent - at)) {}
};

/// For each channel, takes x as the largest value so far if it is larger, and records its `place`
/// in the window. A NaN is taken too, and stays.
void take_larger(const float* __restrict x, std::uint8_t place, float* __restrict most,
                 std::uint8_t* __restrict where, std::int64_t channels) {
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) {
    const bool larger = x[c] > most[c] || x[c] != x[c];
    most[c] = larger ? x[c] : most[c];
    where[c] = larger ? place : where[c];
  }
}

void take_larger(const float* __restrict x, float* __restrict most, std::int64_t channels) {
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c)
    most[c] = x[c] > most[c] || x[c] != x[c] ? x[c] : most[c];
}

void add_where(const float* __restrict dy, const std::uint8_t* __restrict where, std::uint8_t place,
               float* __restrict dx, std::int64_t channels) {
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) dx[c] += where[c] == place ? dy[c] : 0.0f;
}

void add_row(const float* __restrict row, float* __restrict sum, std::int64_t channels) {
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) sum[c] += row[c];
}

}  // namespace

void max_pool_forward(const Context& context, const MaxPoolForward& op) {
  const std::int64_t H = op.x.shape()[1], W = op.x.shape()[2], C = op.x.shape()[3];
  const std::int64_t P = op.y.shape()[1], Q = op.y.shape()[2];
  const float* x = op.x.data<float>();
  float* y = op.y.data<float>();
  auto* where = op.where.data<std::uint8_t>();
  parallel_for(
      context.threads, op.x.shape()[0] * P, 1, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = begin; row < end; ++row) {
          const float* image = x + row / P * H * W * C;
          const Overlap down(row % P, op.size, op.stride, op.padding, H);
          for (std::int64_t q = 0; q < Q; ++q) {
            const Overlap right(q, op.size, op.stride, op.padding, W);
            const std::int64_t to = (row * Q + q) * C;
            const std::int64_t first = down.begin * op.size + right.begin;
            std::copy_n(image + ((down.at + down.begin) * W + right.at + right.begin) * C, C,
                        y + to);
            if (where) std::fill_n(where + to, C, static_cast<std::uint8_t>(first));
            for (std::int64_t i = down.begin; i < down.end; ++i)
              for (std::int64_t j = right.begin; j < right.end; ++j) {
                const std::int64_t place = i * op.size + j;
                if (place == first) continue;
                const float* from = image + ((down.at + i) * W + right.at + j) * C;
                if (where)
                  take_larger(from, static_cast<std::uint8_t>(place), y + to, where + to, C);
                else
                  take_larger(from, y + to, C);
              }
          }
        }
      });
}

void max_pool_backward(const Context& context, const MaxPoolBackward& op) {
  const std::int64_t H = op.dx.shape()[1], W = op.dx.shape()[2], C = op.dx.shape()[3];
  const std::int64_t P = op.dy.shape()[1], Q = op.dy.shape()[2];
  const float* dy = op.dy.data<float>();
  const auto* where = op.where.data<std::uint8_t>();
  // One thread computes an image, because windows that overlap add to the same positions.
  parallel_for(
      context.threads, op.dx.shape()[0], 1, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t b = begin; b < end; ++b) {
          float* image = op.dx.data<float>() + b * H * W * C;
          std::fill_n(image, H * W * C, 0.0f);
          for (std::int64_t p = 0; p < P; ++p) {
            const Overlap down(p, op.size, op.stride, op.padding, H);
            for (std::int64_t q = 0; q < Q; ++q) {
              const Overlap right(q, op.size, op.stride, op.padding, W);
              const std::int64_t from = ((b * P + p) * Q + q) * C;
              for (std::int64_t i = down.begin; i < down.end; ++i)
                for (std::int64_t j = right.begin; j < right.end; ++j)
                  add_where(dy + from, where + from, static_cast<std::uint8_t>(i * op.size + j),
                            image + ((down.at + i) * W + right.at + j) * C, C);
            }
          }
        }
      });
}

void average_windows_forward(const Context& context, const AverageWindowsForward& op) {
  const std::int64_t H = op.x.shape()[1], W = op.x.shape()[2], C = op.x.shape()[3];
  const std::int64_t P = op.y.shape()[1], Q = op.y.shape()[2];
  const float* x = op.x.data<float>();
  float* y = op.y.data<float>();
  const auto positions = static_cast<float>(op.size * op.size);
  parallel_for(context.threads, op.x.shape()[0] * P, 1,
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t row = begin; row < end; ++row) {
                   const float* image = x + row / P * H * W * C;
                   const Overlap down(row % P, op.size, op.stride, op.padding, H);
                   for (std::int64_t q = 0; q < Q; ++q) {
                     const Overlap right(q, op.size, op.stride, op.padding, W);
                     float* mean = y + (row * Q + q) * C;
                     std::fill_n(mean, C, 0.0f);
                     for (std::int64_t i = down.begin; i < down.end; ++i)
                       for (std::int64_t j = right.begin; j < right.end; ++j)
                         add_row(image + ((down.at + i) * W + right.at + j) * C, mean, C);
                     for (std::int64_t c = 0; c < C; ++c) mean[c] /= positions;
                   }
                 }
               });
}

void average_windows_backward(const Context& context, const AverageWindowsBackward& op) {
  const std::int64_t H = op.dx.shape()[1], W = op.dx.shape()[2], C = op.dx.shape()[3];
  const std::int64_t P = op.dy.shape()[1], Q = op.dy.shape()[2];
  const float* dy = op.dy.data<float>();
  const auto positions = static_cast<float>(op.size * op.size);
  // One thread computes an image, because windows that overlap add to the same positions.
  parallel_for(context.threads, op.dx.shape()[0], 1,
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t b = begin; b < end; ++b) {
                   float* image = op.dx.data<float>() + b * H * W * C;
                   std::fill_n(image, H * W * C, 0.0f);
                   for (std::int64_t p = 0; p < P; ++p) {
                     const Overlap down(p, op.size, op.stride, op.padding, H);
                     for (std::int64_t q = 0; q < Q; ++q) {
                       const Overlap right(q, op.size, op.stride, op.padding, W);
                       const float* from = dy + ((b * P + p) * Q + q) * C;
                       for (std::int64_t i = down.begin; i < down.end; ++i)
                         for (std::int64_t j = right.begin; j < right.end; ++j)
                           add_row(from, image + ((down.at + i) * W + right.at + j) * C, C);
                     }
                   }
                   for (std::int64_t i = 0; i < H * W * C; ++i) image[i] /= positions;
                 }
               });
}

void average_pool_forward(const Context& context, const AveragePoolForward& op) {
  const std::int64_t positions = op.x.shape()[1] * op.x.shape()[2], C = op.x.shape()[3];
  const float* x = op.x.data<float>();
  float* y = op.y.data<float>();
  parallel_for(context.threads, op.x.shape()[0], 1, [=](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t b = begin; b < end; ++b) {
      float* mean = y + b * C;
      std::fill_n(mean, C, 0.0f);
      for (std::int64_t i = 0; i < positions; ++i) add_row(x + (b * positions + i) * C, mean, C);
      for (std::int64_t c = 0; c < C; ++c) mean[c] /= static_cast<float>(positions);
    }
  });
}

void average_pool_backward(const Context& context, const AveragePoolBackward& op) {
  const std::int64_t positions = op.dx.shape()[1] * op.dx.shape()[2], C = op.dx.shape()[3];
  const float* dy = op.dy.data<float>();
  float* dx = op.dx.data<float>();
  parallel_for(context.threads, op.dx.shape()[0], 1,
               [=](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t b = begin; b < end; ++b) {
                   float* image = dx + b * positions * C;
                   for (std::int64_t c = 0; c < C; ++c)
                     image[c] = dy[b * C + c] / static_cast<float>(positions);
                   for (std::int64_t i = 1; i < positions; ++i)
                     std::copy_n(image, C, image + i * C);
                 }
               });
}

}  // namespace ringside::cpu
