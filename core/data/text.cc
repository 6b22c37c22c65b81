#include "core/data/text.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

bool is_text(const fs::path& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  return !bytes.empty() && std::memchr(bytes.data(), 0, bytes.size()) == nullptr;
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
      MappedFile file(path);
      const auto bytes = static_cast<std::int64_t>(file.bytes().size());
      files_.append(std::move(file), bytes, 0);
    }
    const Part part = part_of(files_.items(), split, holdout);
    begin_ = part.begin;
    size_ = part.size - context;
    if (size_ < 1)
      throw Error(
          "data: the {} split of {}{} has {} bytes, a window takes {}; give more text or "
          "change model.context or data.holdout",
          split == Split::training ? "training" : "held-out",
          paths.empty() ? "no file" : paths.front().string(),
          paths.size() > 1 ? fmt::format(" and {} more files", paths.size() - 1) : "", part.size,
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
  /// The bytes of all files from `at` on.
  void copy(std::int64_t at, std::span<std::byte> out) const {
    auto [file, offset, unused] = files_.find(at);
    for (; !out.empty(); ++file, offset = 0) {
      const auto bytes = files_.payload(file).subspan(static_cast<std::size_t>(offset));
      const std::size_t count = std::min(bytes.size(), out.size());
      std::copy_n(bytes.begin(), count, out.begin());
      out = out.subspan(count);
    }
  }

  std::int64_t context_;
  Task task_;
  FileRow files_;  // of bytes
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
        if (MappedFile(path).bytes().empty()) throw Error("data.path: {} is empty", name);
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
