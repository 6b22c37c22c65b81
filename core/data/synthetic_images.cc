#include "core/data/synthetic_images.h"

#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "core/base/error.h"
#include "core/num/random.h"

namespace ringside {
namespace {

constexpr std::size_t noise_values = std::size_t{1} << 16;
constexpr double noise_deviation = 0.5;
constexpr std::uint64_t class_seed = 0;
/// The position of sample 0 in the random stream. The positions before it are for noise.
constexpr std::uint64_t first_sample = std::uint64_t{1} << 40;

class SyntheticImages final : public Dataset {
 public:
  SyntheticImages(std::int64_t samples, const Shape& image, std::int64_t classes,
                  std::uint64_t seed)
      : size_(samples), shape_(image), classes_(classes), seed_(seed) {
    if (image.rank() != 3 || image[0] < 1 || image[1] < 1 || image[2] < 1)
      throw Error(
          "data: synthetic images of shape {} cannot be made; three extents above 0 are needed",
          image.text());
    if (samples < 1 || classes < 1)
      throw Error(
          "data: {} synthetic images of {} classes cannot be made; there have to be 1 or more of "
          "each",
          samples, classes);
    // The noise of an image's row begins at any of the first `noise_values` elements and may extend
    // beyond these.
    noise_.resize(noise_values + static_cast<std::size_t>(image[1] * image[2]));
    for (std::size_t i = 0; i < noise_.size(); ++i)
      noise_[i] =
          static_cast<float>(noise_deviation * random_normal(seed, Stream::synthetic_data, i));
  }

  std::int64_t size() const override { return size_; }
  Shape input_shape() const override { return shape_; }
  DType input_dtype() const override { return DType::f32; }
  Shape target_shape() const override { return {1}; }

  void read(std::int64_t sample, std::span<std::byte> input,
            std::span<std::int32_t> target) const override {
    const std::uint64_t bits = random_bits(seed_, Stream::synthetic_data,
                                           first_sample + static_cast<std::uint64_t>(sample));
    target[0] = static_cast<std::int32_t>((bits >> 32) % static_cast<std::uint64_t>(classes_));
    const auto rows = static_cast<std::size_t>(shape_[0]);
    const auto columns = static_cast<std::size_t>(shape_[1]);
    const auto channels = static_cast<std::size_t>(shape_[2]);

    // The wave of a class: its number of periods in each direction, and its phases.
    const auto kind = static_cast<std::size_t>(target[0]);
    const auto start = [&](std::size_t i) {
      return random_uniform(class_seed, Stream::synthetic_data, kind * (channels + 1) + i);
    };
    const auto across = static_cast<double>(1 + kind % 8),
               down = static_cast<double>(1 + kind / 8 % 8);
    std::vector<float> wave(columns * channels), line(columns * channels);
    for (std::size_t x = 0; x < columns; ++x)
      for (std::size_t c = 0; c < channels; ++c)
        wave[x * channels + c] = cosine(across, x, columns, start(c));
    std::size_t noise = bits;
    for (std::size_t y = 0; y < rows; ++y) {
      const float height = cosine(down, y, rows, start(channels));
      noise = (noise + line.size()) % noise_values;
      for (std::size_t i = 0; i < line.size(); ++i) line[i] = height * wave[i] + noise_[noise + i];
      std::memcpy(input.data() + y * line.size() * sizeof(float), line.data(),
                  line.size() * sizeof(float));
    }
  }

 private:
  static float cosine(double times, std::size_t at, std::size_t of, double start) {
    const double turns = times * static_cast<double>(at) / static_cast<double>(of) + start;
    return static_cast<float>(std::cos(2 * std::numbers::pi * turns));
  }

  std::int64_t size_;
  Shape shape_;
  std::int64_t classes_;
  std::uint64_t seed_;
  std::vector<float> noise_;
};

}  // namespace

std::unique_ptr<Dataset> synthetic_images_dataset(std::int64_t samples, const Shape& image,
                                                  std::int64_t classes, std::uint64_t seed) {
  return std::make_unique<SyntheticImages>(samples, image, classes, seed);
}

}  // namespace ringside
