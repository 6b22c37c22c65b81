#include "core/device/cpu/convolution_taps.h"

#include <algorithm>

#include "core/device/cpu/parallel.h"

namespace ringside::cpu {
namespace {

/// Along one axis, the positions [begin, end) of the result for which element number `place` of the
/// kernel lies on a pixel of the image, not on the padding. For position `begin` it lies on pixel
/// `at`.
struct TapRange {
  std::int64_t begin, end, at;

  TapRange(std::int64_t place, std::int64_t stride, std::int64_t padding, std::int64_t extent,
           std::int64_t positions)
      : begin(std::max<std::int64_t>(0, (padding - place + stride - 1) / stride)),
        end(std::min(positions, (extent - 1 + padding - place + stride) / stride)),
        at(begin * stride - padding + place) {}
  std::int64_t count() const { return std::max<std::int64_t>(0, end - begin); }
};

/// Copies a part of each of `images` images: `rows` rows, of which the first is `top`, and from
/// each row `columns` pixels, of which the first is `left`. Takes every `stride`th row and pixel.
struct Pack {
  const float* from;
  std::int64_t images, height, width, channels;
  std::int64_t top, rows, left, columns, stride;

  void operator()(int threads, float* to) const {
    parallel_for(threads, images * rows, 16, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const float* row =
            from + ((i / rows * height + top + i % rows * stride) * width + left) * channels;
        float* out = to + i * columns * channels;
        if (stride == 1) {
          std::copy_n(row, columns * channels, out);
        } else {
          for (std::int64_t j = 0; j < columns; ++j)
            std::copy_n(row + j * stride * channels, channels, out + j * channels);
        }
      }
    });
  }
};

}  // namespace

bool taps_are_faster(const ConvolutionBackward& op) {
  const Shape &dy = op.dy.shape(), &weight = op.weight.shape();
  const std::int64_t P = dy[1], Q = dy[2], K = weight[0], R = weight[1], C = weight[3];
  // The most output positions of an image for which these products are faster than oneDNN. The
  // number is larger with vectors of 32 bytes.
  constexpr std::int64_t small = RINGSIDE_VECTOR_BYTES == 32 ? 64 : 49;
  return op.x.dtype() == DType::f32 && op.x.shape()[3] == C && R > 1 && std::min(K, C) >= 128 &&
         (P * Q <= small || op.stride > 1);
}

void weight_gradient_by_taps(const Context& context, const ConvolutionBackward& op) {
  const Shape &x = op.x.shape(), &dy = op.dy.shape(), &weight = op.weight.shape();
  const std::int64_t B = x[0], H = x[1], W = x[2], C = x[3], P = dy[1], Q = dy[2];
  const std::int64_t K = weight[0], R = weight[1], S = weight[2];
  const Tensor x_rows =
      context.device.tensor(Shape{B * P * Q, C}, MemoryKind::workspace, DType::f32);
  const Tensor dy_rows =
      context.device.tensor(Shape{B * P * Q, K}, MemoryKind::workspace, DType::f32);
  for (std::int64_t r = 0; r < R; ++r)
    for (std::int64_t s = 0; s < S; ++s) {
      const TapRange down(r, op.stride, op.padding.rows, H, P),
          right(s, op.stride, op.padding.columns, W, Q);
      const std::int64_t met = down.count() * right.count();
      float* out = op.dweight.data<float>() + (r * S + s) * C;
      if (met == 0) {
        for (std::int64_t k = 0; k < K; ++k) std::fill_n(out + k * R * S * C, C, 0.0f);
        continue;
      }
      Pack{op.x.data<float>(), B,        H, W, C, down.at, down.count(), right.at,
           right.count(),      op.stride}(context.threads, x_rows.data<float>());
      const bool all = met == P * Q;
      if (!all)
        Pack{op.dy.data<float>(), B, P, Q, K, down.begin, down.count(), right.begin,
             right.count(),       1}(context.threads, dy_rows.data<float>());
      gemm(context.threads, {.transpose_a = true,
                             .m = K,
                             .n = C,
                             .k = B * met,
                             .a = (all ? op.dy : dy_rows).data<float>(),
                             .lda = K,
                             .b = x_rows.data<float>(),
                             .ldb = C,
                             .c = out,
                             .ldc = R * S * C});
    }
}

}  // namespace ringside::cpu
