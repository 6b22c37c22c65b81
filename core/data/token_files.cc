#include "core/data/token_files.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/data/regular_file.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Whether `word` stands in the name between characters that are neither letters nor digits.
bool has_part(const std::string& name, std::string_view word) {
  const std::string apart = "." + name + ".";
  const auto separates = [](char c) {
    return !is_digit(c) && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z');
  };
  for (std::size_t at = apart.find(word); at != std::string::npos; at = apart.find(word, at + 1))
    if (separates(apart[at - 1]) && separates(apart[at + word.size()])) return true;
  return false;
}

constexpr std::size_t most_digits = 9;

/// Files whose names differ in the number before ".bin" alone.
struct Shards {
  std::set<std::int64_t> numbers;
  std::size_t digits = most_digits;  // of the shortest number
  bool padded = false;               // a number begins with 0 and has more digits
};

/// By what stands before the numbers.
std::map<std::string, Shards> shards_of(const std::vector<fs::path>& files) {
  std::map<std::string, Shards> out;
  for (const fs::path& file : files) {
    const std::string stem = file.stem().string();
    const auto first = std::find_if_not(stem.rbegin(), stem.rend(), is_digit).base();
    const std::string number(first, stem.end());
    if (number.empty() || number.size() > most_digits) continue;
    Shards& shards = out[std::string(stem.begin(), first)];
    std::int64_t value = 0;
    std::from_chars(number.data(), number.data() + number.size(), value);
    shards.numbers.insert(value);
    shards.digits = std::min(shards.digits, number.size());
    shards.padded = shards.padded || (number.size() > 1 && number.front() == '0');
  }
  return out;
}

/// Throws Error if a number is missing between others. Numbers count files if they are padded with
/// zeros or begin at 0 or 1: years, for one, do neither.
void check_whole(const fs::path& folder, const std::vector<fs::path>& files) {
  for (const auto& [name, shards] : shards_of(files)) {
    const std::int64_t first = *shards.numbers.begin(), last = *shards.numbers.rbegin();
    const std::int64_t missing =
        last - first + 1 - static_cast<std::int64_t>(shards.numbers.size());
    if (missing == 0 || (!shards.padded && first > 1)) continue;
    std::int64_t gap = first;
    while (shards.numbers.contains(gap)) ++gap;
    throw Error(
        "data.path: {} holds a part of the set: {}{:0{}}.bin{} missing before {}{:0{}}.bin; fetch "
        "what is missing, or name the files to train on",
        folder.string(), name, gap, shards.digits,
        missing == 1 ? " is" : fmt::format(" and {} more are", missing - 1), name, last,
        shards.digits);
  }
}

void add_files_in(DataFiles& files, const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::end(it);
       it.increment(error))
    if (it->path().extension() == ".bin") found.push_back(it->path());
  if (error) throw Error("data.path: {} cannot be read: {}", folder.string(), error.message());
  if (found.empty()) throw Error("data.path: {} holds no token files (*.bin)", folder.string());
  std::sort(found.begin(), found.end());
  check_whole(folder, found);
  for (const fs::path& path : found)
    (has_part(path.filename().string(), "val") ? files.held_out : files.training).push_back(path);
  leave_out_others(files, folder);
}

}  // namespace

DataFiles token_files(const std::vector<std::string>& paths) {
  if (paths.empty()) throw Error("data.path is empty; name token files or their folder");
  DataFiles files;
  for (const std::string& name : paths) {
    if (is_folder(name))
      add_files_in(files, name);
    else
      files.training.emplace_back(name);
  }
  if (files.training.empty()) {
    files.training.swap(files.held_out);
    files.note = "all names have the part val, so none is held out";
  } else if (!files.held_out.empty()) {
    files.note = "names with the part val are held out";
  }
  return files;
}

}  // namespace ringside
