#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "core/base/error.h"
#include "core/checkpoint/checkpoint_format.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

/// The names in an open folder, even if it was renamed.
std::vector<std::string> names_in(int folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator entry(fmt::format("/proc/self/fd/{}", folder), error), end;
       !error && entry != end; entry.increment(error))
    out.push_back(entry->path().filename().string());
  if (error) throw Error("a folder of checkpoints cannot be read: {}", error.message());
  return out;
}

mode_t type_of(int folder, const std::string& name) {
  struct stat there {};
  if (fstatat(folder, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) return 0;
  return there.st_mode & S_IFMT;
}

struct FoundCheckpoints {
  std::vector<std::int64_t> whole, unfinished;  // whole ones by their number of steps
};

FoundCheckpoints find_checkpoints(const OpenFolder& folder) {
  FoundCheckpoints out;
  for (const std::string& name : names_in(folder.descriptor())) {
    const auto step = step_of(name);
    if (!step || type_of(folder.descriptor(), name) != S_IFDIR) continue;
    const bool is_whole =
        type_of(folder.descriptor(), fmt::format("{}/{}", name, manifest_name)) == S_IFREG;
    (is_whole ? out.whole : out.unfinished).push_back(*step);
  }
  std::sort(out.whole.begin(), out.whole.end());
  return out;
}

/// Whether a checkpoint's writer makes files of this name: the manifest, ranks' files, and drafts
/// of both, whose names go on behind the file's own.
bool is_ours(const std::string& name) {
  constexpr std::string_view draft = ".part", ending = ".safetensors";
  if (name == manifest_name || is_rank_file_name(name)) return true;
  if (!name.ends_with(draft)) return false;
  const std::size_t end = name.find(ending);
  return name.starts_with(fmt::format("{}.", manifest_name)) ||
         (end != std::string::npos && is_rank_file_name(name.substr(0, end + ending.size())));
}

/// Removes our files in the folder of a checkpoint, the manifest first, and the folder if it is
/// then empty.
void remove_checkpoint(const OpenFolder& folder, std::int64_t step) {
  const std::string name = checkpoint_name(step);
  const auto refuse = [&](const std::string& what) {
    if (errno == ENOENT) return;  // somebody else has removed it
    throw Error("{}: cannot be removed: {}; remove it, or give this user the right to",
                (folder.path() / name / what).string(), std::strerror(errno));
  };
  const int opened =
      openat(folder.descriptor(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (opened < 0) return refuse("");
  const std::unique_ptr<const int, void (*)(const int*)> closer(&opened,
                                                                [](const int* fd) { close(*fd); });
  const auto remove = [&](const std::string& file) {
    if (unlinkat(opened, file.c_str(), 0) != 0) refuse(file);
  };
  remove(std::string(manifest_name));
  fsync(opened);  // on the disk, too, the manifest is gone first
  for (const std::string& file : names_in(opened))
    if (is_ours(file) && type_of(opened, file) != S_IFDIR) remove(file);
  if (unlinkat(folder.descriptor(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOTEMPTY &&
      errno != EEXIST)
    refuse("");
}

}  // namespace

std::map<std::int64_t, fs::path> checkpoints_in(const fs::path& folder) {
  std::map<std::int64_t, fs::path> out;
  std::error_code error;
  if (!fs::exists(folder, error)) return out;
  for (const std::int64_t step : find_checkpoints(OpenFolder(folder)).whole)
    out[step] = folder / checkpoint_name(step);
  return out;
}

void remove_old_checkpoints(const OpenFolder& folder, std::int64_t keep) {
  const FoundCheckpoints found = find_checkpoints(folder);
  const auto whole = static_cast<std::int64_t>(found.whole.size());
  for (std::int64_t i = 0; i < whole - std::max<std::int64_t>(keep, 0); ++i)
    remove_checkpoint(folder, found.whole[static_cast<std::size_t>(i)]);
  for (const std::int64_t step : found.unfinished)
    if (whole > 0 && step < found.whole.back()) remove_checkpoint(folder, step);
}

}  // namespace ringside
