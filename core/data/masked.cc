#include "core/data/masked.h"

#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/num/random.h"

namespace ringside {
namespace {

class MaskedDataset final : public Dataset {
 public:
  MaskedDataset(std::unique_ptr<Dataset> plain, std::int64_t context, std::int64_t vocabulary,
                std::int64_t masked, std::uint64_t seed)
      : plain_(std::move(plain)),
        context_(context),
        words_(vocabulary - special_tokens),
        masked_(masked),
        seed_(seed) {
    const std::int64_t length = pair_length(context, vocabulary);
    if (plain_->input_shape() != Shape{length} || plain_->input_dtype() != DType::i32)
      throw Error(
          "data: a pair of sentences needs samples of {} tokens, but the samples have the shape {}",
          length, plain_->input_shape().text());
    if (masked < 1 || masked > length)
      throw Error(
          "model.masked = {} is out of range; a sample has {} tokens, of which {} are special "
          "and cannot be hidden, so choose 1 to {}",
          masked, context, special_tokens, length);
  }

  std::int64_t size() const override { return plain_->size(); }
  Shape input_shape() const override { return {2 * context_ + masked_}; }
  DType input_dtype() const override { return DType::i32; }
  Shape target_shape() const override { return {masked_ + 1}; }
  std::vector<std::int64_t> target_parts() const override { return {masked_, 1}; }
  void check() const override { plain_->check(); }
  std::size_t memory() const override { return plain_->memory(); }

  void read(std::int64_t sample, std::span<std::byte> input,
            std::span<std::int32_t> target) const override {
    const auto context = static_cast<std::size_t>(context_);
    const auto masked = static_cast<std::size_t>(masked_);
    std::vector<std::int32_t> out(2 * context + masked);
    const auto tokens = std::span(out).first(context), segments = std::span(out).subspan(context);
    const auto positions = std::span(out).last(masked);

    const std::vector<std::int32_t> pair = words_of(sample);
    const std::size_t first = (pair.size() + 1) / 2;
    const auto bits = [&](std::size_t i) {
      return random_bits(seed_, Stream::masking,
                         static_cast<std::uint64_t>(sample) * (2 * context + 2) + i);
    };
    const bool another = bits(2 * context) % 2 == 1;
    const auto size = static_cast<std::uint64_t>(plain_->size());
    const std::vector<std::int32_t> follows =
        another ? words_of(static_cast<std::int64_t>(bits(2 * context + 1) % size)) : pair;

    std::size_t t = 0;
    const auto put = [&](std::int64_t token, int segment) {
      tokens[t] = static_cast<std::int32_t>(token);
      segments[t++] = segment;
    };
    put(words_, 0);
    for (std::size_t i = 0; i < first; ++i) put(pair[i], 0);
    put(words_ + 1, 0);
    for (std::size_t i = first; i < pair.size(); ++i) put(follows[i], 1);
    put(words_ + 1, 1);

    hide(tokens, first + 1, positions, target, bits);
    target[masked] = another ? 1 : 0;
    std::memcpy(input.data(), out.data(), input.size());
  }

 private:
  std::vector<std::int32_t> words_of(std::int64_t sample) const {
    std::vector<std::int32_t> words(static_cast<std::size_t>(plain_->input_shape().count()));
    std::vector<std::int32_t> unused(static_cast<std::size_t>(plain_->target_shape().count()));
    plain_->read(sample, std::as_writable_bytes(std::span(words)), unused);
    return words;
  }

  /// Hides as many words as `positions` has places. Goes through the words and takes each with
  /// probability (words still wanted) / (words left), so that the number is exact and all choices
  /// are equally likely (Knuth, volume 2, algorithm S).
  template <class Bits>
  void hide(std::span<std::int32_t> tokens, std::size_t separator,
            std::span<std::int32_t> positions, std::span<std::int32_t> target,
            const Bits& bits) const {
    std::uint64_t left = tokens.size() - special_tokens;
    std::size_t hidden = 0;
    for (std::size_t t = 1; t + 1 < tokens.size() && hidden < positions.size(); ++t) {
      if (t == separator) continue;
      const std::uint64_t wanted = positions.size() - hidden;
      if (bits(t) % left-- >= wanted) continue;
      positions[hidden] = static_cast<std::int32_t>(t);
      target[hidden++] = tokens[t];
      const std::uint64_t how = bits(tokens.size() + t);
      if (how % 10 < 8)
        tokens[t] = static_cast<std::int32_t>(words_ + 2);
      else if (how % 10 == 8)
        tokens[t] = static_cast<std::int32_t>((how / 10) % static_cast<std::uint64_t>(words_));
    }
  }

  std::unique_ptr<Dataset> plain_;
  std::int64_t context_, words_, masked_;
  std::uint64_t seed_;
};

}  // namespace

std::int64_t pair_length(std::int64_t context, std::int64_t vocabulary) {
  constexpr std::int64_t least = special_tokens + 2;
  if (context < least)
    throw Error("model.context = {} is too small for a pair of sentences; it has to be {} or more",
                context, least);
  if (vocabulary <= special_tokens)
    throw Error(
        "model.vocabulary = {} is too small; it has to be above {}, the number of special tokens",
        vocabulary, special_tokens);
  return context - special_tokens;
}

std::unique_ptr<Dataset> masked_dataset(std::unique_ptr<Dataset> plain, std::int64_t context,
                                        std::int64_t vocabulary, std::int64_t masked,
                                        std::uint64_t seed) {
  return std::make_unique<MaskedDataset>(std::move(plain), context, vocabulary, masked, seed);
}

}  // namespace ringside
