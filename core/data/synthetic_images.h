// Synthetic images, computed when they are read.
#pragma once

#include <cstdint>
#include <memory>

#include "core/data/dataset.h"

namespace ringside {

/// Images (fp32 [H, W, C], mean 0, standard deviation near 0.7) and their classes (int32 [1]). Both
/// are computed from (seed, sample), so the data set takes almost no memory. An image is half noise
/// and half a wave that depends on its class alone, not on the seed, so that there is something to
/// learn. A stretch of noise is drawn once, and every row of an image copies a part of it, so that
/// one core makes thousands of 224x224x3 images a second. Throws Error for extents, classes or
/// samples below 1.
std::unique_ptr<Dataset> synthetic_images_dataset(std::int64_t samples, const Shape& image,
                                                  std::int64_t classes, std::uint64_t seed);

}  // namespace ringside
