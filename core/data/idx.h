// Images in IDX files, the format of MNIST.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/data/dataset.h"
#include "core/data/file_list.h"
#include "core/data/regular_file.h"

namespace ringside {

/// Returns files in pairs: images, then labels. Each may be compressed by gzip. `paths` is a folder
/// or a list of files. The folder uses MNIST's names: train-images-idx3-ubyte,
/// train-labels-idx1-ubyte and, held out, t10k-..., each with or without ".gz"; if it holds only
/// one of the two pairs, that pair is for training. A list has two files (images, labels) or four,
/// of which the last two are held out. Throws Error if the folder holds neither pair or one file of
/// a pair alone, or if the list has another length.
DataFiles idx_files(const std::vector<std::string>& paths);

/// Inputs are fp32 [H, W, C], made of uint8 images [H, W] or [H, W, C] as (pixel / 255 - mean) /
/// deviation; `deviation` must be above 0. Targets are labels (int32 [1]). `holdout` is the share
/// of the images that is held out. Throws Error that names file and offset if a magic number, a
/// size or a count is wrong.
std::unique_ptr<Dataset> idx_dataset(const std::filesystem::path& images,
                                     const std::filesystem::path& labels, std::int64_t classes,
                                     double mean, double deviation, Split split, double holdout);

}  // namespace ringside
