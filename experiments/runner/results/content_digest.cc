#include "experiments/runner/results/content_digest.h"

#include <algorithm>
#include <span>
#include <vector>

#include "core/base/hash.h"
#include "core/data/regular_file.h"

namespace ringside::runner {

std::string content_digest(const std::filesystem::path& path) {
  constexpr std::int64_t piece = 1 << 20, pieces = 64;
  const RegularFile file(path, "data or weights");
  const auto size = static_cast<std::int64_t>(file.size());
  Hash hash;
  hash.update(std::as_bytes(std::span(&size, 1)));
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(piece, size)));
  const auto add = [&](std::int64_t at) {
    const auto part = std::span(bytes).first(static_cast<std::size_t>(std::min(piece, size - at)));
    file.read(static_cast<std::size_t>(at), part);
    hash.update(part);
  };
  if (size <= whole_file_bytes)
    for (std::int64_t at = 0; at < size; at += piece) add(at);
  else
    for (std::int64_t i = 0; i < pieces; ++i) add((size - piece) * i / (pieces - 1));
  return hash.digest();
}

}  // namespace ringside::runner
