// Dropout. Whether an element is dropped depends on its number (core/device/ops/flat.h), and not on
// its place in the range. Compiled without relaxed arithmetic, because the bits of an element must
// not depend on that place either.
#include <cmath>

#include "core/device/cuda/kernels/elementwise.cuh"
#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/kernels/random_words.cuh"
#include "core/num/random.h"

namespace ringside::cuda {
namespace {

template <class T>
struct Dropping {
  const T* in;
  T* out;
  std::uint64_t first;
  uint2 key;
  std::uint32_t layer, step, threshold;
  float scale;

  __device__ uint4 words(std::uint64_t element) const {
    const std::uint64_t four = element / 4;
    return philox4x32(
        {static_cast<std::uint32_t>(four), static_cast<std::uint32_t>(four >> 32), layer, step},
        key);
  }

  template <int n>
  __device__ Pack<T, n> read(std::int64_t i) const {
    return load<n>(in + i);
  }
  template <int n>
  __device__ void write(std::int64_t i, const Pack<T, n>& operand) const {
    Floats<n> values = unpack(operand);
    const std::uint64_t begin = first + static_cast<std::uint64_t>(i);
    uint4 drawn = words(begin);
#pragma unroll
    for (int e = 0; e < n; ++e) {
      const std::uint64_t element = begin + e;
      const int place = static_cast<int>(element % 4);
      if (e > 0 && place == 0) drawn = words(element);
      const std::uint32_t word = word_of(drawn, place);
      values.at[e] = word < threshold ? 0.0f : values.at[e] * scale;
    }
    store_floats<n>(out + i, values);
  }
};

template <class T>
void drop(const Context& context, const Dropout& op) {
  const auto key = dropout_key(op.seed);
  const Dropping<T> body{.in = data<T>(op.in),
                         .out = data<T>(op.out),
                         .first = static_cast<std::uint64_t>(op.first),
                         .key = {key[0], key[1]},
                         .layer = op.layer,
                         .step = op.step,
                         // The smallest word that keeps its element: probability * 2^32 rounded up.
                         .threshold = static_cast<std::uint32_t>(
                             std::ceil(static_cast<double>(op.probability) * 0x1p32)),
                         .scale = 1 / (1 - op.probability)};
  elementwise<in_16_bytes<T>, 1>(context, "dropout", op.out.count(), body, body.in, body.out);
}

}  // namespace

void dropout(const Context& context, const Dropout& op) {
  with_type(op.out.dtype(), [&]<class T>(std::type_identity<T>) { drop<T>(context, op); });
}

}  // namespace ringside::cuda
