// Text for tests, made on the spot.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

namespace ringside::testing {

/// A folder of its own under the system's temporary one; removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static std::atomic<int> count{0};
    path_ = std::filesystem::temp_directory_path() /
            ("ringside-test-" + std::to_string(getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

/// Something to learn: words that follow one another with a pattern.
inline std::string some_text(std::size_t bytes) {
  const char* words[] = {"ring ", "tree ", "shard ", "bucket ", "rank ", "gather\n", "reduce "};
  std::string text;
  for (std::size_t i = 0; text.size() < bytes; ++i) text += words[(i * i + i / 7) % 7];
  text.resize(bytes);
  return text;
}

}  // namespace ringside::testing
