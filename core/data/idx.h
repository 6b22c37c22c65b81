// Images in IDX files, the format of MNIST.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/data/dataset.h"
#include "core/data/files.h"

namespace ringside {

/// Images and labels in turn. `paths` is a folder with MNIST's names (train-images-idx3-ubyte,
/// train-labels-idx1-ubyte, and t10k-..., which are held out; a folder with one pair trains on
/// that), or two files, images and labels, or four, of which the last two are held out. Throws
/// Error that names what is missing.
DataFiles idx_files(const std::vector<std::string>& paths);

/// fp32 [H, W, C] out of u8 images of [H, W] or [H, W, C]: (pixel / 255 - mean) / deviation; the
/// target is the label (int32 [1]). Images are held out by share. Throws Error that names file and
/// offset where magic numbers, sizes or counts are wrong. `deviation` is above 0.
std::unique_ptr<Dataset> idx_dataset(const std::filesystem::path& images,
                                     const std::filesystem::path& labels, std::int64_t classes,
                                     double mean, double deviation, Split split, double holdout);

}  // namespace ringside
