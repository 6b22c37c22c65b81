// Convolutions. Our own products compute those for which they are faster than oneDNN, which
// computes the others. tests/bench/convolutions_bench times each way beside oneDNN.
#include <algorithm>

#include "core/device/cpu/convolution_onednn.h"
#include "core/device/cpu/convolution_taps.h"
#include "core/device/cpu/convolution_windows.h"
#include "core/device/cpu/convolution_winograd.h"
#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"

namespace ringside::cpu {
namespace {

/// dy = 0 where y is not above 0.
template <class T>
void through_relu(const Context& context, const T* y_all, T* dy_all, std::int64_t count) {
  parallel_for(context.threads, count, 1 << 15, [=](std::int64_t begin, std::int64_t end, int) {
    const T* __restrict y = y_all;
    T* __restrict dy = dy_all;
    for (std::int64_t i = begin; i < end; ++i) dy[i] = load(y[i]) > 0 ? dy[i] : T{};
  });
}

/// Each thread has some of the channels, so that every sum adds the rows in order.
void bias_gradient(const Context& context, const ConvolutionBackward& op) {
  const std::int64_t K = op.dbias.count(), rows = op.dy.count() / K;
  const float* dy = op.dy.data<float>();
  float* dbias = op.dbias.data<float>();
  parallel_for(context.threads, K, 64, [=](std::int64_t begin, std::int64_t end, int) {
    std::fill(dbias + begin, dbias + end, 0.0f);
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* __restrict row = dy + r * K;
      float* __restrict sum = dbias;
#pragma omp simd
      for (std::int64_t k = begin; k < end; ++k) sum[k] += row[k];
    }
  });
}

}  // namespace

void convolution_forward(const Context& context, const ConvolutionForward& op) {
  if (winograd_is_faster(op)) return convolve_by_winograd(context, op);
  if (windows_are_faster(op)) return convolve_by_windows(context, op);
  convolve_by_onednn(context, op);
}

void convolution_backward(const Context& context, const ConvolutionBackward& given) {
  const ConvolutionBackward op = with_extents(given);
  if (op.relu)
    with_float_type(op.dy.dtype(), [&]<class T>(T) {
      through_relu(context, op.y.data<T>(), op.dy.data<T>(), op.dy.count());
    });
  const bool winograd = winograd_is_faster(op), taps = taps_are_faster(op);
  if (op.dx && winograd)
    image_gradient_by_winograd(context, op);
  else if (op.dx && windows_are_faster(op))
    image_gradient_by_windows(context, op);
  else if (op.dx)
    image_gradient_by_onednn(context, op);
  if (!op.dweight) return;
  if (!winograd && !taps) return weight_gradient_by_onednn(context, op);
  if (winograd)
    weight_gradient_by_winograd(context, op);
  else
    weight_gradient_by_taps(context, op);
  if (op.dbias) bias_gradient(context, op);
}

}  // namespace ringside::cpu
