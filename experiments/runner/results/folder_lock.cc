#include "experiments/runner/results/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/base/error.h"

namespace ringside::runner {
namespace {

int open_folder(const std::filesystem::path& folder) {
  return open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

}  // namespace

FolderLock::~FolderLock() {
  if (folder_ >= 0) close(folder_);
}

void FolderLock::take(const std::filesystem::path& folder, const FolderUse& use) {
  folder_ = open_folder(folder);
  constexpr int tries = 1000;
  for (int i = 0; i < tries && folder_ >= 0; ++i) {
    if (flock(folder_, LOCK_EX | LOCK_NB) == 0) return;
    if (errno != EWOULDBLOCK) break;
    // Callers of is_held() share the lock, and release it at once.
    if (flock(folder_, LOCK_SH | LOCK_NB) != 0) break;
    flock(folder_, LOCK_UN);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (errno == EWOULDBLOCK)
    throw Error("{} {} is in use by another {}; wait for its end, or choose another with {}",
                use.folder, folder.string(), use.user, use.option);
  throw Error("{} {} cannot be locked: {}; choose another with {}", use.folder, folder.string(),
              std::strerror(errno), use.option);
}

bool is_held(const std::filesystem::path& folder) {
  const int file = open_folder(folder);
  if (file < 0) return false;
  const bool locked = flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(file);
  return locked;
}

}  // namespace ringside::runner
