// Dynamic loss scaling (Micikevicius et al. 2018, section 3.2).
#pragma once

#include <cstdint>

namespace ringside {

/// The factor by which fp16 gradients are multiplied so that small gradients do not vanish. The
/// factor is halved when a step's gradients overflow (all ranks skip the step) and doubled after
/// 2,000 steps in a row without overflow. It is a power of two, so it changes no mantissa. Where no
/// gradient is fp16 the factor is always 1. The factor is the same on all ranks, as they skip the
/// same steps.
class LossScale {
 public:
  explicit LossScale(bool fp16) : dynamic_(fp16), value_(fp16 ? 65536.0f : 1) {}

  float value() const { return value_; }
  /// The number of steps skipped so far.
  std::int64_t skipped() const { return skipped_; }
  /// Whether the last step overflowed although the factor was 1: no loss scale helps then.
  bool exhausted() const { return exhausted_; }

  /// What must be kept to go on later.
  struct State {
    float value = 1;
    std::int64_t good = 0, skipped = 0;
  };
  State state() const { return {value_, good_, skipped_}; }
  void restore(const State& state) {
    value_ = state.value;
    good_ = state.good;
    skipped_ = state.skipped;
  }

  void update(bool finite) {
    if (!finite) ++skipped_;
    if (!dynamic_) return;
    exhausted_ = !finite && value_ == 1;
    good_ = finite ? good_ + 1 : 0;
    if (!finite && value_ > 1) value_ /= 2;
    if (good_ < growth_interval || value_ >= largest) return;
    value_ *= 2;
    good_ = 0;
  }

 private:
  static constexpr std::int64_t growth_interval = 2000;
  static constexpr float largest = 0x1p24f;

  bool dynamic_;
  bool exhausted_ = false;
  float value_;
  std::int64_t good_ = 0, skipped_ = 0;
};

}  // namespace ringside
