#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"
#include "core/device/cpu/vector_math.h"

namespace ringside::cpu {
namespace {

/// The number of rows that are worth a thread.
std::int64_t grain(std::int64_t width) { return (1 << 13) / width + 1; }

void forward_row(const float* __restrict gate, const float* __restrict up, float* __restrict y,
                 std::int64_t width) {
#pragma omp simd
  for (std::int64_t c = 0; c < width; ++c) y[c] = gate[c] / (1 + exponential(-gate[c])) * up[c];
}

/// dgate may be gate, and dup may be up.
void backward_row(const float* dy, const float* gate, const float* up, float* dgate, float* dup,
                  std::int64_t width) {
#pragma omp simd
  for (std::int64_t c = 0; c < width; ++c) {
    const float g = gate[c], u = up[c];
    const float sigmoid = 1 / (1 + exponential(-g));
    dgate[c] = dy[c] * u * sigmoid * (1 + g * (1 - sigmoid));
    dup[c] = dy[c] * g * sigmoid;
  }
}

}  // namespace

void swiglu_forward(const Context& context, const SwiGluForward& op) {
  const std::int64_t rows = op.y.shape()[0], width = op.y.shape()[1];
  parallel_for(context.threads, rows, grain(width), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* gate = op.x.data<float>() + r * 2 * width;
      forward_row(gate, gate + width, op.y.data<float>() + r * width, width);
    }
  });
}

void swiglu_backward(const Context& context, const SwiGluBackward& op) {
  const std::int64_t rows = op.dy.shape()[0], width = op.dy.shape()[1];
  parallel_for(context.threads, rows, grain(width), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* gate = op.x.data<float>() + r * 2 * width;
      float* dgate = op.dx.data<float>() + r * 2 * width;
      backward_row(op.dy.data<float>() + r * width, gate, gate + width, dgate, dgate + width,
                   width);
    }
  });
}

}  // namespace ringside::cpu
