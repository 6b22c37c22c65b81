#include "core/device/cuda/kernels/patches.h"

#include "core/device/cuda/kernels/spread.cuh"
#include "core/device/cuda/kernels/vectors.cuh"

namespace ringside::cuda {
namespace {

/// The extents as int, because the kernels divide by them and 32-bit division is faster. `channels`
/// are those of a group; a pixel has `pixel` values. `rows` is less than 2^31.
struct Extents {
  int height, width, channels, pixel;
  int filter_height, filter_width, out_height, out_width, stride, padding_rows, padding_columns;
  std::int64_t rows;

  Extents(const ConvolutionExtents& e, std::int64_t rows)
      : height(static_cast<int>(e.height)),
        width(static_cast<int>(e.width)),
        channels(static_cast<int>(e.group_channels())),
        pixel(static_cast<int>(e.channels)),
        filter_height(static_cast<int>(e.filter_height)),
        filter_width(static_cast<int>(e.filter_width)),
        out_height(static_cast<int>(e.out_height)),
        out_width(static_cast<int>(e.out_width)),
        stride(static_cast<int>(e.stride)),
        padding_rows(static_cast<int>(e.padding_rows)),
        padding_columns(static_cast<int>(e.padding_columns)),
        rows(rows) {}
};

/// Each thread copies n channels of one pixel that the filter covers into one row of `patches`.
template <class T, int n>
__global__ __launch_bounds__(spread_threads) void take(Extents of, Spread at, const T* x,
                                                       T* patches) {
  const std::int64_t row = at.row_of_grid();
  if (!at.works() || row >= of.rows) return;
  const int position = static_cast<int>(row), line = position / of.out_width;
  const int p = line % of.out_height, q = position % of.out_width, image = line / of.out_height;
  const int column = static_cast<int>(at.column()), place = column / of.channels;
  const int h = p * of.stride - of.padding_rows + place / of.filter_width;
  const int w = q * of.stride - of.padding_columns + place % of.filter_width;
  Pack<T, n> pack = {};
  if (h >= 0 && h < of.height && w >= 0 && w < of.width)
    pack = load<n>(x + ((std::int64_t{image} * of.height + h) * of.width + w) * of.pixel +
                   column % of.channels);
  store<n>(patches + row * at.columns + column, pack);
}

/// Each thread computes n channels of one pixel of `dx`: their sum over all patches that contain
/// the pixel.
template <class T, int n>
__global__ __launch_bounds__(spread_threads) void add(Extents of, Spread at, const float* patches,
                                                      T* dx) {
  const std::int64_t row = at.row_of_grid();
  if (!at.works() || row >= of.rows) return;
  const int pixel = static_cast<int>(row), line = pixel / of.width;
  const int h = line % of.height + of.padding_rows, w = pixel % of.width + of.padding_columns;
  const int image = line / of.height;
  const std::int64_t patch = std::int64_t{of.filter_height} * of.filter_width * of.channels;
  Floats<n> sums = {};
  for (int r = 0; r < of.filter_height; ++r) {
    const int p = (h - r) / of.stride;
    if (h < r || p * of.stride != h - r || p >= of.out_height) continue;
    for (int s = 0; s < of.filter_width; ++s) {
      const int q = (w - s) / of.stride;
      if (w < s || q * of.stride != w - s || q >= of.out_width) continue;
      const std::int64_t position = (std::int64_t{image} * of.out_height + p) * of.out_width + q;
      const float* from =
          patches + position * patch + (r * of.filter_width + s) * of.channels + at.column();
      if constexpr (n == 1) {
        sums.at[0] += *from;
      } else {
#pragma unroll
        for (int i = 0; i < n; i += 4) {
          const Floats<4> values = load_floats<4>(from + i);
#pragma unroll
          for (int e = 0; e < 4; ++e) sums.at[i + e] += values.at[e];
        }
      }
    }
  }
  store_floats<n>(dx + row * of.pixel + at.column(), sums);
}

/// The index of a portion's first value in the images.
std::int64_t begin_of(const Portion& portion, const ConvolutionExtents& e) {
  return portion.first * e.height * e.width * e.channels + portion.group * e.group_channels();
}

}  // namespace

void take_patches(const Context& context, const ConvolutionExtents& extents, const Tensor& x,
                  const Portion& portion, const Tensor& patches) {
  const Extents of(extents, portion.images * extents.positions());
  const std::int64_t begin = begin_of(portion, extents);
  with_type(x.dtype(), [&]<class T>(std::type_identity<T>) {
    constexpr int n = in_16_bytes<T>;
    const T* from = data<T>(x) + begin;
    T* to = data<T>(patches);
    const std::int64_t channels = extents.group_channels();
    const bool aligned = has_aligned_rows(from, channels) && has_aligned_rows(to, channels);
    const Spread at = Spread::over(extents.patch(), aligned ? n : 1);
    launch(context, "take_patches", aligned ? take<T, n> : take<T, 1>, at.blocks(of.rows),
           spread_threads, of, at, from, to);
  });
}

void add_patches(const Context& context, const ConvolutionExtents& extents, const Tensor& patches,
                 const Portion& portion, const Tensor& dx) {
  const Extents of(extents, portion.images * extents.height * extents.width);
  const std::int64_t begin = begin_of(portion, extents);
  with_type(dx.dtype(), [&]<class T>(std::type_identity<T>) {
    constexpr int n = in_16_bytes<T>;
    const float* from = patches.data<float>();
    T* to = data<T>(dx) + begin;
    const std::int64_t channels = extents.group_channels();
    const bool aligned = has_aligned_rows(from, channels) && has_aligned_rows(to, channels);
    const Spread at = Spread::over(channels, aligned ? n : 1);
    launch(context, "add_patches", aligned ? add<T, n> : add<T, 1>, at.blocks(of.rows),
           spread_threads, of, at, from, to);
  });
}

}  // namespace ringside::cuda
