// CIFAR-10 and CIFAR-100 in their binary format.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/data/dataset.h"
#include "core/data/file_list.h"
#include "core/data/regular_file.h"

namespace ringside {

enum class Cifar : std::uint8_t { ten, hundred };

/// `paths` are files, which are all for training, or a folder. The folder holds data_batch_1.bin to
/// data_batch_5.bin and, held out, test_batch.bin, or for CIFAR-100 train.bin and test.bin; the
/// file that is held out may be missing. Throws Error that names the missing files or folder.
DataFiles cifar_files(Cifar set, const std::vector<std::string>& paths);

/// Inputs are fp32 [32, 32, 3], with the values (pixel / 255 - mean) / deviation. `mean` and
/// `deviation` are those of the pixel's channel over the 50,000 training images of `set`. Targets
/// are labels (int32 [1]; for CIFAR-100 the fine label). With `augment` an image is shifted by up
/// to 4 pixels each way, with black pixels at the border, and mirrored with probability 1/2 (He et
/// al. 2015, section 4.2). Of the images of all files, the last `holdout` share is held out. Throws
/// Error that names file and offset if a file's size is not a whole number of records.
std::unique_ptr<Dataset> cifar_dataset(Cifar set, const std::vector<std::filesystem::path>& files,
                                       std::int64_t classes, bool augment, Split split,
                                       double holdout);

}  // namespace ringside
