#include "core/data/synthetic_tokens.h"

#include <limits>

#include "core/base/error.h"
#include "core/num/random.h"

namespace ringside {
namespace {

constexpr std::uint64_t choices = 8;

std::int32_t any_token(std::uint64_t bits, std::int64_t vocabulary) {
  return static_cast<std::int32_t>((bits / choices) % static_cast<std::uint64_t>(vocabulary));
}

}  // namespace

SyntheticTokens::SyntheticTokens(std::int64_t samples, std::int64_t context,
                                 std::int64_t vocabulary, std::uint64_t seed)
    : vocabulary_(vocabulary), seed_(seed) {
  constexpr std::int64_t tokens = std::numeric_limits<std::int32_t>::max();
  if (context < 1) throw Error("model.context = {} is too small; it has to be 1 or more", context);
  if (vocabulary < 1 || vocabulary > tokens)
    throw Error("model.vocabulary = {} is out of range; it has to be 1 to {}", vocabulary, tokens);
  if (samples < 1 || samples > std::numeric_limits<std::int64_t>::max() / 2 / context)
    throw Error(
        "data: {} synthetic samples of {} tokens cannot be made; choose at least 1 sample, "
        "and fewer than 2^62 tokens in all",
        samples, context);
}

std::int32_t SyntheticTokens::first(std::uint64_t position) const {
  return any_token(random_bits(seed_, Stream::synthetic_data, position), vocabulary_);
}

std::int32_t SyntheticTokens::after(std::int32_t token, std::uint64_t position) const {
  const std::uint64_t bits = random_bits(seed_, Stream::synthetic_data, position);
  if (bits % choices == 0) return any_token(bits, vocabulary_);
  return token + 1 < vocabulary_ ? token + 1 : 0;
}

}  // namespace ringside
