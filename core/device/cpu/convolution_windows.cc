#include "core/device/cpu/convolution_windows.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/device/cpu/parallel.h"
#include "core/device/cpu/tile.h"

namespace ringside::cpu {
namespace {

// Images are multiplied in groups, which stay in the second-level cache while all weights pass
// through it. A group consists of the fewest whole images that have at least this number of
// positions.
constexpr std::int64_t group_positions = 192;

/// Images [images, height, width, channels] and the windows of `rows` x `columns` pixels on them.
/// There is a window for each position of [images, down, across]; windows are `stride` pixels
/// apart, and the first one of an image begins `margin` pixels above and to the left of the image.
struct Windows {
  const float* images_data;
  std::int64_t images, height, width, channels;
  std::int64_t rows, columns, margin, stride;
  std::int64_t down, across;

  std::int64_t positions() const { return down * across; }
  /// Elements of a window's row, which lie side by side.
  std::int64_t row_size() const { return columns * channels; }
  std::int64_t padded_width() const { return width + 2 * margin; }
  std::int64_t padded_size() const { return (height + 2 * margin) * padded_width() * channels; }
};

/// Copies image `i` to `to`, with margins of zeros around it.
void pad(const Windows& of, std::int64_t i, float* to) {
  const std::int64_t row = of.width * of.channels, side = of.margin * of.channels;
  const std::int64_t above = of.margin * of.padded_width() * of.channels;
  const float* from = of.images_data + i * of.height * row;
  to = std::fill_n(to, above, 0.0f);
  for (std::int64_t h = 0; h < of.height; ++h) {
    to = std::fill_n(to, side, 0.0f);
    to = std::copy_n(from + h * row, row, to);
    to = std::fill_n(to, side, 0.0f);
  }
  std::fill_n(to, above, 0.0f);
}

/// result [begins.size(), channels] = the windows that begin at `begins`, times panels.
void multiply_group(const Windows& of, const std::vector<const float*>& begins, const float* panels,
                    std::int64_t channels, float* result) {
  const auto positions = static_cast<std::int64_t>(begins.size());
  const std::int64_t pitch = of.padded_width() * of.channels, size = of.row_size();
  const std::int64_t slices = (size + slice_rows - 1) / slice_rows;
  const float* panel = panels;
  for (std::int64_t c = 0; c < channels; c += tile_columns)
    for (std::int64_t row = 0; row < of.rows; ++row)
      for (std::int64_t slice = 0; slice < slices; ++slice) {
        const std::int64_t begin = size * slice / slices, end = size * (slice + 1) / slices;
        for (std::int64_t at = 0; at < positions; at += tile_rows)
          multiply_rows(std::min(tile_rows, positions - at), end - begin, begins.data() + at,
                        row * pitch + begin, panel, result + at * channels + c, channels,
                        row + slice > 0);
        panel += (end - begin) * tile_columns;
      }
}

/// result [images, down, across, channels] = windows times `panels`, which hold a matrix [of.rows *
/// of.columns * of.channels, channels]; `channels` is a multiple of tile_columns. Calls
/// finish(begin, end) when the results of images [begin, end) are complete.
template <class Finish>
void multiply(const Context& context, const Windows& of, const float* panels, std::int64_t channels,
              float* result, const Finish& finish) {
  const std::int64_t together =
      std::min(of.images, (group_positions + of.positions() - 1) / of.positions());
  const std::int64_t groups = (of.images + together - 1) / together;
  const Tensor padded = context.device.tensor(Shape{context.threads, together * of.padded_size()},
                                              MemoryKind::workspace, DType::f32);
  parallel_for(context.threads, groups, 1, [&](std::int64_t first, std::int64_t last, int thread) {
    float* own = padded.data<float>() + thread * together * of.padded_size();
    std::vector<const float*> begins;
    for (std::int64_t group = first; group < last; ++group) {
      const std::int64_t begin = group * together, end = std::min(begin + together, of.images);
      begins.clear();
      for (std::int64_t i = begin; i < end; ++i) {
        float* image = own + (i - begin) * of.padded_size();
        pad(of, i, image);
        for (std::int64_t p = 0; p < of.down; ++p)
          for (std::int64_t q = 0; q < of.across; ++q)
            begins.push_back(image + (p * of.padded_width() + q) * of.stride * of.channels);
      }
      multiply_group(of, begins, panels, channels, result + begin * of.positions() * channels);
      finish(begin, end);
    }
  });
}

/// Windows are square here, and the margins of an image are equal on all sides.
bool fits(const Tensor& x, const Tensor& weight, const Extent2d& padding) {
  const std::int64_t K = weight.shape()[0], R = weight.shape()[1], C = weight.shape()[3];
  const bool square = weight.shape()[2] == R && padding.rows == padding.columns;
  return RINGSIDE_VECTOR_BYTES == 32 && x.dtype() == DType::f32 && R > 1 && square &&
         K % tile_columns == 0 && C % tile_columns == 0 && x.shape()[3] == C;
}

}  // namespace

bool windows_are_faster(const ConvolutionForward& op) { return fits(op.x, op.weight, op.padding); }
bool windows_are_faster(const ConvolutionBackward& op) {
  return fits(op.x, op.weight, op.padding) && op.stride == 1 &&
         op.padding.rows < op.weight.shape()[1];
}

void convolve_by_windows(const Context& context, const ConvolutionForward& op) {
  const Shape &x = op.x.shape(), &w = op.weight.shape(), &y = op.y.shape();
  const std::int64_t K = w[0], size = w[1] * w[2] * w[3];
  const Tensor panels =
      context.device.tensor(Shape{panels_size(size, K)}, MemoryKind::workspace, DType::f32);
  parallel_for(
      context.threads, K / tile_columns, 1, [&](std::int64_t begin, std::int64_t end, int) {
        const std::int64_t first = begin * tile_columns;
        pack_transposed(size, (end - begin) * tile_columns, op.weight.data<float>() + first * size,
                        size, 1, panels.data<float>() + first * size);
      });
  const Windows windows{op.x.data<float>(), x[0],      x[1], x[2], x[3], w[1], w[2],
                        op.padding.rows,    op.stride, y[1], y[2]};
  float* result = op.y.data<float>();
  const float* bias = op.bias ? op.bias.data<float>() : nullptr;
  const std::int64_t positions = windows.positions();
  multiply(context, windows, panels.data<float>(), K, result,
           [&](std::int64_t begin, std::int64_t end) {
             if (!bias && !op.relu) return;
             const float least = op.relu ? 0 : -std::numeric_limits<float>::infinity();
             for (std::int64_t at = begin * positions; at < end * positions; ++at) {
               float* row = result + at * K;
               for (std::int64_t k = 0; k < K; ++k) {
                 const float sum = bias ? row[k] + bias[k] : row[k];
                 row[k] = sum < least ? least : sum;
               }
             }
           });
}

void image_gradient_by_windows(const Context& context, const ConvolutionBackward& op) {
  const Shape &x = op.x.shape(), &w = op.weight.shape(), &dy = op.dy.shape();
  const std::int64_t K = w[0], R = w[1], S = w[2], C = w[3];
  const Tensor panels =
      context.device.tensor(Shape{panels_size(R * S * K, C)}, MemoryKind::workspace, DType::f32);
  // The results that depend on a pixel form a window, and the pixel's gradient is a sum over this
  // window. For the first result of the window the pixel was multiplied by the kernel's last
  // weights, for the last result by the kernel's first weights. So the kernel is turned by half a
  // circle.
  parallel_for(
      context.threads, C / tile_columns, 1, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t c = begin * tile_columns; c < end * tile_columns; c += tile_columns)
          for (std::int64_t tap = 0; tap < R * S; ++tap)
            pack_panels(K, tile_columns, op.weight.data<float>() + (R * S - 1 - tap) * C + c,
                        R * S * C, panels.data<float>() + c * R * S * K + tap * K * tile_columns);
      });
  const Windows windows{op.dy.data<float>(),     dy[0], dy[1], dy[2], K, R, S,
                        R - 1 - op.padding.rows, 1,     x[1],  x[2]};
  multiply(context, windows, panels.data<float>(), C, op.dx.data<float>(),
           [](std::int64_t, std::int64_t) {});
}

}  // namespace ringside::cpu
