// A folder for files that are needed for a while.
#pragma once

#include <filesystem>

namespace ringside::runner {

/// A new folder among the system's temporary ones, removed at the end with all that is in it.
class TemporaryFolder {
 public:
  /// Throws Error with the system's cause.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace ringside::runner
