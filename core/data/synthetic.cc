#include "core/data/synthetic.h"

#include <cstring>
#include <limits>

#include "core/base/error.h"
#include "core/base/random.h"

namespace ringside {
namespace {

class SyntheticDataset final : public Dataset {
 public:
  SyntheticDataset(std::int64_t samples, std::int64_t context, std::int64_t vocabulary, Task task,
                   std::uint64_t seed)
      : size_(samples), context_(context), vocabulary_(vocabulary), task_(task), seed_(seed) {
    constexpr std::int64_t tokens = std::numeric_limits<std::int32_t>::max();
    if (context < 1)
      throw Error("model.context = {} is too small; it has to be 1 or more", context);
    if (vocabulary < 1 || vocabulary > tokens)
      throw Error("model.vocabulary = {} is out of range; it has to be 1 to {}", vocabulary,
                  tokens);
    if (samples < 1 || samples > std::numeric_limits<std::int64_t>::max() / 2 / context)
      throw Error(
          "data: {} synthetic samples of {} tokens cannot be made; choose at least 1 sample, "
          "and fewer than 2^62 tokens in all",
          samples, context);
  }

  std::int64_t size() const override { return size_; }
  Shape input_shape() const override { return {context_}; }
  DType input_dtype() const override { return DType::i32; }
  Shape target_shape() const override { return {task_ == Task::every_token ? context_ : 1}; }

  void read(std::int64_t sample, std::span<std::byte> input,
            std::span<std::int32_t> target) const override {
    const auto context = static_cast<std::size_t>(context_);
    const auto first = static_cast<std::uint64_t>(sample * (context_ + 1));
    std::int32_t token = 0;
    for (std::size_t t = 0; t <= context; ++t) {
      token = next(token, random_bits(seed_, Stream::synthetic_data, first + t), t == 0);
      if (t < context) std::memcpy(input.data() + t * sizeof token, &token, sizeof token);
      // The last target is the token after the last input.
      if (t + target.size() > context) target[t + target.size() - context - 1] = token;
    }
  }

 private:
  std::int32_t next(std::int32_t token, std::uint64_t bits, bool any) const {
    constexpr std::uint64_t choices = 8;
    if (any || bits % choices == 0)
      return static_cast<std::int32_t>((bits / choices) % static_cast<std::uint64_t>(vocabulary_));
    return token + 1 < vocabulary_ ? token + 1 : 0;
  }

  std::int64_t size_, context_, vocabulary_;
  Task task_;
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<Dataset> synthetic_dataset(std::int64_t samples, std::int64_t context,
                                           std::int64_t vocabulary, Task task, std::uint64_t seed) {
  return std::make_unique<SyntheticDataset>(samples, context, vocabulary, task, seed);
}

}  // namespace ringside
