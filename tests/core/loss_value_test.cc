// Evaluations of a loss of several terms.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/device/cpu/cpu_device.h"
#include "core/models/bert.h"
#include "core/scheme/scheme.h"

namespace ringside {
namespace {

/// The loss and the accuracy of one term, computed in fp64.
struct Reference {
  double loss = 0, accuracy = 0;  // means over rows
};
Reference reference_of(const std::vector<float>& logits, const std::vector<std::int32_t>& targets,
                       std::size_t first_logit, std::size_t first_row, std::size_t rows,
                       std::size_t classes) {
  Reference out;
  for (std::size_t r = 0; r < rows; ++r) {
    const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(first_logit + r * classes);
    const auto largest = std::max_element(begin, begin + static_cast<std::ptrdiff_t>(classes));
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c)
      sum += std::exp(static_cast<double>(begin[static_cast<std::ptrdiff_t>(c)]));
    const std::int32_t target = targets[first_row + r];
    out.loss += (std::log(sum) - static_cast<double>(begin[target])) / static_cast<double>(rows);
    out.accuracy += (largest - begin == target ? 1.0 : 0.0) / static_cast<double>(rows);
  }
  return out;
}

class TwoTerms : public ::testing::Test {
 protected:
  static constexpr std::int64_t samples = 6;

  TwoTerms() {
    const auto count = [&](std::int64_t LossTerm::*extent) {
      return static_cast<std::size_t>(model_.terms[0].*extent);
    };
    tokens_ = static_cast<std::size_t>(samples) * count(&LossTerm::rows);
    classes_ = count(&LossTerm::classes);
    logits_.resize(static_cast<std::size_t>(samples * model_.logits_per_sample()));
    for (std::size_t i = 0; i < logits_.size(); ++i)
      logits_[i] = static_cast<float>(i * 37 % 101) * 0.05F;
    // Most rows of both terms are predicted right, so the sum of the accuracies is above 1.
    for (std::size_t r = 0; r < tokens_; ++r) targets_.push_back(target(r * classes_, classes_, r));
    for (std::size_t r = 0; r < samples; ++r)
      targets_.push_back(target(tokens_ * classes_ + 2 * r, 2, r));
  }
  /// The class of the largest logit; for every fourth row another class.
  std::int32_t target(std::size_t begin, std::size_t classes, std::size_t row) const {
    const auto first = logits_.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto hit = std::max_element(first, first + static_cast<std::ptrdiff_t>(classes)) - first;
    const auto wrong = (hit + 1) % static_cast<std::ptrdiff_t>(classes);
    return static_cast<std::int32_t>(row % 4 == 3 ? wrong : hit);
  }
  LossValue evaluate(bool with_gradient) {
    const Tensor logits =
        device_->tensor({static_cast<std::int64_t>(logits_.size())}, MemoryKind::activation);
    device_->write(logits, std::as_bytes(std::span(logits_)));
    const Tensor targets =
        device_->tensor({static_cast<std::int64_t>(targets_.size())}, MemoryKind::data, DType::i32);
    device_->write(targets, std::as_bytes(std::span(targets_)));
    return value_of(
        *device_, cross_entropy(*device_, logits, targets, {model_.terms, samples}, with_gradient));
  }

  std::unique_ptr<Device> device_ = make_cpu_device(1);
  Model model_ = make_bert({.kind = "bert",
                            .layers = 1,
                            .heads = 2,
                            .width = 8,
                            .context = 12,
                            .vocabulary = 30,
                            .masked = 3},
                           *device_);
  std::size_t tokens_ = 0, classes_ = 0;  // of the first term
  std::vector<float> logits_;
  std::vector<std::int32_t> targets_;
};

TEST_F(TwoTerms, AccuracyAndPerplexityAreOfTheFirstAlone) {
  ASSERT_EQ(model_.terms.size(), 2u);
  const Reference hidden = reference_of(logits_, targets_, 0, 0, tokens_, classes_);
  const Reference pairs = reference_of(logits_, targets_, tokens_ * classes_, tokens_, samples, 2);
  ASSERT_GT(hidden.accuracy + pairs.accuracy, 1);
  const LossValue value = evaluate(false);
  EXPECT_NEAR(value.accuracy, hidden.accuracy, 1e-6);
  EXPECT_LE(value.accuracy, 1);
  EXPECT_NEAR(value.first_term, hidden.loss, 1e-5);
  EXPECT_NEAR(value.loss, hidden.loss + pairs.loss, 1e-5);
}

TEST_F(TwoTerms, TrainingKnowsTheirSumAlone) {
  const LossValue value = evaluate(true), held_out = evaluate(false);
  EXPECT_EQ(value.loss, held_out.loss);
  EXPECT_EQ(value.accuracy, 0);
}

}  // namespace
}  // namespace ringside
