#include "core/data/text.h"

#include <algorithm>
#include <cstring>

#include "core/data/file_content.h"
#include "core/data/text_files.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

class TextDataset final : public Dataset {
 public:
  TextDataset(const std::vector<fs::path>& paths, std::int64_t context, Task task, Split split,
              double holdout)
      : context_(context), task_(task) {
    if (context < 1)
      throw Error("model.context = {} is too small; it has to be 1 or more", context);
    for (const fs::path& path : paths) {
      FileContent file = FileContent::unpacked(RegularFile(path));
      const auto bytes = static_cast<std::int64_t>(file.size());
      files_.append(std::move(file), bytes, 0);
    }
    const SampleRange samples = samples_of(files_.items(), split, holdout);
    begin_ = samples.begin;
    size_ = samples.size - context;
    if (size_ < 1)
      throw Error(
          "data: the {} part of {}{} has {} bytes, but one sample needs {} bytes; give more text, "
          "or change model.context or data.holdout",
          split == Split::training ? "training" : "held-out",
          paths.empty() ? "no file" : paths.front().string(),
          paths.size() > 1 ? fmt::format(" and {} more files", paths.size() - 1) : "", samples.size,
          context + 1);
  }

  std::int64_t size() const override { return size_; }
  Shape input_shape() const override { return {context_}; }
  DType input_dtype() const override { return DType::i32; }
  Shape target_shape() const override { return {task_ == Task::every_token ? context_ : 1}; }

  void read(std::int64_t sample, std::span<std::byte> input,
            std::span<std::int32_t> target) const override {
    std::vector<std::byte> window(static_cast<std::size_t>(context_ + 1));
    copy(begin_ + sample, window);
    for (std::size_t t = 0; t + 1 < window.size(); ++t) {
      const auto token = std::to_integer<std::int32_t>(window[t]);
      std::memcpy(input.data() + t * sizeof token, &token, sizeof token);
    }
    for (std::size_t t = 0; t < target.size(); ++t)
      target[t] = std::to_integer<std::int32_t>(window[window.size() - target.size() + t]);
  }

  void check() const override {
    constexpr std::int64_t at_once = 1 << 16;
    std::vector<std::byte> piece;
    for (std::int64_t at = begin_, end = begin_ + size_ + context_; at < end;) {
      const FileRow::Position place = files_.find(at);
      const std::int64_t count = std::min({place.left, end - at, at_once});
      piece.resize(static_cast<std::size_t>(count));
      files_.read(place.file, static_cast<std::size_t>(place.item), piece);
      refuse_nul(files_.file(place.file).name(), static_cast<std::size_t>(place.item), piece);
      at += count;
    }
  }

  std::size_t memory() const override { return files_.memory(); }

 private:
  /// Fills `out` with the bytes from position `at` on; they may lie in several files.
  void copy(std::int64_t at, std::span<std::byte> out) const {
    while (!out.empty()) {
      const FileRow::Position place = files_.find(at);
      const auto count = std::min(static_cast<std::size_t>(place.left), out.size());
      files_.read(place.file, static_cast<std::size_t>(place.item), out.first(count));
      out = out.subspan(count);
      at += static_cast<std::int64_t>(count);
    }
  }

  std::int64_t context_;
  Task task_;
  FileRow files_;  // its items are bytes
  std::int64_t begin_ = 0, size_ = 0;
};

}  // namespace

std::unique_ptr<Dataset> text_dataset(const std::vector<fs::path>& files, std::int64_t context,
                                      Task task, Split split, double holdout) {
  return std::make_unique<TextDataset>(files, context, task, split, holdout);
}

}  // namespace ringside
