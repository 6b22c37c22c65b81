#include "core/data/synthetic_pairs.h"

#include <cstring>

#include "core/base/error.h"
#include "core/data/synthetic_tokens.h"

namespace ringside {
namespace {

class SyntheticPairs final : public Dataset {
 public:
  SyntheticPairs(std::int64_t samples, std::int64_t context, std::int64_t target_context,
                 std::int64_t vocabulary, std::uint64_t seed)
      : tokens_(samples, context, vocabulary, seed),
        size_(samples),
        context_(context),
        target_context_(target_context) {
    if (target_context < 1)
      throw Error("model.target_context = {} is too small; it has to be 1 or more", target_context);
  }

  std::int64_t size() const override { return size_; }
  Shape input_shape() const override { return {context_ + target_context_}; }
  DType input_dtype() const override { return DType::i32; }
  Shape target_shape() const override { return {target_context_}; }

  void read(std::int64_t sample, std::span<std::byte> input,
            std::span<std::int32_t> target) const override {
    const auto context = static_cast<std::size_t>(context_);
    const auto first = static_cast<std::uint64_t>(sample * context_);
    const auto put = [&](std::size_t at, std::int32_t token) {
      std::memcpy(input.data() + at * sizeof token, &token, sizeof token);
    };
    std::int32_t token = 0;
    for (std::size_t s = 0; s < context; ++s) {
      token = s == 0 ? tokens_.first(first) : tokens_.after(token, first + s);
      put(s, token);
      for (std::size_t t = s; t < target.size(); t += context) target[t] = token;
    }
    for (std::size_t t = 0; t < target.size(); ++t) put(context + t, t == 0 ? 0 : target[t - 1]);
  }

 private:
  SyntheticTokens tokens_;
  std::int64_t size_, context_, target_context_;
};

}  // namespace

std::unique_ptr<Dataset> synthetic_pairs_dataset(std::int64_t samples, std::int64_t context,
                                                 std::int64_t target_context,
                                                 std::int64_t vocabulary, std::uint64_t seed) {
  return std::make_unique<SyntheticPairs>(samples, context, target_context, vocabulary, seed);
}

}  // namespace ringside
