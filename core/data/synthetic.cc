#include "core/data/synthetic.h"

#include <cstring>

#include "core/data/synthetic_tokens.h"

namespace ringside {
namespace {

class SyntheticDataset final : public Dataset {
 public:
  SyntheticDataset(std::int64_t samples, std::int64_t context, std::int64_t vocabulary, Task task,
                   std::uint64_t seed)
      : tokens_(samples, context, vocabulary, seed),
        size_(samples),
        context_(context),
        task_(task) {}

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
      token = t == 0 ? tokens_.first(first) : tokens_.after(token, first + t);
      if (t < context) std::memcpy(input.data() + t * sizeof token, &token, sizeof token);
      // The last target is the token after the last input.
      if (t + target.size() > context) target[t + target.size() - context - 1] = token;
    }
  }

 private:
  SyntheticTokens tokens_;
  std::int64_t size_, context_;
  Task task_;
};

}  // namespace

std::unique_ptr<Dataset> synthetic_dataset(std::int64_t samples, std::int64_t context,
                                           std::int64_t vocabulary, Task task, std::uint64_t seed) {
  return std::make_unique<SyntheticDataset>(samples, context, vocabulary, task, seed);
}

}  // namespace ringside
