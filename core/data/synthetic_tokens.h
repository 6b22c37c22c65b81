// The rule by which each synthetic token follows from the one before.
#pragma once

#include <cstdint>

namespace ringside {

/// Seven of eight tokens are, on average, the preceding token plus 1 (0 after the largest token);
/// the others are random, and so is the first token of a sequence. A token depends on the seed, the
/// token before it, and its position in the random stream alone.
class SyntheticTokens {
 public:
  /// For `samples` samples of `context` tokens below `vocabulary`. Throws Error for a size that is
  /// below 1 or too large.
  SyntheticTokens(std::int64_t samples, std::int64_t context, std::int64_t vocabulary,
                  std::uint64_t seed);

  /// Positions up to 2 * samples * context + samples may be used.
  std::int32_t first(std::uint64_t position) const;
  std::int32_t after(std::int32_t token, std::uint64_t position) const;

 private:
  std::int64_t vocabulary_;
  std::uint64_t seed_;
};

}  // namespace ringside
