#include "core/device/cpu/winograd.h"

#include "core/device/cpu/tile.h"
#include "core/device/cpu/vectors.h"

namespace ringside::cpu {
namespace {

// The matrices of winograd.h. Each maps a line of `from` vectors to a line of `to` vectors.

struct B {  // maps by B^T
  static constexpr int from = 4, to = 4;
  static void map(const Vector (&in)[from], Vector (&out)[to]) {
    out[0] = in[0] - in[2];
    out[1] = in[1] + in[2];
    out[2] = in[2] - in[1];
    out[3] = in[1] - in[3];
  }
};
struct G {
  static constexpr int from = 3, to = 4;
  static void map(const Vector (&in)[from], Vector (&out)[to]) {
    const Vector outer = 0.5f * (in[0] + in[2]), inner = 0.5f * in[1];
    out[0] = in[0];
    out[1] = outer + inner;
    out[2] = outer - inner;
    out[3] = in[2];
  }
};
struct GTransposed {
  static constexpr int from = 4, to = 3;
  static void map(const Vector (&in)[from], Vector (&out)[to]) {
    const Vector outer = 0.5f * (in[1] + in[2]);
    out[0] = in[0] + outer;
    out[1] = 0.5f * (in[1] - in[2]);
    out[2] = outer + in[3];
  }
};
struct A {
  static constexpr int from = 2, to = 4;
  static void map(const Vector (&in)[from], Vector (&out)[to]) {
    out[0] = in[0];
    out[1] = in[0] + in[1];
    out[2] = in[0] - in[1];
    out[3] = -in[1];
  }
};
struct ATransposed {
  static constexpr int from = 4, to = 2;
  static void map(const Vector (&in)[from], Vector (&out)[to]) {
    out[0] = in[0] + in[1] + in[2];
    out[1] = in[1] - in[2] - in[3];
  }
};

/// Computes out = M * in * M^T, for square matrices `in` and `out` whose elements are vectors.
template <class M>
[[gnu::always_inline]] inline void apply(const Vector (&in)[M::from * M::from],
                                         Vector (&out)[M::to * M::to]) {
  Vector half[M::to][M::from];
#pragma GCC unroll 4
  for (int column = 0; column < M::from; ++column) {
    Vector line[M::from], mapped[M::to];
#pragma GCC unroll 4
    for (int i = 0; i < M::from; ++i) line[i] = in[i * M::from + column];
    M::map(line, mapped);
#pragma GCC unroll 4
    for (int i = 0; i < M::to; ++i) half[i][column] = mapped[i];
  }
#pragma GCC unroll 4
  for (int row = 0; row < M::to; ++row) {
    Vector mapped[M::to];
    M::map(half[row], mapped);
#pragma GCC unroll 4
    for (int i = 0; i < M::to; ++i) out[row * M::to + i] = mapped[i];
  }
}

float* at(Points tile, std::int64_t channel) {
  return tile.data + channel / tile_columns * tile.panel + channel % tile_columns;
}

/// Writes the points of M * in * M^T; rows[i] are the channels of element i of the matrix `in`.
template <class M>
void transform(const float* const (&rows)[M::from * M::from], std::int64_t channels, Points to) {
  for (std::int64_t c = 0; c < channels; c += lanes) {
    Vector in[M::from * M::from], out[points];
#pragma GCC unroll 16
    for (int i = 0; i < M::from * M::from; ++i) in[i] = load(rows[i] + c);
    apply<M>(in, out);
    float* to_channel = at(to, c);
#pragma GCC unroll 16
    for (int i = 0; i < points; ++i) store(out[i], to_channel + i * to.point);
  }
}

/// Computes out = M * points * M^T. A vector of `out` holds a few channels of one element of `out`.
/// Writes finish(vector, first of its channels) for each vector of element i to rows[i].
template <class M, class Finish>
void transform_back(Points from, std::int64_t channels, float* const (&rows)[M::to * M::to],
                    const Finish& finish) {
  for (std::int64_t c = 0; c < channels; c += lanes) {
    Vector in[points], out[M::to * M::to];
    const float* from_channel = at(from, c);
#pragma GCC unroll 16
    for (int i = 0; i < points; ++i) in[i] = load(from_channel + i * from.point);
    apply<M>(in, out);
#pragma GCC unroll 16
    for (int i = 0; i < M::to * M::to; ++i) store(finish(out[i], c), rows[i] + c);
  }
}

}  // namespace

void transform_pixels(const float* const (&pixels)[16], std::int64_t channels, Points to) {
  transform<B>(pixels, channels, to);
}

void transform_weights(const float* const (&weights)[9], std::int64_t channels, Points to) {
  transform<G>(weights, channels, to);
}

void transform_result_gradients(const float* const (&dresults)[4], std::int64_t channels,
                                Points to) {
  transform<A>(dresults, channels, to);
}

void make_results(Points from, std::int64_t channels, const float* bias, float least,
                  float* const (&results)[4]) {
  const Vector floor = Vector{} + least;
  transform_back<ATransposed>(from, channels, results, [=](Vector sum, std::int64_t c) {
    sum += load(bias + c);
    return sum < floor ? floor : sum;
  });
}

void make_weight_gradients(Points from, std::int64_t channels, float* const (&dweights)[9]) {
  transform_back<GTransposed>(from, channels, dweights,
                              [](Vector sum, std::int64_t) { return sum; });
}

}  // namespace ringside::cpu
