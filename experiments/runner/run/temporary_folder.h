// A folder for files that are needed for a while.
#pragma once

#include <filesystem>

namespace ringside::runner {

/// A new folder, removed at the end with all that is in it.
class TemporaryFolder {
 public:
  /// Among the system's temporary ones, or in another folder that is there. Throws Error with the
  /// system's cause.
  explicit TemporaryFolder(
      const std::filesystem::path& parent = std::filesystem::temp_directory_path());
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace ringside::runner
