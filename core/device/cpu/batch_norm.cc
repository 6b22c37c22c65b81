// Batch norm of channels-last images. Every pass runs over the rows; its inner loop runs over the
// channels.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"

namespace ringside::cpu {
namespace {

constexpr std::int64_t unroll = 4;  // rows that are added to a sum at once

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// The division of sums over rows. The rows of a block, which stays in the cache, are added in
/// fp32. The sums of a part's blocks are added in fp64, and the sums of the parts are added in
/// order. Blocks and parts depend on the extents alone, not on the number of threads.
struct Partition {
  std::int64_t rows, channels;
  std::int64_t block = std::clamp<std::int64_t>(6144 / std::max<std::int64_t>(channels, 1), 8, 256);
  std::int64_t blocks = (rows + block - 1) / block;
  std::int64_t parts = std::clamp<std::int64_t>(blocks / 4, 1, 32);

  Partition(std::int64_t rows_, std::int64_t channels_) : rows(rows_), channels(channels_) {}

  /// Calls body(first row, number of rows) for every block of a part.
  template <class Body>
  void for_each_block(std::int64_t part, Body&& body) const {
    for (std::int64_t b = blocks * part / parts; b < blocks * (part + 1) / parts; ++b)
      body(b * block, std::min(block, rows - b * block));
  }
};

/// sums[c] += term(row, c), for all rows.
template <class Term>
void add_rows(std::int64_t rows, std::int64_t channels, float* __restrict sums, const Term& term) {
  std::int64_t r = 0;
  for (; r + unroll <= rows; r += unroll) {
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c)
      sums[c] += (term(r, c) + term(r + 1, c)) + (term(r + 2, c) + term(r + 3, c));
  }
  for (; r < rows; ++r) {
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) sums[c] += term(r, c);
  }
}

/// For each channel over `rows` rows: the mean, and the sum of squared deviations from it.
struct Moments {
  double rows = 0;
  std::vector<double> mean, squares;

  explicit Moments(std::int64_t channels) : mean(at(channels), 0.0), squares(at(channels), 0.0) {}

  /// Adds the moments of `more` rows (Chan, Golub and LeVeque 1979).
  template <class Value>
  void merge(double more, const Value* __restrict their_mean,
             const Value* __restrict their_squares) {
    const double all = rows + more, share = more / all, weight = rows * share;
    double* __restrict m = mean.data();
    double* __restrict s = squares.data();
    for (std::size_t c = 0; c < mean.size(); ++c) {
      const double apart = static_cast<double>(their_mean[c]) - m[c];
      m[c] += apart * share;
      s[c] += static_cast<double>(their_squares[c]) + apart * apart * weight;
    }
    rows = all;
  }
};

void publish(const Moments& moments, const Tensor& mean, const Tensor& variance) {
  for (std::size_t c = 0; c < moments.mean.size(); ++c) {
    mean.data<float>()[c] = static_cast<float>(moments.mean[c]);
    variance.data<float>()[c] = static_cast<float>(moments.squares[c] / moments.rows);
  }
}

/// Parameters of any float type, converted to fp32.
std::vector<float> floats(const Tensor& values) {
  std::vector<float> out;
  with_float_type(values.dtype(), [&]<class T>(T) {
    for (const T value : values.span<T>()) out.push_back(load(value));
  });
  return out;
}

std::vector<float> reciprocal_deviation(const Tensor& variance, float epsilon) {
  std::vector<float> rstd;
  for (const float value : variance.span<float>()) rstd.push_back(1 / std::sqrt(value + epsilon));
  return rstd;
}

/// For each channel over the rows of a block: the mean, and the sum of squared deviations from it.
template <class T>
void block_moments(const T* __restrict block, std::int64_t rows, std::int64_t channels, float* mean,
                   float* squares) {
  const auto value = [=](std::int64_t r, std::int64_t c) { return load(block[r * channels + c]); };
  std::fill_n(mean, channels, 0.0f);
  std::fill_n(squares, channels, 0.0f);
  add_rows(rows, channels, mean, value);
  for (std::int64_t c = 0; c < channels; ++c) mean[c] /= static_cast<float>(rows);
  const float* __restrict centre = mean;
  add_rows(rows, channels, squares, [=](std::int64_t r, std::int64_t c) {
    const float centred = value(r, c) - centre[c];
    return centred * centred;
  });
}

/// dz, the gradient of the values before the relu.
template <bool relu, class T>
struct Incoming {
  const T* dy;
  const T* y;
  float operator()(std::int64_t i) const {
    const float all = load(dy[i]);
    return !relu || load(y[i]) > 0 ? all : 0.0f;
  }
};

/// Adds to `ones` the sum of dz over the rows, and to `products` that of dz * (x - mean).
template <bool relu, class T>
void add_gradients(const T* __restrict dy, const T* __restrict x, const T* __restrict y,
                   const float* __restrict mean, std::int64_t rows, std::int64_t channels,
                   float* __restrict ones, float* __restrict products) {
  constexpr std::int64_t tile = 64;  // channels whose sums stay in registers
  for (std::int64_t from = 0; from < channels; from += tile) {
    float one[tile] = {}, product[tile] = {};
    const std::int64_t width = std::min(tile, channels - from);
    const auto add = [&](std::int64_t count) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t at_row = r * channels + from;
#pragma omp simd
        for (std::int64_t c = 0; c < count; ++c) {
          const float all = load(dy[at_row + c]);
          const float dz = !relu || load(y[at_row + c]) > 0 ? all : 0.0f;
          one[c] += dz;
          product[c] += dz * (load(x[at_row + c]) - mean[from + c]);
        }
      }
    };
    width == tile ? add(tile) : add(width);
    for (std::int64_t c = 0; c < width; ++c) {
      ones[from + c] += one[c];
      products[from + c] += product[c];
    }
  }
}

/// Calls body with a compile-time bool.
template <class Body>
void with(bool condition, Body&& body) {
  if (condition) return body(std::true_type{});
  body(std::false_type{});
}

/// y = (x - mean) * scale + bias, plus residual if `add`; then relu if `relu`.
template <bool add, bool relu, class T>
void normalise(const T* __restrict x, const T* __restrict residual, const float* __restrict mean,
               const float* __restrict scale, const float* __restrict bias, T* __restrict y,
               std::int64_t channels) {
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) {
    float value = (load(x[c]) - mean[c]) * scale[c] + bias[c];
    if (add) value += load(residual[c]);
    store(y[c], relu && value < 0 ? 0.0f : value);
  }
}

/// The numbers of each channel in dx = outer * dz - inner * (x - mean) - shift, where dz is the
/// gradient of the values before the relu.
struct Slopes {
  std::vector<float> outer, inner, shift;
};

/// dx and dresidual may share dy's memory: every element is read before it is written.
template <bool relu, bool keep, class T>
void differentiate(const Incoming<relu, T>& dz, const T* x, const float* mean, const Slopes& slopes,
                   T* dx, T* dresidual, std::int64_t first, std::int64_t channels) {
  const float* outer = slopes.outer.data();
  const float* inner = slopes.inner.data();
  const float* shift = slopes.shift.data();
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) {
    const float incoming = dz(first + c);
    const float centred = load(x[first + c]) - mean[c];
    if (keep) store(dresidual[first + c], incoming);
    store(dx[first + c], incoming * outer[c] - centred * inner[c] - shift[c]);
  }
}

}  // namespace

void batch_norm_statistics(const Context& context, const BatchNormStatistics& op) {
  const Partition split(op.x.shape()[0], op.x.shape()[1]);
  const std::int64_t channels = split.channels;
  std::vector<Moments> parts(at(split.parts), Moments(channels));
  parallel_for(context.threads, split.parts, 1, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<float> mean(at(channels)), squares(at(channels));
    for (std::int64_t part = begin; part < end; ++part)
      split.for_each_block(part, [&](std::int64_t first, std::int64_t rows) {
        with_float_type(op.x.dtype(), [&]<class T>(T) {
          block_moments(op.x.data<T>() + first * channels, rows, channels, mean.data(),
                        squares.data());
        });
        parts[at(part)].merge(static_cast<double>(rows), mean.data(), squares.data());
      });
  });
  Moments all(channels);
  for (const auto& part : parts) all.merge(part.rows, part.mean.data(), part.squares.data());
  publish(all, op.mean, op.variance);
}

void batch_norm_merge(const Context&, const BatchNormMerge& op) {
  const std::int64_t groups = op.groups.shape()[0], channels = op.groups.shape()[2];
  Moments all(channels);
  for (std::int64_t group = 0; group < groups; ++group) {
    const float* mean = op.groups.data<float>() + group * 2 * channels;
    all.merge(1, mean, mean + channels);
  }
  publish(all, op.mean, op.variance);
}

void batch_norm_forward(const Context& context, const BatchNormForward& op) {
  const std::int64_t rows = op.x.shape()[0], channels = op.x.shape()[1];
  std::vector<float> scale = reciprocal_deviation(op.variance, op.epsilon);
  const std::vector<float> weight = floats(op.weight), bias = floats(op.bias);
  for (std::size_t c = 0; c < scale.size(); ++c) scale[c] *= weight[c];
  const std::int64_t grain = 1 + (1 << 14) / channels;
  parallel_for(context.threads, rows, grain, [&](std::int64_t begin, std::int64_t end, int) {
    with(static_cast<bool>(op.residual), [&](auto add) {
      with(op.relu, [&](auto relu) {
        with_float_type(op.x.dtype(), [&]<class T>(T) {
          for (std::int64_t i = begin * channels; i < end * channels; i += channels)
            normalise<add, relu>(op.x.data<T>() + i, op.residual.data<T>() + (add ? i : 0),
                                 op.mean.data<float>(), scale.data(), bias.data(),
                                 op.y.data<T>() + i, channels);
        });
      });
    });
  });
}

void batch_norm_reduce(const Context& context, const BatchNormReduce& op) {
  const Partition split(op.x.shape()[0], op.x.shape()[1]);
  const std::int64_t channels = split.channels;
  const std::vector<float> rstd = reciprocal_deviation(op.variance, op.epsilon);
  const float* mean = op.mean.data<float>();
  std::vector<double> sums(at(split.parts * 2 * channels), 0.0);
  parallel_for(context.threads, split.parts, 1, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<float> block(at(2 * channels));
    for (std::int64_t part = begin; part < end; ++part) {
      double* of_part = sums.data() + part * 2 * channels;
      split.for_each_block(part, [&](std::int64_t first, std::int64_t rows) {
        std::fill(block.begin(), block.end(), 0.0f);
        with(op.relu, [&](auto relu) {
          with_float_type(op.x.dtype(), [&]<class T>(T) {
            add_gradients<relu>(op.dy.data<T>() + first * channels,
                                op.x.data<T>() + first * channels,
                                op.y.data<T>() + (relu ? first * channels : 0), mean, rows,
                                channels, block.data(), block.data() + channels);
          });
        });
        for (std::int64_t i = 0; i < 2 * channels; ++i) of_part[i] += block[at(i)];
      });
    }
  });
  float* out = op.sums.data<float>();
  for (std::int64_t i = 0; i < 2 * channels; ++i) {
    double sum = 0;
    for (std::int64_t part = 0; part < split.parts; ++part)
      sum += sums[at(part * 2 * channels + i)];
    out[i] = static_cast<float>(i < channels ? sum : sum * rstd[at(i - channels)]);
  }
}

void batch_norm_backward(const Context& context, const BatchNormBackward& op) {
  const std::int64_t rows = op.x.shape()[0], channels = op.x.shape()[1];
  const float* sums = op.sums.data<float>();
  const auto count = static_cast<float>(op.rows);
  const std::vector<float> weight = floats(op.weight);
  Slopes slopes;
  slopes.outer = reciprocal_deviation(op.variance, op.epsilon);
  for (std::int64_t c = 0; c < channels; ++c) {
    const float rstd = slopes.outer[at(c)];
    slopes.outer[at(c)] *= weight[at(c)];
    slopes.inner.push_back(slopes.outer[at(c)] * rstd * (sums[channels + c] / count));
    slopes.shift.push_back(slopes.outer[at(c)] * (sums[c] / count));
  }
  const std::int64_t grain = 1 + (1 << 14) / channels;
  parallel_for(context.threads, rows, grain, [&](std::int64_t begin, std::int64_t end, int) {
    with(op.relu, [&](auto relu) {
      with(static_cast<bool>(op.dresidual), [&](auto keep) {
        with_float_type(op.x.dtype(), [&]<class T>(T) {
          const Incoming<relu, T> dz{op.dy.data<T>(), op.y.data<T>()};
          for (std::int64_t i = begin * channels; i < end * channels; i += channels)
            differentiate<relu, keep>(dz, op.x.data<T>(), op.mean.data<float>(), slopes,
                                      op.dx.data<T>(), op.dresidual.data<T>(), i, channels);
        });
      });
    });
  });
}

}  // namespace ringside::cpu
