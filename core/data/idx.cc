#include "core/data/idx.h"

#include <array>
#include <cmath>
#include <cstring>

#include "core/data/images.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t label_magic = 0x00000801, image_magic = 0x00000803;
/// Magic number of files of images with channels; their headers have a fourth extent.
constexpr std::uint32_t channel_magic = 0x00000804;
constexpr std::size_t word = 4;

/// The number that four bytes in big-endian order hold at `offset`.
std::uint32_t word_at(const RegularFile& file, std::size_t offset) {
  if (file.size() < offset + word)
    throw bad_file(file.path(), file.size(), "the file ends within its header");
  std::array<std::byte, word> bytes;
  file.read(offset, bytes);
  std::uint32_t value = 0;
  for (const std::byte byte : bytes) value = value << 8 | std::to_integer<std::uint32_t>(byte);
  return value;
}

struct Header {
  std::vector<std::int64_t> extents;
  std::size_t bytes = 0;
};

Header read_header(const RegularFile& file, bool images) {
  refuse_compressed(file);
  const std::uint32_t magic = word_at(file, 0);
  if (images ? magic != image_magic && magic != channel_magic : magic != label_magic)
    throw bad_file(file.path(), 0,
                   fmt::format("magic number {:#010x}, but files of {} have {:#010x}", magic,
                               images ? "images" : "labels", images ? image_magic : label_magic),
                   "in data.path, name the file of images first, then the file of labels");
  Header header;
  header.bytes = word * (1 + (magic & 0xff));
  std::int64_t total = 1;
  for (std::size_t offset = word; offset < header.bytes; offset += word) {
    const std::int64_t extent = word_at(file, offset);
    // No file has more than `most` bytes. The division by `total` below bounds the product of the
    // extents by `most`, so the product does not overflow.
    constexpr std::int64_t most = std::int64_t{1} << 48;
    if (extent < 1)
      throw bad_file(file.path(), offset,
                     "the header gives an extent of 0; every extent must be at least 1");
    if (extent > most / total)
      throw bad_file(file.path(), offset, fmt::format("an extent of {} is too large", extent));
    total *= extent;
    header.extents.push_back(extent);
  }
  const std::size_t promised = header.bytes + static_cast<std::size_t>(total);
  if (file.size() != promised)
    throw bad_file(
        file.path(), std::min(file.size(), promised),
        fmt::format("the file has {} bytes, but its header says {}", file.size(), promised));
  return header;
}

class IdxDataset final : public Dataset {
 public:
  IdxDataset(const fs::path& images, const fs::path& labels, std::int64_t classes, double mean,
             double deviation, Split split, double holdout)
      : images_(images), labels_(labels), classes_(classes), scale_(mean, deviation) {
    const Header pixels = read_header(images_, true), names = read_header(labels_, false);
    if (pixels.extents[0] != names.extents[0])
      throw bad_file(labels, word,
                     fmt::format("{} labels, but {} has {} images", names.extents[0],
                                 images.string(), pixels.extents[0]),
                     "name the two files of one set in data.path");
    image_header_ = pixels.bytes;
    label_header_ = names.bytes;
    label_values_.resize(labels_.size() - label_header_);
    labels_.read(label_header_, label_values_);
    shape_ = {pixels.extents[1], pixels.extents[2],
              pixels.extents.size() > 3 ? pixels.extents[3] : 1};
    samples_ = samples_of(pixels.extents[0], split, holdout);
  }

  std::int64_t size() const override { return samples_.size; }
  Shape input_shape() const override { return shape_; }
  DType input_dtype() const override { return DType::f32; }
  Shape target_shape() const override { return {1}; }

  void read(std::int64_t sample, std::span<std::byte> input,
            std::span<std::int32_t> target) const override {
    const auto image = static_cast<std::size_t>(samples_.begin + sample);
    target[0] = label(image);
    const auto count = static_cast<std::size_t>(shape_.count());
    std::vector<std::byte> pixels(count);
    images_.read(image_header_ + image * count, pixels);
    for (std::size_t i = 0; i < count; ++i) {
      const float value = scale_(pixels[i]);
      std::memcpy(input.data() + i * sizeof value, &value, sizeof value);
    }
  }

  void check() const override {
    for (std::int64_t i = 0; i < samples_.size; ++i)
      label(static_cast<std::size_t>(samples_.begin + i));
  }

 private:
  std::int32_t label(std::size_t image) const {
    const std::byte value = label_values_[image];
    check_label(labels_.path(), label_header_ + image, value, classes_);
    return std::to_integer<std::int32_t>(value);
  }

  RegularFile images_, labels_;
  std::vector<std::byte> label_values_;
  std::int64_t classes_;
  PixelScale scale_;
  std::size_t image_header_ = 0, label_header_ = 0;
  Shape shape_;
  SampleRange samples_;
};

/// Returns the paths of the images and labels of one of MNIST's two sets (train or t10k) if both
/// files exist, else an empty list.
std::vector<fs::path> pair_in(const fs::path& folder, const std::string& set) {
  for (const char* dot : {"-", "."}) {
    const fs::path images = folder / (set + "-images" + dot + "idx3-ubyte");
    const fs::path labels = folder / (set + "-labels" + dot + "idx1-ubyte");
    if (fs::exists(images) && fs::exists(labels)) return {images, labels};
    if (fs::exists(images.string() + ".gz") && fs::exists(labels.string() + ".gz"))
      throw Error("data.path: {} holds compressed files; unpack them: gunzip -k {}/*.gz",
                  folder.string(), folder.string());
  }
  return {};
}

}  // namespace

DataFiles idx_files(const std::vector<std::string>& paths) {
  if (paths.size() == 1 && is_folder(paths[0])) {
    const fs::path folder(paths[0]);
    DataFiles files{pair_in(folder, "train"), pair_in(folder, "t10k")};
    if (files.training.empty()) files.training.swap(files.held_out);
    if (files.training.empty())
      throw Error(
          "data.path: {} does not hold both train-images-idx3-ubyte and train-labels-idx1-ubyte, "
          "nor both t10k-... files; name the file of images and the file of labels in data.path",
          paths[0]);
    return files;
  }
  if (paths.size() != 2 && paths.size() != 4)
    throw Error(
        "data.path names {} files; for data in IDX format it must name one folder, 2 files "
        "(images, labels) or 4 files (images, labels, held-out images, held-out labels)",
        paths.size());
  DataFiles files;
  for (std::size_t i = 0; i < paths.size(); ++i)
    (i < 2 ? files.training : files.held_out).emplace_back(paths[i]);
  return files;
}

std::unique_ptr<Dataset> idx_dataset(const fs::path& images, const fs::path& labels,
                                     std::int64_t classes, double mean, double deviation,
                                     Split split, double holdout) {
  if (!(deviation > 0))
    throw Error("data.std = {} is out of range; it has to be above 0", deviation);
  const PixelScale scale(mean, deviation);
  if (!std::isfinite(scale(std::byte{0})) || !std::isfinite(scale(std::byte{255})))
    throw Error(
        "with data.mean = {} and data.std = {} scaled pixels are not finite in fp32; choose other "
        "values",
        mean, deviation);
  return std::make_unique<IdxDataset>(images, labels, classes, mean, deviation, split, holdout);
}

}  // namespace ringside
