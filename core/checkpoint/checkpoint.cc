#include "core/checkpoint/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/checkpoint/checkpoint_format.h"
#include "core/checkpoint/opened_checkpoint.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

/// The size of a file in a checkpoint, which is read only if it is no link.
std::size_t size_in_checkpoint(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (!fs::exists(status)) throw Error("{}: there is no such file", path.string());
  if (!fs::is_regular_file(status))
    throw Error("{}: this is no file, and links are not followed; copy the file here",
                path.string());
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) throw Error("{}: cannot be read: {}", path.string(), error.message());
  return static_cast<std::size_t>(size);
}

Manifest read_manifest(const fs::path& checkpoint) {
  const fs::path path = checkpoint / manifest_name;
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error)))
    throw Error("{}: this is no whole checkpoint: it has no {}", checkpoint.string(),
                manifest_name);
  size_in_checkpoint(path);
  const MappedFile file(RegularFile(path, "checkpoint"));
  const auto bytes = file.bytes();
  return parse_manifest(path.string(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// A rank's file whose digests have been compared.
class MappedRanges : public OpenedRanges {
 public:
  MappedRanges(const fs::path& checkpoint, const CheckpointFile& file)
      : file_(checked(checkpoint / file.name, file)),
        ranges_(parse_rank_file((checkpoint / file.name).string(), file_.bytes(), file)) {
    file_.check_unchanged();
  }
  std::span<const std::byte> range(std::size_t index) const override {
    file_.check_unchanged();
    return ranges_[index];
  }

 private:
  static RegularFile checked(const fs::path& path, const CheckpointFile& file) {
    check_size(path.string(), size_in_checkpoint(path), file);
    return RegularFile(path, "checkpoint");
  }

  MappedFile file_;
  std::vector<std::span<const std::byte>> ranges_;
};

}  // namespace

Checkpoint::Opened::Opened(const Manifest& manifest, Open open_file)
    : open(std::move(open_file)), files(manifest.files.size()) {
  for (std::size_t f = 0; f < manifest.files.size(); ++f)
    for (std::size_t r = 0; r < manifest.files[f].ranges.size(); ++r) {
      const SavedRange& range = manifest.files[f].ranges[r];
      places[range.key][range.begin] = {&range, f, r};
    }
}

const Checkpoint::Opened::Place* Checkpoint::Opened::find(const StateKey& key,
                                                          std::int64_t value) const {
  const auto of_key = places.find(key);
  if (of_key == places.end()) return nullptr;
  auto next = of_key->second.upper_bound(value);
  if (next == of_key->second.begin()) return nullptr;
  const Place& place = (--next)->second;
  return value - place.range->begin < place.range->count ? &place : nullptr;
}

Checkpoint::Checkpoint(std::string name, Manifest manifest, const Open& open)
    : path_(std::move(name)),
      manifest_(std::make_unique<Manifest>(std::move(manifest))),
      opened_(open(*manifest_)) {}

Checkpoint::Checkpoint(const fs::path& path)
    : Checkpoint(path.string(), read_manifest(path), [&](const Manifest& manifest) {
        return std::make_unique<Opened>(manifest, [&manifest, path](std::size_t file) {
          return std::make_unique<MappedRanges>(path, manifest.files[file]);
        });
      }) {
  if (const auto step = step_of(path_.filename().string()); step && *step != manifest_->step)
    throw Error("{}: its manifest is of step {}; give the folder its own name", path_.string(),
                manifest_->step);
  for (const CheckpointFile& file : manifest_->files)
    check_size((path_ / file.name).string(), size_in_checkpoint(path_ / file.name), file);
}

Checkpoint::~Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;

std::map<StateKey, std::int64_t> Checkpoint::state() const {
  std::map<StateKey, std::int64_t> out;
  for (const CheckpointFile& file : manifest_->files)
    for (const SavedRange& range : file.ranges) out[range.key] += range.count;
  return out;
}

void Checkpoint::read(const StateKey& key, std::int64_t begin, std::span<float> out) const {
  const std::lock_guard lock(opened_->mutex);
  while (!out.empty()) {
    const Opened::Place* place = opened_->find(key, begin);
    if (!place)
      throw Error("{}: no file of the checkpoint has value {} of {}", path_.string(), begin,
                  text_of(key));
    auto& file = opened_->files[place->file];
    if (!file) file = opened_->open(place->file);
    const auto skipped = static_cast<std::size_t>(begin - place->range->begin);
    const std::size_t count =
        std::min(out.size(), static_cast<std::size_t>(place->range->count) - skipped);
    std::memcpy(out.data(), file->range(place->index).data() + skipped * sizeof(float),
                count * sizeof(float));
    begin += static_cast<std::int64_t>(count);
    out = out.subspan(count);
  }
}

void Checkpoint::verify() const {
  for (std::size_t file = 0; file < manifest_->files.size(); ++file) opened_->open(file);
}

}  // namespace ringside
