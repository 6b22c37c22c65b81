// Parts that all data sets of images share.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/data/regular_file.h"

namespace ringside {

/// Converts a uint8 pixel value to fp32, as (value / 255 - mean) / deviation. The results are kept
/// in a table. Each channel has an object of its own.
class PixelScale {
 public:
  PixelScale(double mean, double deviation) {
    for (std::size_t v = 0; v < values_.size(); ++v)
      values_[v] = static_cast<float>((static_cast<double>(v) / 255 - mean) / deviation);
  }
  float operator()(std::byte value) const { return values_[std::to_integer<std::size_t>(value)]; }

 private:
  std::array<float, 256> values_{};
};

/// Throws Error that names the file and offset of `label` if it is not below `classes`.
inline void check_label(const std::filesystem::path& path, std::size_t offset, std::byte label,
                        std::int64_t classes) {
  if (std::to_integer<std::int64_t>(label) >= classes)
    throw bad_file(path, offset,
                   fmt::format("label {} is out of range: the classes are 0 to {}",
                               std::to_integer<int>(label), classes - 1),
                   "raise model.classes or mend the file");
}

}  // namespace ringside
