#include <algorithm>
#include <cmath>
#include <vector>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"

namespace ringside::cpu {
namespace {

/// Sines and cosines are computed at the first of so many positions. Each later position turns them
/// by one angle more, in fp64. Blocks begin at the same positions in every sample and for any
/// number of threads, so the bits of a sample do not depend on them.
constexpr std::int64_t block = 64;

/// The rotations of all pairs of a head at one position.
class Rotations {
 public:
  explicit Rotations(const Rotary& op) : rotations_(static_cast<std::size_t>(op.x.shape()[3] / 2)) {
    for (std::size_t i = 0; i < rotations_.size(); ++i) {
      Rotation& rotation = rotations_[i];
      const double sign = op.inverse ? -1 : 1;
      rotation.frequency = sign * rotary_frequency(op, static_cast<std::int64_t>(i));
      rotation.step_cosine = std::cos(rotation.frequency);
      rotation.step_sine = std::sin(rotation.frequency);
    }
  }

  void start_at(std::int64_t position) {
    for (Rotation& rotation : rotations_) {
      rotation.cosine = std::cos(static_cast<double>(position) * rotation.frequency);
      rotation.sine = std::sin(static_cast<double>(position) * rotation.frequency);
    }
  }
  void advance() {
    for (Rotation& rotation : rotations_) {
      const double cosine =
          rotation.cosine * rotation.step_cosine - rotation.sine * rotation.step_sine;
      rotation.sine = rotation.sine * rotation.step_cosine + rotation.cosine * rotation.step_sine;
      rotation.cosine = cosine;
    }
  }
  /// Writes the cosines of all pairs to `out`, then their sines.
  void write(float* out) const {
    for (std::size_t i = 0; i < rotations_.size(); ++i) {
      out[i] = static_cast<float>(rotations_[i].cosine);
      out[rotations_.size() + i] = static_cast<float>(rotations_[i].sine);
    }
  }

 private:
  struct Rotation {
    double frequency, step_cosine, step_sine, cosine = 1, sine = 0;
  };
  std::vector<Rotation> rotations_;
};

void turn_head(float* __restrict head, const float* __restrict cosines, std::int64_t half) {
  const float* __restrict sines = cosines + half;
  float* __restrict second = head + half;
#pragma omp simd
  for (std::int64_t i = 0; i < half; ++i) {
    const float a = head[i], b = second[i];
    head[i] = a * cosines[i] - b * sines[i];
    second[i] = b * cosines[i] + a * sines[i];
  }
}

}  // namespace

void rotary(const Context& context, const Rotary& op) {
  const Shape& shape = op.x.shape();
  const std::int64_t positions = shape[1], row = shape[2] * shape[3], depth = shape[3];
  const std::int64_t blocks = (positions + block - 1) / block;
  const Rotations at_zero(op);
  parallel_for(context.threads, shape[0] * blocks, 1,
               [&](std::int64_t begin, std::int64_t end, int) {
                 Rotations rotations = at_zero;
                 std::vector<float> factors(static_cast<std::size_t>(depth));
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t first = i % blocks * block;
                   rotations.start_at(first);
                   float* x = op.x.data<float>() + (i / blocks * positions + first) * row;
                   for (std::int64_t t = first; t < std::min(first + block, positions); ++t) {
                     rotations.write(factors.data());
                     for (std::int64_t head = 0; head < op.heads; ++head)
                       turn_head(x + head * depth, factors.data(), depth / 2);
                     rotations.advance();
                     x += row;
                   }
                 }
               });
}

}  // namespace ringside::cpu
