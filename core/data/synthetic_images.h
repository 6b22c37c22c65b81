// Images made on the spot.
#pragma once

#include <cstdint>
#include <memory>

#include "core/data/dataset.h"

namespace ringside {

/// Images (fp32 [H, W, C], mean 0, standard deviation near 0.7) and their classes (int32 [1]) that
/// cost no memory to speak of, drawn by (seed, sample): half noise, half a wave that is the class's
/// own, whatever the seed, so that there is something to learn. A part of the noise is drawn once
/// and used again at another place, so that a core makes thousands of 224x224x3 a second. Throws
/// Error for extents, classes or samples below 1.
std::unique_ptr<Dataset> synthetic_images_dataset(std::int64_t samples, const Shape& image,
                                                  std::int64_t classes, std::uint64_t seed);

}  // namespace ringside
