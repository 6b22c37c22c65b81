// The transforms of Winograd's minimal filtering F(2x2, 3x3), after Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks" (2016):
//
//     results = A^T ((G weights G^T) * (B^T pixels B)) A
//
// 2x2 results come from 4x4 pixels and 3x3 weights by 16 multiplications (*, element by element)
// instead of 36. The gradient of the weights needs 16 multiplications, too:
//
//     dweights = G^T ((A dresults A^T) * (B^T pixels B)) G
//
// Elements of A and B are 0, 1 and -1, those of G also 1/2 and -1/2. So in fp32 the results are
// about as exact as those of 36 multiplications. Every transform runs over channels, which lie side
// by side.
#pragma once

#include <cstdint>

namespace ringside::cpu {

/// The number of values of a transformed tile for each channel.
constexpr std::int64_t points = 16;

/// The place of a transformed tile in memory: point i of channel c is data[i * point + c /
/// tile_columns * panel + c % tile_columns].
struct Points {
  float* data;
  std::int64_t point, panel;
};

// The operands of the transforms are pointers to the channels of each pixel, or of each weight of a
// filter, row by row. The number of channels is a multiple of `lanes`.

/// B^T pixels B.
void transform_pixels(const float* const (&pixels)[16], std::int64_t channels, Points to);
/// G weights G^T.
void transform_weights(const float* const (&weights)[9], std::int64_t channels, Points to);
/// A dresults A^T.
void transform_result_gradients(const float* const (&dresults)[4], std::int64_t channels,
                                Points to);
/// max(A^T points A + bias, least).
void make_results(Points from, std::int64_t channels, const float* bias, float least,
                  float* const (&results)[4]);
/// G^T points G.
void make_weight_gradients(Points from, std::int64_t channels, float* const (&dweights)[9]);

}  // namespace ringside::cpu
