#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/checkpoint/checkpoint_format.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"

namespace ringside::fuzz {
namespace {

/// What a checkpoint's manifest says makes sense, and is written as it was read.
void check_manifest(const Manifest& manifest) {
  require(manifest.step >= 0 && manifest.parameters >= 0, "numbers are numbers of things");
  for (const CheckpointFile& file : manifest.files) {
    require(is_rank_file_name(file.name), "files lie in the folder");
    std::int64_t values = 0;
    for (const SavedRange& range : file.ranges) {
      require(range.begin >= 0 && range.count > 0 && range.key.replica >= -1, "ranges have values");
      values += range.count;
    }
    require(values <= file.bytes / 4, "a file has room for its values");
  }
  const Manifest again = parse_manifest("again", manifest_text(manifest));
  require(again.files.size() == manifest.files.size(), "no file is lost");
  for (std::size_t i = 0; i < again.files.size(); ++i)
    require(to_json(again.files[i]) == to_json(manifest.files[i]), "files are written as read");
  require(again.run == manifest.run && again.scalars == manifest.scalars, "and so is the rest");
}

void check_file(std::span<const std::byte> bytes, const CheckpointFile& file) {
  const auto ranges = parse_rank_file("file", bytes, file);
  require(ranges.size() == file.ranges.size(), "every range has bytes");
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    require(ranges[i].size() == 4 * static_cast<std::size_t>(file.ranges[i].count),
            "a value has four bytes");
    require(ranges[i].data() >= bytes.data() &&
                ranges[i].data() + ranges[i].size() <= bytes.data() + bytes.size(),
            "ranges lie within the file");
  }
}

}  // namespace

void checkpoint(std::span<const std::byte> bytes) {
  Input input(bytes);
  const auto choices = input.raw<std::uint8_t>();
  const auto asked = input.raw<std::uint16_t>();
  bytes = bytes.subspan(std::min<std::size_t>(3, bytes.size()));
  const std::size_t length = std::min<std::size_t>(asked, bytes.size());
  std::string text(reinterpret_cast<const char*>(bytes.data()), length);
  const auto content = bytes.subspan(length);
  // Digests are not secret: whoever changes a file can give it the right ones.
  if ((choices & 1) != 0) text = with_digests(text);
  try {
    Manifest manifest = parse_manifest("manifest", text);
    check_manifest(manifest);
    if (manifest.files.empty()) return;
    CheckpointFile& file = manifest.files.front();
    if ((choices & 2) != 0) {
      file.bytes = static_cast<std::int64_t>(content.size());
      BlockDigests digests;
      digests.add(content);
      file.digests = digests.finish();
    }
    check_file(content, file);
  } catch (const Error&) {  // refused
  }
}

}  // namespace ringside::fuzz
