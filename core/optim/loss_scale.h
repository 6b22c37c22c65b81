// Dynamic loss scaling (Micikevicius et al. 2018, section 3.2).
#pragma once

#include <cstdint>

namespace ringside {

/// The factor by which fp16 gradients are multiplied so that small gradients do not vanish. The
/// factor is halved when a step's gradients overflow (all ranks skip the step) and doubled after
/// 2,000 steps in a row without overflow. It is a power of two, so it changes no mantissa. Where no
/// gradient is fp16 the factor is always 1, and steps are skipped only if train.skip_not_finite
/// allows it. The factor is the same on all ranks, as they skip the same steps.
class LossScale {
 public:
  /// `allowed` steps in a row may be skipped although the factor is 1.
  explicit LossScale(bool fp16, std::int64_t allowed = 0)
      : dynamic_(fp16), allowed_(allowed), value_(fp16 ? 65536.0f : 1) {}

  float value() const { return value_; }
  /// The number of steps skipped so far.
  std::int64_t skipped() const { return skipped_; }
  /// Whether more steps in a row than allowed were not finite although the factor was 1: no loss
  /// scale helps then.
  bool exhausted() const { return exhausted_; }

  /// What must be kept to go on later.
  struct State {
    float value = 1;
    std::int64_t good = 0, skipped = 0;
    std::int64_t in_a_row = 0;  // skipped steps while the factor was 1, up to the last one
  };
  State state() const { return {value_, good_, skipped_, in_a_row_}; }
  void restore(const State& state) {
    value_ = state.value;
    good_ = state.good;
    skipped_ = state.skipped;
    in_a_row_ = state.in_a_row;
  }

  void update(bool finite) {
    if (!finite) ++skipped_;
    in_a_row_ = !finite && value_ == 1 ? in_a_row_ + 1 : 0;
    exhausted_ = (dynamic_ || allowed_ > 0) && in_a_row_ > allowed_;
    if (!dynamic_) return;
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
  std::int64_t allowed_;
  float value_;
  std::int64_t good_ = 0, skipped_ = 0, in_a_row_ = 0;
};

}  // namespace ringside
