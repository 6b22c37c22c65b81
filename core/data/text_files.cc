#include "core/data/text_files.h"

#include <algorithm>
#include <optional>

#include "core/data/file_format.h"
#include "core/data/gzip.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

/// Bytes of a file's content from which its format is told.
constexpr std::size_t beginning_bytes = 1 << 16;

/// An obstacle to reading a file as text.
struct Obstacle {
  FileFormat format = FileFormat::other;  // of the file, or of what it unpacks to
  std::optional<std::size_t> nul{};       // offset of a NUL byte
  bool in_gzip = false;                   // what is said is said of what the file unpacks to
  bool any() const { return format != FileFormat::other || nul; }
};

std::optional<std::size_t> nul_in(std::span<const std::byte> bytes) {
  const auto found = std::find(bytes.begin(), bytes.end(), std::byte{0});
  if (found == bytes.end()) return {};
  return static_cast<std::size_t>(found - bytes.begin());
}

std::vector<std::byte> beginning_of(const RegularFile& file) {
  std::vector<std::byte> bytes(std::min(file.size(), beginning_bytes));
  file.read(0, bytes);
  return bytes;
}

/// A page of HTML is text where its name says that a page is meant.
bool is_page_by_name(const fs::path& path) {
  const fs::path name = path.extension() == ".gz" ? path.stem() : path.filename();
  const std::string ending = name.extension().string();
  return ending == ".html" || ending == ".htm" || ending == ".xhtml";
}

/// Looks at the beginning of the file's content.
Obstacle obstacle_at_beginning(const RegularFile& file) {
  Obstacle out;
  std::vector<std::byte> bytes = beginning_of(file);
  out.in_gzip = format_of(bytes) == FileFormat::gzip;
  if (out.in_gzip) bytes = unpack_beginning(file, beginning_bytes);
  out.format = format_of(bytes);
  if (out.format == FileFormat::html && is_page_by_name(file.path()))
    out.format = FileFormat::other;
  out.nul = nul_in(bytes);
  return out;
}

/// Looks through the whole of a file that is not compressed.
Obstacle obstacle_in(const RegularFile& file) {
  Obstacle out = obstacle_at_beginning(file);
  std::vector<std::byte> piece(beginning_bytes);
  for (std::size_t at = piece.size(); at < file.size() && !out.any() && !out.in_gzip;
       at += piece.size()) {
    piece.resize(std::min(piece.size(), file.size() - at));
    file.read(at, piece);
    if (const auto nul = nul_in(piece)) out.nul = at + *nul;
  }
  return out;
}

Error has_nul(const std::string& name, std::size_t offset) {
  return bad_file(name, offset, "a NUL byte, which text does not have",
                  "name a text file, and convert UTF-16 with iconv -f UTF-16 -t UTF-8");
}

void refuse(const RegularFile& file, const Obstacle& obstacle) {
  if (obstacle.format != FileFormat::other)
    throw obstacle.in_gzip ? other_format_in_gzip(file, obstacle.format)
                           : other_format(file, obstacle.format);
  throw has_nul(file.path().string() + (obstacle.in_gzip ? ", unpacked" : ""), *obstacle.nul);
}

/// The reason why a file of a folder is left out; empty if it is text.
std::string why_left_out(const fs::path& path) {
  const RegularFile file(path);
  if (file.size() == 0) return "empty";
  const Obstacle obstacle = obstacle_in(file);
  if (!obstacle.any()) return {};
  const std::string within = obstacle.in_gzip ? "compressed by gzip: " : "";
  return within + (obstacle.format == FileFormat::other
                       ? "no text (a NUL byte)"
                       : std::string(description(obstacle.format)));
}

void add_files_below(DataFiles& out, const fs::path& folder) {
  std::vector<fs::path> entries;
  for (auto it = fs::recursive_directory_iterator(folder); it != fs::end(it); ++it) {
    const bool is_folder = fs::is_directory(it->symlink_status());
    if (is_folder && is_left_out(it->path())) it.disable_recursion_pending();
    if (!is_folder || is_left_out(it->path())) entries.push_back(it->path());
  }
  std::sort(entries.begin(), entries.end());
  for (const fs::path& path : entries) {
    const fs::file_status status = fs::symlink_status(path);
    std::string why;
    if (fs::is_directory(status))
      why = "folder named .*, build* or results";
    else if (fs::is_symlink(status))
      why = "link";
    else if (!fs::is_regular_file(status))
      why = "no file";
    else
      why = why_left_out(path);
    if (why.empty())
      out.training.push_back(path);
    else
      leave_out(out, why, folder, path);
  }
}

void add_named_file(DataFiles& out, const fs::path& path) {
  const RegularFile file(path);
  if (file.size() == 0) throw Error("data.path: {} is empty", path.string());
  if (const Obstacle obstacle = obstacle_at_beginning(file); obstacle.any()) refuse(file, obstacle);
  out.training.push_back(path);
}

}  // namespace

bool is_left_out(const fs::path& folder) {
  const std::string name = folder.filename().string();
  return name.starts_with(".") || name.starts_with("build") || name == "results";
}

void refuse_nul(const std::string& name, std::size_t offset, std::span<const std::byte> bytes) {
  if (const auto nul = nul_in(bytes)) throw has_nul(name, offset + *nul);
}

DataFiles text_files(const std::vector<std::string>& paths) {
  if (paths.empty()) throw Error("data.path is empty; name a text file or folder");
  DataFiles files;
  for (const std::string& name : paths) {
    try {
      if (!is_folder(name)) {
        add_named_file(files, name);
        continue;
      }
      const std::size_t before = files.training.size();
      add_files_below(files, name);
      if (files.training.size() == before)
        throw Error("data.path: {} holds no text files{}", name,
                    files.left_out.empty() ? "" : "; " + text_of(files.left_out));
    } catch (const fs::filesystem_error& e) {
      throw Error("data.path: {} cannot be read: {}", name, e.code().message());
    }
  }
  return files;
}

}  // namespace ringside
