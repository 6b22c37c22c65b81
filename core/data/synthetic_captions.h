// Synthetic images with captions, computed when they are read.
#pragma once

#include <cstdint>
#include <memory>

#include "core/data/dataset.h"

namespace ringside {

/// Samples for Task::caption_tokens: an image of shape [H, W, C] that shows one of `classes`
/// classes (core/data/synthetic_images.h), then `context` tokens below `vocabulary`. In seven of
/// eight cases, on average, a token is the one before it plus 1 plus the image's class, modulo the
/// vocabulary; the others are random, and so is the first. So a model that does not look at the
/// image cannot predict the second token, and can only guess the class from the text before any
/// other. Targets are the next token at every position (int32 [context]). A sample depends on its
/// number and on these arguments alone, and takes no memory. Throws Error for sizes below 1 or too
/// large.
std::unique_ptr<Dataset> synthetic_captions_dataset(std::int64_t samples, const Shape& image,
                                                    std::int64_t classes, std::int64_t context,
                                                    std::int64_t vocabulary, std::uint64_t seed);

}  // namespace ringside
