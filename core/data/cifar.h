// CIFAR-10 and CIFAR-100 in their binary version.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/data/dataset.h"
#include "core/data/files.h"

namespace ringside {

enum class Cifar : std::uint8_t { ten, hundred };

/// `paths` is a folder with data_batch_1.bin to data_batch_5.bin (some of them will do) and
/// test_batch.bin, or for CIFAR-100 train.bin and test.bin; or a list of files. What is named test*
/// is held out. Throws Error that names what is missing.
DataFiles cifar_files(Cifar set, const std::vector<std::string>& paths);

/// fp32 [32, 32, 3], each channel (pixel / 255 - mean) / deviation with the mean and deviation of
/// its training images, and the label (int32 [1]; of CIFAR-100 the fine one). With `augment` images
/// are shifted by up to 4 pixels each way, black coming in, and every other one is mirrored
/// (He et al. 2015, section 4.2). Images are held out by share of all files. Throws Error that
/// names file and offset for a size that is not a number of records.
std::unique_ptr<Dataset> cifar_dataset(Cifar set, const std::vector<std::filesystem::path>& files,
                                       std::int64_t classes, bool augment, Split split,
                                       double holdout);

}  // namespace ringside
