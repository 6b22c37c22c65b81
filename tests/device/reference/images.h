// Operations of layers on images in float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/device/ops.h"
#include "tests/device/reference/values.h"

namespace ringside::reference {

/// Extents of windows over channels-last images: those of a convolution, or of a pool with R = S
/// and K = C.
struct Windows {
  Index B, H, W, C, K, R, S, stride;
  Extent2d padding;
  Index groups = 1;

  Index P() const { return (H + 2 * padding.rows - R) / stride + 1; }
  Index Q() const { return (W + 2 * padding.columns - S) / stride + 1; }
  Index x(Index b, Index h, Index w, Index c) const { return ((b * H + h) * W + w) * C + c; }
  Index y(Index b, Index p, Index q, Index k) const { return ((b * P() + p) * Q() + q) * K + k; }
  Index group_channels() const { return C / groups; }
  /// The first channel that kernel k sees.
  Index first_channel(Index k) const { return k / (K / groups) * group_channels(); }
  /// `c` counts from first_channel(k).
  Index weight(Index k, Index r, Index s, Index c) const {
    return ((k * R + r) * S + s) * group_channels() + c;
  }
  Index x_count() const { return B * H * W * C; }
  Index y_count() const { return B * P() * Q() * K; }
  Index weight_count() const { return K * R * S * group_channels(); }

  /// Calls body(b, p, q, r, s, h, w) for every place of every window, unless the place lies outside
  /// the image.
  template <class Body>
  void for_each_place(Body&& body) const {
    for (Index b = 0; b < B; ++b)
      for (Index p = 0; p < P(); ++p)
        for (Index q = 0; q < Q(); ++q)
          for (Index r = 0; r < R; ++r)
            for (Index s = 0; s < S; ++s) {
              const Index h = p * stride - padding.rows + r, w = q * stride - padding.columns + s;
              if (h >= 0 && h < H && w >= 0 && w < W) body(b, p, q, r, s, h, w);
            }
  }
};

/// The convolution without bias and relu.
inline Values convolution(const Values& x, const Values& weight, const Windows& o) {
  Values y(at(o.y_count()), 0.0);
  o.for_each_place([&](Index b, Index p, Index q, Index r, Index s, Index h, Index w) {
    const Index channels = o.group_channels();
    for (Index k = 0; k < o.K; ++k) {
      const double* from = &x[at(o.x(b, h, w, o.first_channel(k)))];
      const double* by = &weight[at(o.weight(k, r, s, 0))];
      double& sum = y[at(o.y(b, p, q, k))];
      for (Index c = 0; c < channels; ++c) sum += from[c] * by[c];
    }
  });
  return y;
}
struct ConvolutionGradient {
  Values dx, dweight;
};
inline ConvolutionGradient convolution_backward(const Values& dy, const Values& x,
                                                const Values& weight, const Windows& o) {
  ConvolutionGradient out{Values(x.size(), 0.0), Values(weight.size(), 0.0)};
  o.for_each_place([&](Index b, Index p, Index q, Index r, Index s, Index h, Index w) {
    const Index channels = o.group_channels();
    for (Index k = 0; k < o.K; ++k) {
      const double d = dy[at(o.y(b, p, q, k))];
      const std::size_t from = at(o.x(b, h, w, o.first_channel(k))), by = at(o.weight(k, r, s, 0));
      double *dx = &out.dx[from], *dweight = &out.dweight[by];
      for (Index c = 0; c < channels; ++c) {
        dx[c] += d * weight[by + at(c)];
        dweight[c] += d * x[from + at(c)];
      }
    }
  });
  return out;
}

struct ChannelStatistics {
  Values mean, variance;
};
inline ChannelStatistics channel_statistics(const Values& x, Index channels) {
  ChannelStatistics out{Values(at(channels), 0.0), Values(at(channels), 0.0)};
  const double rows = static_cast<double>(x.size()) / static_cast<double>(channels);
  for (std::size_t i = 0; i < x.size(); ++i) out.mean[i % at(channels)] += x[i] / rows;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double apart = x[i] - out.mean[i % at(channels)];
    out.variance[i % at(channels)] += apart * apart / rows;
  }
  return out;
}
/// x, scaled to mean 0 and variance 1 in every channel (epsilon makes the variance a bit smaller).
inline Values normalised(const Values& x, const ChannelStatistics& of, double epsilon) {
  Values out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % of.mean.size();
    out[i] = (x[i] - of.mean[c]) / std::sqrt(of.variance[c] + epsilon);
  }
  return out;
}
/// The gradients of the batch norm's biases, then those of its weights.
inline Values batch_norm_sums(const Values& dz, const Values& x, const ChannelStatistics& of,
                              double epsilon) {
  const std::size_t channels = of.mean.size();
  const Values n = normalised(x, of, epsilon);
  Values out(2 * channels, 0.0);
  for (std::size_t i = 0; i < dz.size(); ++i) {
    out[i % channels] += dz[i];
    out[channels + i % channels] += dz[i] * n[i];
  }
  return out;
}
inline Values batch_norm_backward(const Values& dz, const Values& x, const ChannelStatistics& of,
                                  const Values& weight, const Values& sums, double rows,
                                  double epsilon) {
  const std::size_t channels = of.mean.size();
  const Values n = normalised(x, of, epsilon);
  Values dx(dz.size());
  for (std::size_t i = 0; i < dz.size(); ++i) {
    const std::size_t c = i % channels;
    dx[i] = weight[c] / std::sqrt(of.variance[c] + epsilon) *
            (dz[i] - sums[c] / rows - n[i] * sums[channels + c] / rows);
  }
  return dx;
}

/// The means of windows; positions outside the image count as zeros.
inline Values window_means(const Values& x, const Windows& o) {
  Values y(at(o.y_count()), 0.0);
  o.for_each_place([&](Index b, Index p, Index q, Index, Index, Index h, Index w) {
    for (Index c = 0; c < o.C; ++c)
      y[at(o.y(b, p, q, c))] += x[at(o.x(b, h, w, c))] / static_cast<double>(o.R * o.S);
  });
  return y;
}
inline Values window_means_backward(const Values& dy, const Windows& o) {
  Values dx(at(o.x_count()), 0.0);
  o.for_each_place([&](Index b, Index p, Index q, Index, Index, Index h, Index w) {
    for (Index c = 0; c < o.C; ++c)
      dx[at(o.x(b, h, w, c))] += dy[at(o.y(b, p, q, c))] / static_cast<double>(o.R * o.S);
  });
  return dx;
}

struct MaxPool {
  Values y;
  std::vector<std::uint8_t> where;
};
inline MaxPool max_pool(const Values& x, const Windows& o) {
  MaxPool out{Values(at(o.y_count()), -std::numeric_limits<double>::infinity()),
              std::vector<std::uint8_t>(at(o.y_count()), 255)};
  o.for_each_place([&](Index b, Index p, Index q, Index r, Index s, Index h, Index w) {
    for (Index c = 0; c < o.C; ++c) {
      const std::size_t to = at(o.y(b, p, q, c));
      if (out.where[to] != 255 && !(x[at(o.x(b, h, w, c))] > out.y[to])) continue;
      out.y[to] = x[at(o.x(b, h, w, c))];
      out.where[to] = static_cast<std::uint8_t>(r * o.S + s);
    }
  });
  return out;
}
inline Values max_pool_backward(const Values& dy, const std::vector<std::uint8_t>& where,
                                const Windows& o) {
  Values dx(at(o.x_count()), 0.0);
  o.for_each_place([&](Index b, Index p, Index q, Index r, Index s, Index h, Index w) {
    for (Index c = 0; c < o.C; ++c)
      if (where[at(o.y(b, p, q, c))] == r * o.S + s)
        dx[at(o.x(b, h, w, c))] += dy[at(o.y(b, p, q, c))];
  });
  return dx;
}

}  // namespace ringside::reference
