#include "core/data/synthetic_lengths.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/data/synthetic_tokens.h"
#include "core/num/random.h"

namespace ringside {
namespace {

/// Draws lengths from a log-normal distribution or from a histogram.
class Draw {
 public:
  Draw(Lengths lengths, std::int64_t context, std::uint64_t seed)
      : lengths_(std::move(lengths)), context_(context), seed_(seed) {
    if (!(lengths_.median > 0) || !(lengths_.sigma >= 0))
      throw Error(
          "data.length_median = {} and data.length_sigma = {}: the median has to be above 0, and "
          "sigma 0 or more",
          lengths_.median, lengths_.sigma);
    for (const auto& [length, weight] : lengths_.histogram) {
      if (length < 1 || weight < 0 || weight > most_weight)
        throw Error(
            "data.length_histogram has [{}, {}]; a length has to be 1 or more, and a weight 0 to "
            "{}",
            length, weight, most_weight);
      weights_ += weight;
    }
    if (!lengths_.histogram.empty() && weights_ == 0)
      throw Error("data.length_histogram has no weight above 0; give one of its lengths a weight");
  }

  std::int64_t operator()(std::uint64_t position) const {
    return std::clamp<std::int64_t>(unclipped(position), 1, context_);
  }

 private:
  static constexpr std::int64_t most_weight = std::int64_t{1} << 32;

  std::int64_t unclipped(std::uint64_t position) const {
    if (weights_ > 0) {
      auto left = static_cast<std::int64_t>(random_bits(seed_, Stream::lengths, position) %
                                            static_cast<std::uint64_t>(weights_));
      auto at = lengths_.histogram.begin();
      while (left >= at->second) left -= (at++)->second;
      return at->first;
    }
    const double length =
        lengths_.median *
        std::exp(lengths_.sigma * random_normal(seed_, Stream::lengths, position));
    return std::llround(std::min(length, static_cast<double>(context_)));
  }

  Lengths lengths_;
  std::int64_t context_;
  std::uint64_t seed_;
  std::int64_t weights_ = 0;
};

class SyntheticLengths final : public Dataset {
 public:
  SyntheticLengths(std::int64_t samples, std::int64_t context, std::int64_t vocabulary,
                   const Lengths& lengths, Packing packing, std::uint64_t seed)
      : tokens_(samples, context, vocabulary, seed),
        draw_(lengths, context, seed),
        size_(samples),
        context_(context),
        packing_(packing) {}

  std::int64_t size() const override { return size_; }
  Shape input_shape() const override { return {context_}; }
  DType input_dtype() const override { return DType::i32; }
  Shape target_shape() const override { return {context_}; }

  std::optional<std::int64_t> length(std::int64_t sample) const override {
    if (packing_ == Packing::packed) return {};
    return draw_(static_cast<std::uint64_t>(sample * context_));
  }

  void read(std::int64_t sample, std::span<std::byte> input,
            std::span<std::int32_t> target) const override {
    const std::int64_t real = length(sample).value_or(context_);
    const auto room = static_cast<std::int64_t>(target.size());
    // A sample draws at most `context` lengths, and one token more than each sequence has.
    const auto first = static_cast<std::uint64_t>(sample * context_);
    std::uint64_t at = 2 * first, drawn = first;
    for (std::int64_t begin = 0; begin < real;) {
      const std::int64_t end = std::min(begin + draw_(drawn++), real);
      std::int32_t token = tokens_.first(at++);
      for (std::int64_t t = begin; t < end; ++t) {
        write(input, t, token);
        token = tokens_.after(token, at++);
        target[static_cast<std::size_t>(t)] = token;
      }
      begin = end;
    }
    for (std::int64_t t = real; t < room; ++t) {
      write(input, t, 0);
      target[static_cast<std::size_t>(t)] = no_target;
    }
  }

 private:
  static void write(std::span<std::byte> input, std::int64_t t, std::int32_t token) {
    std::memcpy(input.data() + static_cast<std::size_t>(t) * sizeof token, &token, sizeof token);
  }

  SyntheticTokens tokens_;
  Draw draw_;
  std::int64_t size_, context_;
  Packing packing_;
};

}  // namespace

std::unique_ptr<Dataset> synthetic_lengths_dataset(std::int64_t samples, std::int64_t context,
                                                   std::int64_t vocabulary, const Lengths& lengths,
                                                   Packing packing, std::uint64_t seed) {
  return std::make_unique<SyntheticLengths>(samples, context, vocabulary, lengths, packing, seed);
}

}  // namespace ringside
