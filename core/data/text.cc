#include "core/data/text.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

bool is_text(const fs::path& path) {
  const RegularFile file(path);
  std::vector<std::byte> piece(std::min<std::size_t>(file.size(), 1 << 16));
  for (std::size_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(std::min(piece.size(), file.size() - at));
    file.read(at, piece);
    if (std::memchr(piece.data(), 0, piece.size())) return false;
  }
  return file.size() > 0;
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (auto it = fs::recursive_directory_iterator(folder); it != fs::end(it); ++it) {
    const fs::file_status status = it->symlink_status();  // links are not followed
    if (fs::is_directory(status) && is_left_out(it->path())) it.disable_recursion_pending();
    if (fs::is_regular_file(status) && is_text(it->path())) files.push_back(it->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class TextDataset final : public Dataset {
 public:
  TextDataset(const std::vector<fs::path>& paths, std::int64_t context, Task task, Split split,
              double holdout)
      : context_(context), task_(task) {
    if (context < 1)
      throw Error("model.context = {} is too small; it has to be 1 or more", context);
    for (const fs::path& path : paths) {
      RegularFile file(path);
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

bool is_left_out(const fs::path& folder) {
  const std::string name = folder.filename().string();
  return name.starts_with(".") || name.starts_with("build") || name == "results";
}

std::vector<fs::path> text_files(const std::vector<std::string>& paths) {
  if (paths.empty()) throw Error("data.path is empty; name a text file or folder");
  std::vector<fs::path> files;
  for (const std::string& name : paths) {
    const fs::path path(name);
    try {
      if (!fs::exists(path)) throw Error("data.path: {} does not exist", name);
      if (fs::is_directory(path)) {
        const auto below = files_below(path);
        if (below.empty()) throw Error("data.path: {} holds no text files", name);
        files.insert(files.end(), below.begin(), below.end());
      } else {
        if (!fs::is_regular_file(path))
          throw Error("data.path: {} is neither a file nor a folder", name);
        if (RegularFile(path).size() == 0) throw Error("data.path: {} is empty", name);
        files.push_back(path);
      }
    } catch (const fs::filesystem_error& e) {
      throw Error("data.path: {} cannot be read: {}", name, e.code().message());
    }
  }
  return files;
}

std::unique_ptr<Dataset> text_dataset(const std::vector<fs::path>& files, std::int64_t context,
                                      Task task, Split split, double holdout) {
  return std::make_unique<TextDataset>(files, context, task, split, holdout);
}

}  // namespace ringside
