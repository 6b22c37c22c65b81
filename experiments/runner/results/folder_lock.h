// A lock that gives one process a folder.
#pragma once

#include <filesystem>
#include <string_view>

namespace ringside::runner {

/// What a folder is for, in errors.
struct FolderUse {
  std::string_view folder = "results folder", user = "comparison", option = "--results";
};

/// A lock on the folder itself, so it needs no file of its own, and ends with its process even if
/// that is killed. One process at a time has it.
class FolderLock {
 public:
  FolderLock() = default;
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Throws Error if another process has the lock, or if the folder cannot be locked.
  void take(const std::filesystem::path& folder, const FolderUse& use = {});

 private:
  int folder_ = -1;
};

/// Whether a comparison that is running has the lock. Asking takes a shared lock for a moment;
/// take() waits for that. Returns false for a folder that cannot be opened.
bool is_held(const std::filesystem::path& folder);

}  // namespace ringside::runner
