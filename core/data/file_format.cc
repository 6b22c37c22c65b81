#include "core/data/file_format.h"

#include <algorithm>
#include <array>

#include "core/base/shell_word.h"

namespace ringside {
namespace {

using namespace std::string_view_literals;

struct Magic {
  FileFormat format;
  std::size_t offset;
  std::string_view bytes;
};
constexpr Magic magics[] = {
    {FileFormat::gzip, 0, "\x1f\x8b\x08"sv},
    {FileFormat::bzip2, 0, "BZh"sv},  // then a digit, and the six bytes at offset 4 below
    {FileFormat::xz, 0,
     "\xfd"
     "7zXZ\0"sv},
    {FileFormat::zstandard, 0, "\x28\xb5\x2f\xfd"sv},
    {FileFormat::zip, 0, "PK\x03\x04"sv},
    {FileFormat::tar, 257, "ustar"sv},
    {FileFormat::pdf, 0, "%PDF-"sv},
    {FileFormat::parquet, 0, "PAR1"sv},
    {FileFormat::utf16, 0, "\xff\xfe"sv},
    {FileFormat::utf16, 0, "\xfe\xff"sv},
    {FileFormat::lfs_pointer, 0, "version https://git-lfs.github.com/spec/"sv},
};
constexpr std::string_view bzip2_block = "1AY&SY";
constexpr std::string_view torch_entry = "/data.pkl";  // the first of such an archive

bool has(std::string_view text, std::size_t offset, std::string_view bytes) {
  return text.size() >= offset && text.substr(offset).starts_with(bytes);
}

/// safetensors begin with the length of a header, whose bytes may be those of any magic number, and
/// with the header, a JSON object.
bool is_safetensors(std::string_view text) { return has(text, 4, "\0\0\0\0{"sv); }

bool is_html(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of("\xef\xbb\xbf \t\r\n"), text.size()));
  if (!text.starts_with('<')) return false;
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return lower.find("<!doctype html") != std::string::npos ||
         lower.find("<html") != std::string::npos;
}

}  // namespace

FileFormat format_of(std::span<const std::byte> beginning) {
  const std::string_view text(reinterpret_cast<const char*>(beginning.data()), beginning.size());
  if (is_safetensors(text)) return FileFormat::other;
  for (const Magic& magic : magics) {
    if (!has(text, magic.offset, magic.bytes)) continue;
    if (magic.format == FileFormat::bzip2 && !has(text, 4, bzip2_block)) continue;
    if (magic.format == FileFormat::zip && text.find(torch_entry) < format_bytes)
      return FileFormat::torch_checkpoint;
    return magic.format;
  }
  return is_html(text.substr(0, format_bytes)) ? FileFormat::html : FileFormat::other;
}

FileFormat format_of(const RegularFile& file) {
  std::array<std::byte, format_bytes> bytes;
  const auto beginning = std::span(bytes).first(std::min(file.size(), bytes.size()));
  file.read(0, beginning);
  return format_of(beginning);
}

std::string_view description(FileFormat format) {
  switch (format) {
    case FileFormat::other:
      return "of no format that is known here";
    case FileFormat::gzip:
      return "compressed by gzip";
    case FileFormat::bzip2:
      return "compressed by bzip2";
    case FileFormat::xz:
      return "compressed by xz";
    case FileFormat::zstandard:
      return "compressed by zstd";
    case FileFormat::zip:
      return "a ZIP archive";
    case FileFormat::torch_checkpoint:
      return "a checkpoint that PyTorch pickled";
    case FileFormat::tar:
      return "a tar archive";
    case FileFormat::pdf:
      return "a PDF document";
    case FileFormat::parquet:
      return "a Parquet table";
    case FileFormat::utf16:
      return "text in UTF-16 or UTF-32";
    case FileFormat::html:
      return "a page of HTML";
    case FileFormat::lfs_pointer:
      return "a pointer of Git LFS, not the file itself";
  }
  return {};
}

std::string remedy(FileFormat format, const std::filesystem::path& path) {
  const std::string file = shell_word(path.string());
  const auto with = [&](std::string_view program, std::string_view ending) {
    if (path.string().ends_with(ending)) return fmt::format("unpack it: {} -dk {}", program, file);
    return fmt::format("unpack it: {} -dc < {} > {}", program, file,
                       shell_word(path.string() + ".unpacked"));
  };
  switch (format) {
    case FileFormat::gzip:
      return with("gzip", ".gz");
    case FileFormat::bzip2:
      return with("bzip2", ".bz2");
    case FileFormat::xz:
      return with("xz", ".xz");
    case FileFormat::zstandard:
      return with("zstd", ".zst");
    case FileFormat::zip:
      return fmt::format("unpack it: unzip {}", file);
    case FileFormat::torch_checkpoint:
      return "write its tensors with safetensors.torch.save_file()";
    case FileFormat::tar:
      return fmt::format("unpack it: tar -xf {}", file);
    case FileFormat::utf16:
      return fmt::format("convert it: iconv -f UTF-16 -t UTF-8 < {} > {}", file,
                         shell_word(path.string() + ".utf8"));
    case FileFormat::html:
      return "a server may have sent it in place of the file; fetch the file again";
    case FileFormat::lfs_pointer:
      return fmt::format("fetch the file itself: git lfs pull --include {}",
                         shell_word(path.filename().string()));
    default:
      return "name a file that was made of it";
  }
}

Error other_format(const RegularFile& file, FileFormat format) {
  return Error("{}: {} is {}; {}", file.setting(), file.path().string(), description(format),
               remedy(format, file.path()));
}

Error other_format_in_gzip(const RegularFile& file, FileFormat format) {
  const bool tar = format == FileFormat::tar;  // tar unpacks both at once
  return Error("{}: {} is {} and holds {}; {}", file.setting(), file.path().string(),
               description(FileFormat::gzip), description(format),
               remedy(tar ? FileFormat::tar : FileFormat::gzip, file.path()));
}

void refuse_other_formats(const RegularFile& file) {
  if (const FileFormat format = format_of(file); format != FileFormat::other)
    throw other_format(file, format);
}

}  // namespace ringside
