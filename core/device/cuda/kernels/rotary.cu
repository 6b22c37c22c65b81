// Rotary positions. A thread turns the same pair of all heads of a row, so it computes one sine.
#include <numbers>

#include "core/base/error.h"
#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/runtime/launch.h"
#include "core/device/cuda/kernels/vectors.cuh"

namespace ringside::cuda {
namespace {

constexpr int threads = 128;
constexpr int most_pairs = 256;

/// x [rows, all heads, 2 * pairs]; row r has position r % positions.
template <class T>
struct Turned {
  T* x;
  std::int64_t rows, positions, heads, row_elements;
  int pairs;
  double frequencies[most_pairs];  // negative for the inverse
};

template <class T>
__global__ __launch_bounds__(threads) void turn(Turned<T> op) {
  const std::int64_t all = op.rows * op.pairs;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < all;
       i += std::int64_t{gridDim.x} * threads) {
    const std::int64_t row = i / op.pairs;
    const int pair = static_cast<int>(i % op.pairs);
    // Whole turns are taken off in fp64: in fp32 the angle of a late position would be rounded.
    constexpr double whole = 2 * std::numbers::pi;
    const double angle = static_cast<double>(row % op.positions) * op.frequencies[pair];
    float sine, cosine;
    sincosf(static_cast<float>(angle - whole * rint(angle / whole)), &sine, &cosine);
    T* first = op.x + row * op.row_elements + pair;
    for (std::int64_t head = 0; head < op.heads; ++head, first += 2 * op.pairs) {
      T* second = first + op.pairs;
      const float a = load_float(first), b = load_float(second);
      store_float(first, a * cosine - b * sine);
      store_float(second, b * cosine + a * sine);
    }
  }
}

template <class T>
void rotate(const Context& context, const Rotary& op) {
  const Shape& shape = op.x.shape();
  Turned<T> with{.x = data<T>(op.x),
                 .rows = shape[0] * shape[1],
                 .positions = shape[1],
                 .heads = op.heads,
                 .row_elements = shape[2] * shape[3],
                 .pairs = static_cast<int>(shape[3] / 2),
                 .frequencies = {}};
  for (int i = 0; i < with.pairs; ++i)
    with.frequencies[i] = (op.inverse ? -1 : 1) * rotary_frequency(op, i);
  launch(context, "rotary", turn<T>,
         blocks_for(with.rows * with.pairs, threads, std::int64_t{32} * context.multiprocessors),
         threads, with);
}

}  // namespace

void rotary(const Context& context, const Rotary& op) {
  const std::int64_t depth = op.x.shape()[3];
  if (depth % 2 != 0 || depth > 2 * most_pairs)
    throw Error("rotary positions of heads of width {}: it has to be even, and at most {}", depth,
                2 * most_pairs);
  with_type(op.x.dtype(), [&]<class T>(std::type_identity<T>) { rotate<T>(context, op); });
}

}  // namespace ringside::cuda
