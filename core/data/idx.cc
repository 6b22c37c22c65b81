#include "core/data/idx.h"

#include <array>
#include <cmath>
#include <cstring>

#include "core/data/file_content.h"
#include "core/data/file_format.h"
#include "core/data/images.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t label_magic = 0x00000801, image_magic = 0x00000803;
/// Magic number of files of images with channels; their headers have a fourth extent.
constexpr std::uint32_t channel_magic = 0x00000804;
constexpr std::size_t word = 4;

/// The number that four bytes in big-endian order hold at `offset`.
std::uint32_t word_at(const FileContent& file, std::size_t offset) {
  if (file.size() < offset + word)
    throw bad_file(file.name(), file.size(), "the file ends within its header");
  std::array<std::byte, word> bytes;
  file.read(offset, bytes);
  std::uint32_t value = 0;
  for (const std::byte byte : bytes) value = value << 8 | std::to_integer<std::uint32_t>(byte);
  return value;
}

bool is_of_images(std::uint32_t magic) { return magic == image_magic || magic == channel_magic; }

/// The type of a file's values by its magic number; empty if that is none of IDX.
std::string_view values_of(std::uint32_t magic) {
  if (magic >> 16 != 0 || (magic & 0xff) == 0) return {};
  switch (magic >> 8) {
    case 0x08:
      return "unsigned bytes";
    case 0x09:
      return "signed bytes";
    case 0x0b:
      return "16-bit integers";
    case 0x0c:
      return "32-bit integers";
    case 0x0d:
      return "32-bit floats";
    case 0x0e:
      return "64-bit floats";
    default:
      return {};
  }
}

/// Makes the Error for a file whose magic number is not that of images, or of labels.
Error wrong_magic(const FileContent& file, std::uint32_t magic, bool images) {
  const std::string what =
      fmt::format("magic number {:#010x}, but files of {} have {:#010x}", magic,
                  images ? "images" : "labels", images ? image_magic : label_magic);
  const std::string_view values = values_of(magic);
  if (images ? magic == label_magic : is_of_images(magic))
    return bad_file(file.name(), 0, what,
                    "in data.path, name the file of images first, then the file of labels");
  if (values.empty())
    return bad_file(file.name(), 0, what, "the file is not IDX: name one that is");
  return bad_file(file.name(), 0,
                  fmt::format("{}: it says {} with {} extent{}", what, values, magic & 0xff,
                              (magic & 0xff) == 1 ? "" : "s"),
                  images ? "write images as unsigned bytes with 3 extents, or 4 with channels"
                         : "write labels as unsigned bytes with 1 extent");
}

struct Header {
  std::vector<std::int64_t> extents;
  std::size_t bytes = 0;
};

Header read_header(const FileContent& file, bool images) {
  const std::uint32_t magic = word_at(file, 0);
  if (images ? !is_of_images(magic) : magic != label_magic) throw wrong_magic(file, magic, images);
  Header header;
  header.bytes = word * (1 + (magic & 0xff));
  std::int64_t total = 1;
  for (std::size_t offset = word; offset < header.bytes; offset += word) {
    const std::int64_t extent = word_at(file, offset);
    // No file has more than `most` bytes. The division by `total` below bounds the product of the
    // extents by `most`, so the product does not overflow.
    constexpr std::int64_t most = std::int64_t{1} << 48;
    if (extent < 1)
      throw bad_file(file.name(), offset,
                     "the header gives an extent of 0; every extent must be at least 1");
    if (extent > most / total)
      throw bad_file(file.name(), offset, fmt::format("an extent of {} is too large", extent));
    total *= extent;
    header.extents.push_back(extent);
  }
  const std::size_t promised = header.bytes + static_cast<std::size_t>(total);
  if (file.size() != promised)
    throw bad_file(
        file.name(), std::min(file.size(), promised),
        fmt::format("the file has {} bytes, but its header says {}", file.size(), promised));
  return header;
}

/// Opens a file that gzip may have compressed.
FileContent opened(const fs::path& path) {
  RegularFile file(path);
  if (const FileFormat format = format_of(file);
      format != FileFormat::other && format != FileFormat::gzip)
    throw other_format(file, format);
  return FileContent::unpacked(std::move(file));
}

class IdxDataset final : public Dataset {
 public:
  IdxDataset(const fs::path& images, const fs::path& labels, std::int64_t classes, double mean,
             double deviation, Split split, double holdout)
      : images_(opened(images)),
        labels_(opened(labels)),
        classes_(classes),
        scale_(mean, deviation) {
    const Header pixels = read_header(images_, true), names = read_header(labels_, false);
    if (pixels.extents[0] != names.extents[0])
      throw bad_file(labels_.name(), word,
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

  std::size_t memory() const override { return images_.memory() + labels_.memory(); }

 private:
  std::int32_t label(std::size_t image) const {
    const std::byte value = label_values_[image];
    check_label(labels_.name(), label_header_ + image, value, classes_);
    return std::to_integer<std::int32_t>(value);
  }

  FileContent images_, labels_;
  std::vector<std::byte> label_values_;
  std::int64_t classes_;
  PixelScale scale_;
  std::size_t image_header_ = 0, label_header_ = 0;
  Shape shape_;
  SampleRange samples_;
};

/// The file of this name in the folder, or the one that gzip made of it; empty if there is neither.
fs::path file_in(const fs::path& folder, const std::string& name) {
  for (const char* ending : {"", ".gz"})
    if (fs::exists(folder / (name + ending))) return folder / (name + ending);
  return {};
}

/// The paths of the images and labels of one of MNIST's two sets (train or t10k); none if the
/// folder has neither. Throws Error if it has one of the two alone.
std::vector<fs::path> pair_in(const fs::path& folder, const std::string& set) {
  std::string alone, missing;
  for (const char* dot : {"-", "."}) {
    const std::string images = set + "-images" + dot + "idx3-ubyte";
    const std::string labels = set + "-labels" + dot + "idx1-ubyte";
    const fs::path image_file = file_in(folder, images), label_file = file_in(folder, labels);
    if (!image_file.empty() && !label_file.empty()) return {image_file, label_file};
    if (image_file.empty() == label_file.empty()) continue;
    alone = image_file.empty() ? label_file.filename() : image_file.filename();
    missing = image_file.empty() ? images : labels;
  }
  if (!alone.empty())
    throw Error("data.path: {} holds {}, but not {}; fetch the missing file, or name files",
                folder.string(), alone, missing);
  return {};
}

DataFiles files_in(const fs::path& folder) {
  DataFiles files{pair_in(folder, "train"), pair_in(folder, "t10k")};
  if (files.training.empty()) {
    files.training.swap(files.held_out);
    files.note = "the t10k files are trained on, as there are no train files";
  } else if (!files.held_out.empty()) {
    files.note = "the t10k files are held out";
  }
  if (files.training.empty())
    throw Error(
        "data.path: {} holds neither train-images-idx3-ubyte and train-labels-idx1-ubyte nor "
        "t10k-... files; name the file of images and the file of labels in data.path",
        folder.string());
  leave_out_others(files, folder);
  return files;
}

}  // namespace

DataFiles idx_files(const std::vector<std::string>& paths) {
  if (paths.size() == 1 && is_folder(paths[0])) return files_in(paths[0]);
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
