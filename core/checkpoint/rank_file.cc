#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/checkpoint/checkpoint_format.h"
#include "core/interchange/safetensors.h"

namespace ringside {
namespace {

/// Blocks until the names of a folder's files are on the disk, where the file system can tell.
void sync_names(const OpenFolder& folder, const char* which = ".") {
  const int opened = openat(folder.descriptor(), which, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return;
  const bool failed = fsync(opened) != 0 && errno == EIO;
  close(opened);
  if (failed) throw Error("{}: cannot be written: {}", folder.path().string(), std::strerror(EIO));
}

/// Gives a file its name, or leaves nothing.
void publish(const OpenFolder& folder, WholeFile& file) {
  file.publish();
  try {
    sync_names(folder);
  } catch (const Error&) {
    unlinkat(folder.descriptor(), file.path().filename().c_str(), 0);
    throw;
  }
}

/// Writes a file from its beginning to its end. The bytes go through a small piece of memory, in
/// which they lie as WholeFile wants them for writes past the system's cache of files, and are
/// hashed there while the processor still has them in its own cache.
class OrderedWriter {
 public:
  explicit OrderedWriter(WholeFile& file)
      : file_(file), piece_(static_cast<std::byte*>(std::aligned_alloc(size, size))) {
    if (!piece_) throw std::bad_alloc();
    madvise(piece_.get(), size, MADV_HUGEPAGE);  // the system has to find one page, not 512
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto part = bytes.first(std::min({bytes.size(), size - used_, at_once}));
      std::memcpy(piece_.get() + used_, part.data(), part.size());
      digests_.add({piece_.get() + used_, part.size()});
      used_ += part.size();
      bytes = bytes.subspan(part.size());
      if (used_ == size) flush();
    }
  }

  /// Writes what is left; returns the bytes of the whole file.
  std::size_t finish() {
    flush();
    return end_;
  }
  std::vector<std::string> digests() { return digests_.finish(); }

 private:
  static constexpr std::size_t size = std::size_t{2} << 20, at_once = std::size_t{64} << 10;
  static_assert(size % uncached_block == 0);

  void flush() {
    file_.write({piece_.get(), used_}, end_);
    end_ += std::exchange(used_, 0);
  }

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  WholeFile& file_;
  std::unique_ptr<std::byte, Free> piece_;
  std::size_t used_ = 0, end_ = 0;  // bytes in the piece, and in the file before it
  BlockDigests digests_;
};

[[noreturn]] void refuse(const std::string& path, std::size_t byte, const std::string& what) {
  throw Error("{}: byte {}: {}; copy the file again or use another checkpoint", path, byte, what);
}

}  // namespace

void BlockDigests::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (!hash_) {
      hash_.emplace();
      left_ = digest_block;
    }
    const auto part = bytes.first(std::min(left_, bytes.size()));
    hash_->update(part);
    left_ -= part.size();
    bytes = bytes.subspan(part.size());
    if (left_ > 0) continue;
    digests_.push_back(hash_->digest());
    hash_.reset();
  }
}

std::vector<std::string> BlockDigests::finish() {
  if (hash_) digests_.push_back(hash_->digest());
  hash_.reset();
  return std::move(digests_);
}

namespace {

/// Ranges of one name in their order, so that those which follow each other are written as one.
std::vector<const HostRange*> in_order(const std::vector<HostRange>& ranges) {
  std::vector<const HostRange*> out;
  for (const HostRange& range : ranges)
    if (!range.values.empty()) out.push_back(&range);
  std::ranges::sort(out, [](const HostRange* a, const HostRange* b) {
    return std::tie(a->key, a->begin) < std::tie(b->key, b->begin);
  });
  return out;
}

}  // namespace

CheckpointFile write_rank_file(const OpenFolder& checkpoint, int rank,
                               const std::vector<HostRange>& ranges, RankPart part) {
  CheckpointFile out;
  out.name = rank_file_name(rank, part);
  std::vector<SafetensorsWriter::Tensor> tensors;
  const std::vector<const HostRange*> ordered = in_order(ranges);
  try {
    for (const HostRange* range : ordered) {
      const SavedRange saved{range->key, range->begin,
                             static_cast<std::int64_t>(range->values.size())};
      check_range(saved);
      SavedRange* before = out.ranges.empty() ? nullptr : &out.ranges.back();
      if (before && before->key == saved.key && before->begin + before->count == saved.begin)
        before->count += saved.count;
      else
        out.ranges.push_back(saved);
    }
    check_no_overlaps({out});
    for (const SavedRange& range : out.ranges)
      tensors.push_back({tensor_name(range), "F32", {range.count}, sizeof(float)});
  } catch (const Error& error) {
    throw Error("{}: {}", (checkpoint.path() / out.name).string(), error.what());
  }

  WholeFile file(checkpoint, out.name);
  OrderedWriter writer(file);
  writer.write(SafetensorsWriter::header(tensors, {{"format", "ringside checkpoint"}}));
  for (const HostRange* range : ordered) writer.write(std::as_bytes(std::span(range->values)));
  out.bytes = static_cast<std::int64_t>(writer.finish());
  out.digests = writer.digests();
  publish(checkpoint, file);
  return out;
}

std::string missing_file(const OpenFolder& checkpoint, const Manifest& manifest) {
  // Opened, a folder of a network's file system forgets what it has not had.
  const int opened = openat(checkpoint.descriptor(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened >= 0) close(opened);
  for (const CheckpointFile& file : manifest.files) {
    struct stat there {};
    if (fstatat(checkpoint.descriptor(), file.name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(there.st_mode) || there.st_size != file.bytes)
      return file.name;
  }
  return {};
}

void write_manifest(const OpenFolder& checkpoint, const Manifest& manifest) {
  const std::string path = (checkpoint.path() / manifest_name).string();
  const std::string text = manifest_text(manifest);
  parse_manifest(path, text);  // what is written can be read
  WholeFile file(checkpoint, std::string(manifest_name));
  file.write(std::as_bytes(std::span(text)), 0);
  sync_names(checkpoint);  // the ranks' files come first
  publish(checkpoint, file);
  sync_names(checkpoint, "..");
}

void check_size(const std::string& path, std::size_t bytes, const CheckpointFile& file) {
  const auto expected = static_cast<std::size_t>(file.bytes);
  if (bytes < expected)
    refuse(path, bytes, fmt::format("the file ends here, and had {} bytes", expected));
  if (bytes > expected)
    refuse(path, expected, fmt::format("the file goes on here, to byte {}", bytes));
}

std::vector<std::span<const std::byte>> parse_rank_file(const std::string& path,
                                                        std::span<const std::byte> bytes,
                                                        const CheckpointFile& file) {
  check_size(path, bytes.size(), file);
  for (std::size_t at = 0, i = 0; at < bytes.size(); at += digest_block, ++i) {
    const auto block = bytes.subspan(at, std::min(digest_block, bytes.size() - at));
    Hash hash;
    hash.update(block);
    if (hash.digest() != file.digests.at(i))
      refuse(path, at, fmt::format("the {} bytes from here on have changed", block.size()));
  }

  const ParsedSafetensors parsed = parse_safetensors(path, bytes);
  std::vector<std::span<const std::byte>> out;
  for (const SavedRange& range : file.ranges) {
    const auto found = parsed.tensors.find(tensor_name(range));
    if (found == parsed.tensors.end())
      throw Error("{}: the manifest lists {}, which the file does not have", path,
                  tensor_name(range));
    const StoredTensor& tensor = found->second;
    if (tensor.dtype != "F32" || tensor.extents != std::vector<std::int64_t>{range.count})
      throw Error("{}: {} has shape {} and dtype {}, but its values are {} of F32", path,
                  tensor_name(range), text_of(tensor.extents), tensor.dtype, range.count);
    out.push_back(tensor.bytes);
  }
  if (parsed.tensors.size() != file.ranges.size())
    throw Error("{}: the file has {} ranges, and the manifest lists {}", path,
                parsed.tensors.size(), file.ranges.size());
  return out;
}

}  // namespace ringside
