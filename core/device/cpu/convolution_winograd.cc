#include "core/device/cpu/convolution_winograd.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/device/cpu/parallel.h"
#include "core/device/cpu/tile.h"
#include "core/device/cpu/winograd.h"

namespace ringside::cpu {
namespace {

// The largest number of tiles in a block. The tiles of a block are multiplied together. A block
// with 64 channels stays in the L2 cache, a block with 512 channels in the L3 cache; the
// transformed weights, or their gradient, pass through the cache once for each block.
constexpr std::int64_t block_tiles = 24 * tile_rows;

/// The distance, in floats, from the start of one matrix to the start of the next, where 16
/// matrices of `size` floats lie one behind the other. The 16 starts are spread evenly modulo 4 KB:
/// if they were equal modulo 4 KB, the same elements of all matrices would share one set of the L1
/// cache.
constexpr std::int64_t apart(std::int64_t size) { return round_up(size, 1024) + 64; }

/// 16 matrices [rows, channels], one for each point of a transformed tile. Behind the channels of a
/// row, one cache line stays unused, which spreads the rows over the sets of the cache too.
struct Matrices {
  std::int64_t row, point;

  Matrices(std::int64_t rows, std::int64_t channels)
      : row(channels + 16), point(apart(rows * row)) {}
  std::int64_t size() const { return points * point; }
  Points at(float* data, std::int64_t i) const { return {data + i * row, point, tile_columns}; }
};
/// 16 matrices [rows, channels] as panels.
struct Panels {
  std::int64_t rows, point;

  Panels(std::int64_t rows_, std::int64_t channels)
      : rows(rows_), point(apart(panels_size(rows_, channels))) {}
  std::int64_t size() const { return points * point; }
  Points at(float* data, std::int64_t i) const {
    return {data + i * tile_columns, point, rows * tile_columns};
  }
};

Tensor floats(const Context& context, std::int64_t count) {
  return context.device.tensor(Shape{count}, MemoryKind::workspace, DType::f32);
}

/// Images [images, height, width, channels].
template <class Float>
struct Images {
  Float* data;
  std::int64_t images, height, width, channels;

  explicit Images(const Tensor& tensor)
      : data(tensor.data<float>()),
        images(tensor.shape()[0]),
        height(tensor.shape()[1]),
        width(tensor.shape()[2]),
        channels(tensor.shape()[3]) {}

  /// Points `pixels` to the channels of a square of size x size pixels of image `i`. The square's
  /// first pixel is at (top, left). Pixels beyond the image get `outside`.
  template <std::int64_t size>
  void square(std::int64_t i, std::int64_t top, std::int64_t left, Float* outside,
              Float* (&pixels)[size * size]) const {
    for (std::int64_t h = top; h < top + size; ++h)
      for (std::int64_t w = left; w < left + size; ++w) {
        const bool inside = h >= 0 && h < height && w >= 0 && w < width;
        pixels[(h - top) * size + w - left] =
            inside ? data + ((i * height + h) * width + w) * channels : outside;
      }
  }
};

/// The tiles of 2x2 results that images consist of, image after image and row by row.
struct Tiles {
  std::int64_t images, down, across;

  template <class Float>
  explicit Tiles(const Images<Float>& results)
      : images(results.images), down((results.height + 1) / 2), across((results.width + 1) / 2) {}

  std::int64_t count() const { return images * down * across; }
  std::int64_t image(std::int64_t tile) const { return tile / (down * across); }
  /// The place of the tile's first result in the image.
  std::int64_t top(std::int64_t tile) const { return tile / across % down * 2; }
  std::int64_t left(std::int64_t tile) const { return tile % across * 2; }
};

/// Points `places` to the channels of the nine places of kernel k, of weights [K, 3, 3, channels].
template <class Float>
void kernel(Float* weights, std::int64_t k, std::int64_t channels, Float* (&places)[9]) {
  for (std::int64_t i = 0; i < 9; ++i) places[i] = weights + (k * 9 + i) * channels;
}

/// Weights [K, 3, 3, C] transformed, as panels of [C, K].
Tensor forward_weights(const Context& context, const Tensor& weight) {
  const std::int64_t K = weight.shape()[0], C = weight.shape()[3];
  const float* weights = weight.data<float>();
  const Panels panels(C, K);
  const Matrices rows(tile_columns, C);  // transformed kernels, before they are packed as panels
  const Tensor out = floats(context, panels.size());
  const Tensor scratch = floats(context, context.threads * rows.size());
  const auto make_panel = [&](std::int64_t k, float* own) {
    for (std::int64_t i = 0; i < tile_columns; ++i) {
      const float* places[9];
      kernel(weights, k + i, C, places);
      transform_weights(places, C, rows.at(own, i));
    }
    for (std::int64_t i = 0; i < points; ++i)
      pack_transposed(C, tile_columns, own + i * rows.point, rows.row, 1,
                      out.data<float>() + i * panels.point + k * C);
  };
  parallel_for(context.threads, K / tile_columns, 1,
               [&](std::int64_t begin, std::int64_t end, int thread) {
                 for (std::int64_t panel = begin; panel < end; ++panel)
                   make_panel(panel * tile_columns, scratch.data<float>() + thread * rows.size());
               });
  return out;
}

/// Weights [K, 3, 3, C] turned by half a circle and transformed, as panels of [K, C].
Tensor backward_weights(const Context& context, const Tensor& weight) {
  const std::int64_t K = weight.shape()[0], C = weight.shape()[3];
  const float* weights = weight.data<float>();
  const Panels panels(K, C);
  const Tensor out = floats(context, panels.size());
  parallel_for(context.threads, K, 16, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t k = begin; k < end; ++k) {
      const float* places[9];
      kernel(weights, k, C, places);
      std::reverse(places, places + 9);
      transform_weights(places, C, panels.at(out.data<float>(), k));
    }
  });
  return out;
}

/// A convolution of the images `from`, which have margins of zeros around them, with transformed
/// weights, which are panels of [channels of `from`, channels of `to`].
struct Convolution {
  Images<const float> from;
  std::int64_t margin;
  Tensor weights;
  Images<float> to;
  const float* bias = nullptr;  // [channels of to], optional
  float least = -std::numeric_limits<float>::infinity();

  void run(const Context& context) const {
    const Tiles tiles(to);
    const std::int64_t fewest = (tiles.count() + block_tiles - 1) / block_tiles;
    const std::int64_t blocks = std::min(round_up(fewest, context.threads), tiles.count());
    const Panels weight(from.channels, to.channels);
    const std::int64_t together = (tiles.count() + blocks - 1) / blocks;
    const Matrices pixels(together, from.channels), results(together, to.channels);
    const std::int64_t size = pixels.size() + results.size();
    const Tensor scratch = floats(context, context.threads * size);
    const std::vector<float> zeros(static_cast<std::size_t>(std::max(from.channels, to.channels)));

    const auto run_block = [&](std::int64_t begin, std::int64_t end, float* in, float* beyond) {
      float* out = in + pixels.size();
      for (std::int64_t tile = begin; tile < end; ++tile) {
        const float* square[16];
        from.square<4>(tiles.image(tile), tiles.top(tile) - margin, tiles.left(tile) - margin,
                       zeros.data(), square);
        transform_pixels(square, from.channels, pixels.at(in, tile - begin));
      }
      for (std::int64_t i = 0; i < points; ++i)
        multiply_panels(
            end - begin, to.channels, from.channels, {in + i * pixels.point, pixels.row, 1},
            weights.data<float>() + i * weight.point, out + i * results.point, results.row, false);
      for (std::int64_t tile = begin; tile < end; ++tile) {
        float* square[4];
        to.square<2>(tiles.image(tile), tiles.top(tile), tiles.left(tile), beyond, square);
        make_results(results.at(out, tile - begin), to.channels, bias ? bias : zeros.data(), least,
                     square);
      }
    };
    parallel_for(context.threads, blocks, 1,
                 [&](std::int64_t first, std::int64_t last, int thread) {
                   float* own = scratch.data<float>() + thread * size;
                   std::vector<float> beyond(static_cast<std::size_t>(to.channels));
                   for (std::int64_t block = first; block < last; ++block)
                     run_block(tiles.count() * block / blocks, tiles.count() * (block + 1) / blocks,
                               own, beyond.data());
                 });
  }
};

template <class Op>
bool fits(const Op& op, const Tensor& results) {
  const Shape &weight = op.weight.shape(), &y = results.shape();
  const std::int64_t K = weight[0], C = weight[3];
  const bool layout = op.x.dtype() == DType::f32 && K % tile_columns == 0 && C % tile_columns == 0;
  const bool windows = weight[1] == 3 && weight[2] == 3 && op.stride == 1 &&
                       op.padding.rows == op.padding.columns && op.padding.rows <= 2;
  // With fewer channels, and on smaller images, the transforms cost more than they save.
  return RINGSIDE_VECTOR_BYTES == 32 && layout && windows && op.x.shape()[3] == C &&
         std::min(K, C) >= 32 && std::min(y[1], y[2]) >= 4;
}

}  // namespace

bool winograd_is_faster(const ConvolutionForward& op) { return fits(op, op.y); }
bool winograd_is_faster(const ConvolutionBackward& op) { return fits(op, op.dy); }

void convolve_by_winograd(const Context& context, const ConvolutionForward& op) {
  Convolution convolution{.from = Images<const float>(op.x),
                          .margin = op.padding.rows,
                          .weights = forward_weights(context, op.weight),
                          .to = Images<float>(op.y)};
  if (op.bias) convolution.bias = op.bias.data<float>();
  if (op.relu) convolution.least = 0;
  convolution.run(context);
}

void image_gradient_by_winograd(const Context& context, const ConvolutionBackward& op) {
  // The results that depend on one pixel form a window, and the pixel's gradient is a sum over this
  // window. For the window's first result the pixel was multiplied by the kernel's last weights,
  // for its last result by the kernel's first weights. So the kernel is turned by half a circle.
  Convolution{.from = Images<const float>(op.dy),
              .margin = 2 - op.padding.rows,
              .weights = backward_weights(context, op.weight),
              .to = Images<float>(op.dx)}
      .run(context);
}

void weight_gradient_by_winograd(const Context& context, const ConvolutionBackward& op) {
  const Images<const float> x(op.x), dy(op.dy);
  const std::int64_t K = dy.channels, C = x.channels;
  const Tiles tiles(dy);
  const std::int64_t together = std::min(block_tiles, tiles.count());
  const Matrices dresults(together, K), dweights(K, C);
  const Tensor dresult_data = floats(context, dresults.size());
  const Tensor pixel_data = floats(context, Panels(together, C).size());
  const Tensor dweight_data = floats(context, dweights.size());
  const std::vector<float> zeros(static_cast<std::size_t>(std::max(C, K)));
  // Blocks come one after the other, each on all threads, so that every sum adds the tiles in
  // order.
  for (std::int64_t begin = 0; begin < tiles.count(); begin += together) {
    const std::int64_t count = std::min(together, tiles.count() - begin);
    const Panels pixels(count, C);
    parallel_for(context.threads, count, 8, [&](std::int64_t first, std::int64_t last, int) {
      for (std::int64_t i = first; i < last; ++i) {
        const std::int64_t image = tiles.image(begin + i), top = tiles.top(begin + i),
                           left = tiles.left(begin + i);
        const float *seen[16], *slopes[4];
        x.square<4>(image, top - op.padding.rows, left - op.padding.rows, zeros.data(), seen);
        transform_pixels(seen, C, pixels.at(pixel_data.data<float>(), i));
        dy.square<2>(image, top, left, zeros.data(), slopes);
        transform_result_gradients(slopes, K, dresults.at(dresult_data.data<float>(), i));
      }
    });
    parallel_for(context.threads, points, 1, [&](std::int64_t first, std::int64_t last, int) {
      for (std::int64_t i = first; i < last; ++i)
        multiply_panels(K, C, count,
                        {dresult_data.data<float>() + i * dresults.point, 1, dresults.row},
                        pixel_data.data<float>() + i * pixels.point,
                        dweight_data.data<float>() + i * dweights.point, dweights.row, begin > 0);
    });
  }
  parallel_for(context.threads, K, 16, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t k = begin; k < end; ++k) {
      float* places[9];
      kernel(op.dweight.data<float>(), k, C, places);
      make_weight_gradients(dweights.at(dweight_data.data<float>(), k), C, places);
    }
  });
}

}  // namespace ringside::cpu
