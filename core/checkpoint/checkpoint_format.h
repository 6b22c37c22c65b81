// The content of a checkpoint's files, apart from where they lie. docs/checkpoints.md describes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/hash.h"
#include "core/checkpoint/checkpoint.h"

namespace ringside {

inline constexpr std::string_view manifest_name = "manifest.json";

/// The number of steps in a name that checkpoint_name() makes; nothing for any other name.
std::optional<std::int64_t> step_of(std::string_view name);
/// Whether rank_file_name() makes this name.
bool is_rank_file_name(std::string_view name);

/// A range's name in its file: "first_moment[120:4096]", or "3/first_moment[0:10]" for replica 3.
std::string tensor_name(const SavedRange& range);
/// A key in messages: "first_moment of replica 3".
std::string text_of(const StateKey& key);

/// Throws Error for a range without values, with negative numbers or with a name that is not made
/// of letters, digits and "_.-/" after a first letter.
void check_range(const SavedRange& range);
/// Throws Error that names both files if two ranges have a value in common. The ranges have passed
/// check_range().
void check_no_overlaps(const std::vector<CheckpointFile>& files);

/// The digests of a file's blocks, while the file grows.
class BlockDigests {
 public:
  void add(std::span<const std::byte> bytes);
  /// The digests of all blocks; nothing may be added then.
  std::vector<std::string> finish();

 private:
  std::optional<Hash> hash_;
  std::size_t left_ = 0;  // bytes that the block of hash_ has room for
  std::vector<std::string> digests_;
};

/// The whole text of manifest.json; parse_manifest() tells whether it makes sense.
std::string manifest_text(const Manifest& manifest);
/// Adds the last line to the text of a manifest: the digests of all that stands before it.
std::string with_digests(std::string text);
/// Reads such a text, of any origin. Throws Error that begins with `path`: for a byte that differs,
/// and for whatever makes no sense. Other versions of the format keep the last line and the member
/// "version".
Manifest parse_manifest(const std::string& path, std::string_view text);

/// Throws Error that names `path` and the byte if a file that should have `file.bytes` has `bytes`.
void check_size(const std::string& path, std::size_t bytes, const CheckpointFile& file);
/// Compares a rank's file with its entry in the manifest. Returns the bytes of each range of
/// `file.ranges`, which lie in `bytes`. Throws Error that begins with `path`, and names the byte
/// where content has changed.
std::vector<std::span<const std::byte>> parse_rank_file(const std::string& path,
                                                        std::span<const std::byte> bytes,
                                                        const CheckpointFile& file);

}  // namespace ringside
