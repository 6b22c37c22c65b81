#include "core/data/file_list.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "core/base/error.h"

namespace ringside {

namespace fs = std::filesystem;

Fields fields_of(LeftOut& left_out) {
  return {{"why", &left_out.why},
          {"files", &left_out.files},
          {"bytes", &left_out.bytes},
          {"first", &left_out.first}};
}

std::vector<fs::path> all_of(const DataFiles& files) {
  std::vector<fs::path> out = files.training;
  out.insert(out.end(), files.held_out.begin(), files.held_out.end());
  return out;
}

void leave_out(DataFiles& files, const std::string& why, const fs::path& folder,
               const fs::path& entry) {
  auto& list = files.left_out;
  auto same =
      std::find_if(list.begin(), list.end(), [&](const LeftOut& one) { return one.why == why; });
  if (same == list.end())
    same = list.insert(list.end(), {why, 0, 0, entry.lexically_relative(folder).string()});
  ++same->files;
  std::error_code error;
  if (fs::is_regular_file(fs::symlink_status(entry, error)))
    same->bytes += static_cast<std::int64_t>(fs::file_size(entry, error));
}

void leave_out_others(DataFiles& files, const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> others;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::end(it);
       it.increment(error))
    others.push_back(it->path());
  if (error) throw Error("data.path: {} cannot be read: {}", folder.string(), error.message());
  std::sort(others.begin(), others.end());
  for (const fs::path& other : others)
    if (std::find(files.training.begin(), files.training.end(), other) == files.training.end() &&
        std::find(files.held_out.begin(), files.held_out.end(), other) == files.held_out.end())
      leave_out(files, fs::is_directory(other, error) ? "folder" : "name of no file of the set",
                folder, other);
}

std::string text_of(const std::vector<LeftOut>& left_out) {
  std::vector<std::string> reasons;
  for (const LeftOut& one : left_out)
    reasons.push_back(fmt::format("{}: {} ({}{}{})", one.why, one.files,
                                  one.bytes > 0 ? text_of_bytes(one.bytes) + ", " : "",
                                  one.files > 1 ? "first: " : "", one.first));
  return reasons.empty() ? "" : fmt::format("left out: {}", fmt::join(reasons, "; "));
}

std::string text_of_bytes(std::int64_t bytes) {
  constexpr std::string_view units[] = {"kB", "MB", "GB", "TB"};
  if (bytes < 1000) return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s");
  auto value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  for (; value >= 999.95 && unit + 1 < std::size(units); ++unit) value /= 1000;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace ringside
