// The files of a checkpoint that is read, wherever they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/checkpoint/checkpoint.h"

namespace ringside {

/// One file's ranges, which are there as long as this object lives.
class OpenedRanges {
 public:
  virtual ~OpenedRanges() = default;
  /// The bytes of a range, by its number in the manifest. Throws Error if the file has changed.
  virtual std::span<const std::byte> range(std::size_t index) const = 0;
};

/// Finds values in the files that a manifest lists; each file is opened when it is first read from.
struct Checkpoint::Opened {
  using Open = std::function<std::unique_ptr<OpenedRanges>(std::size_t file)>;

  struct Place {
    const SavedRange* range;  // in the manifest
    std::size_t file, index;  // of the range, in its file
  };

  /// The manifest outlives this object.
  Opened(const Manifest& manifest, Open open);
  /// The range that has a value; null if there is none.
  const Place* find(const StateKey& key, std::int64_t value) const;

  Open open;
  std::map<StateKey, std::map<std::int64_t, Place>> places;  // by the ranges' first values
  std::mutex mutex;
  std::vector<std::unique_ptr<OpenedRanges>> files;  // null until the first read
};

}  // namespace ringside
