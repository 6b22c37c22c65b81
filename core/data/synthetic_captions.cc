#include "core/data/synthetic_captions.h"

#include <cstring>

#include "core/data/synthetic_images.h"
#include "core/data/synthetic_tokens.h"

namespace ringside {
namespace {

/// Captions draw behind all positions of the random stream that images use.
constexpr std::uint64_t first_caption = std::uint64_t{1} << 62;

class SyntheticCaptions final : public Dataset {
 public:
  SyntheticCaptions(std::int64_t samples, const Shape& image, std::int64_t classes,
                    std::int64_t context, std::int64_t vocabulary, std::uint64_t seed)
      : images_(synthetic_images_dataset(samples, image, classes, seed)),
        tokens_(samples, context, vocabulary, seed),
        pixels_(image.count()),
        context_(context),
        vocabulary_(vocabulary) {}

  std::int64_t size() const override { return images_->size(); }
  Shape input_shape() const override { return {pixels_ + context_}; }
  DType input_dtype() const override { return DType::i32; }
  Shape target_shape() const override { return {context_}; }

  void read(std::int64_t sample, std::span<std::byte> input,
            std::span<std::int32_t> target) const override {
    const std::size_t image_bytes = static_cast<std::size_t>(pixels_) * sizeof(float);
    std::int32_t shown = 0;
    images_->read(sample, input.first(image_bytes), {&shown, 1});
    const auto first = first_caption + static_cast<std::uint64_t>(sample * (context_ + 1));
    std::int32_t token = tokens_.first(first);
    for (std::size_t t = 0; t < target.size(); ++t) {
      std::memcpy(input.data() + image_bytes + t * sizeof token, &token, sizeof token);
      const std::int64_t next = std::int64_t{tokens_.after(token, first + t + 1)} + shown;
      target[t] = token = static_cast<std::int32_t>(next % vocabulary_);
    }
  }

 private:
  std::unique_ptr<Dataset> images_;
  SyntheticTokens tokens_;
  std::int64_t pixels_, context_, vocabulary_;
};

}  // namespace

std::unique_ptr<Dataset> synthetic_captions_dataset(std::int64_t samples, const Shape& image,
                                                    std::int64_t classes, std::int64_t context,
                                                    std::int64_t vocabulary, std::uint64_t seed) {
  return std::make_unique<SyntheticCaptions>(samples, image, classes, context, vocabulary, seed);
}

}  // namespace ringside
