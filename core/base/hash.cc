#include "core/base/hash.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ringside {

struct Hash::State {
  XXH3_state_t xxh3;
};

Hash::Hash() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh3); }
Hash::~Hash() = default;

void Hash::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

std::string Hash::digest() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh3);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace ringside
