#include "core/data/cifar.h"

#include <fmt/ranges.h>

#include <cstring>

#include "core/data/file_content.h"
#include "core/data/file_format.h"
#include "core/data/images.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t side = 32, channels = 3, plane = side * side, pixels = plane * channels;
constexpr std::size_t values = pixels;  // values of a sample

struct RecordFormat {
  std::size_t label;   // where in a record the label is
  std::size_t header;  // bytes of labels before the pixels of a record
  std::array<PixelScale, channels> scales;
};

/// Mean and deviation of each channel over the 50,000 training images.
RecordFormat record_format(Cifar set) {
  if (set == Cifar::ten) return {0, 1, {{{0.4914, 0.2470}, {0.4822, 0.2435}, {0.4465, 0.2616}}}};
  return {1, 2, {{{0.5071, 0.2673}, {0.4865, 0.2564}, {0.4409, 0.2762}}}};
}

class CifarDataset final : public Dataset {
 public:
  CifarDataset(Cifar set, const std::vector<fs::path>& paths, std::int64_t classes, bool augment,
               Split split, double holdout)
      : format_(record_format(set)), classes_(classes), augment_(augment) {
    for (const fs::path& path : paths) {
      RegularFile file(path);
      refuse_other_formats(file);
      const std::size_t bytes = file.size();
      if (bytes == 0 || bytes % record() != 0)
        throw bad_file(
            path, bytes - bytes % record(),
            fmt::format("the file has {} bytes, which is not a multiple of the record size {}",
                        bytes, record()));
      files_.append(FileContent(std::move(file)), static_cast<std::int64_t>(bytes / record()), 0);
    }
    samples_ = samples_of(files_.items(), split, holdout);
  }

  std::int64_t size() const override { return samples_.size; }
  Shape input_shape() const override { return {side, side, channels}; }
  DType input_dtype() const override { return DType::f32; }
  Shape target_shape() const override { return {1}; }

  void read(std::int64_t sample, std::span<std::byte> input,
            std::span<std::int32_t> target) const override {
    const auto place = files_.find(samples_.begin + sample);
    const auto record = record_at(place);
    target[0] = label(place, record[format_.label]);
    const auto image = std::span(record).subspan(format_.header);
    std::array<float, values> out;
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t i = 0; i < plane; ++i)
        out[i * channels + c] = format_.scales[c](image[c * plane + i]);
    std::memcpy(input.data(), out.data(), sizeof out);
  }

  void augment(std::span<std::byte> input, std::uint64_t bits) const override {
    if (!augment_) return;
    constexpr std::uint64_t most = 4, shifts = 2 * most + 1;
    const std::uint64_t down = bits % shifts, right = bits / shifts % shifts;
    const bool mirrored = bits / (shifts * shifts) % 2 == 1;
    std::array<float, values> in, out;
    std::memcpy(in.data(), input.data(), sizeof in);
    for (std::size_t y = 0; y < side; ++y)
      for (std::size_t x = 0; x < side; ++x) {
        // Coordinates in the image with `most` black pixels around it.
        const std::size_t from_y = y + down, from_x = (mirrored ? side - 1 - x : x) + right;
        const bool inside =
            from_y >= most && from_y < side + most && from_x >= most && from_x < side + most;
        for (std::size_t c = 0; c < channels; ++c)
          out[(y * side + x) * channels + c] =
              inside ? in[((from_y - most) * side + from_x - most) * channels + c]
                     : format_.scales[c](std::byte{0});
      }
    std::memcpy(input.data(), out.data(), sizeof out);
  }

  void check() const override {
    std::array<std::byte, 1> value;
    for (std::int64_t i = 0; i < samples_.size; ++i) {
      const auto place = files_.find(samples_.begin + i);
      files_.read(place.file, static_cast<std::size_t>(place.item) * record() + format_.label,
                  value);
      label(place, value[0]);
    }
  }

 private:
  std::size_t record() const { return format_.header + pixels; }
  std::vector<std::byte> record_at(const FileRow::Position& place) const {
    std::vector<std::byte> out(record());
    files_.read(place.file, static_cast<std::size_t>(place.item) * record(), out);
    return out;
  }
  std::int32_t label(const FileRow::Position& place, std::byte value) const {
    check_label(files_.file(place.file).path(),
                static_cast<std::size_t>(place.item) * record() + format_.label, value, classes_);
    return std::to_integer<std::int32_t>(value);
  }

  RecordFormat format_;
  std::int64_t classes_;
  bool augment_;
  FileRow files_;  // of records
  SampleRange samples_;
};

/// The names of a whole set: its files for training, and the one that is held out.
struct SetNames {
  std::vector<std::string> training;
  std::string test;
};
SetNames names_of_set(Cifar set) {
  if (set == Cifar::hundred) return {{"train.bin"}, "test.bin"};
  SetNames names{{}, "test_batch.bin"};
  for (int i = 1; i <= 5; ++i) names.training.push_back(fmt::format("data_batch_{}.bin", i));
  return names;
}

/// Adds the files of a folder, which must be all that the set has for training.
void add_files_in(DataFiles& files, const fs::path& folder, const SetNames& names) {
  std::vector<std::string> missing;
  for (const std::string& name : names.training)
    if (!fs::exists(folder / name)) missing.push_back(name);
  if (missing.size() == names.training.size())
    throw Error(
        "data.path: {} holds no {}; name the folder that the binary version was unpacked to",
        folder.string(), names.training.front());
  if (!missing.empty())
    throw Error(
        "data.path: {} holds a part of the set: {} missing; unpack the whole set there, or name "
        "the files to train on",
        folder.string(),
        fmt::format("{} {}", fmt::join(missing, ", "), missing.size() == 1 ? "is" : "are"));
  for (const std::string& name : names.training) files.training.push_back(folder / name);
  if (fs::exists(folder / names.test)) files.held_out.push_back(folder / names.test);
  files.note = files.held_out.empty() ? fmt::format("there is no {} to hold out", names.test)
                                      : fmt::format("{} is held out", names.test);
  leave_out_others(files, folder);
}

}  // namespace

DataFiles cifar_files(Cifar set, const std::vector<std::string>& paths) {
  if (paths.empty()) throw Error("data.path is empty; name the folder of the set's .bin files");
  DataFiles files;
  for (const std::string& name : paths) {
    if (is_folder(name))
      add_files_in(files, name, names_of_set(set));
    else
      files.training.emplace_back(name);
  }
  return files;
}

std::unique_ptr<Dataset> cifar_dataset(Cifar set, const std::vector<fs::path>& files,
                                       std::int64_t classes, bool augment, Split split,
                                       double holdout) {
  return std::make_unique<CifarDataset>(set, files, classes, augment, split, holdout);
}

}  // namespace ringside
