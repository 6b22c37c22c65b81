// 1-bit Adam as its paper writes it, in float64 (make_algorithms.py), and what must not be
// forgotten.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "core/optim/optimizers.h"
#include "peer/schemes/onebit_momentum.h"
#include "tests/schemes/algorithms_fixture.h"

namespace ringside::runner {
namespace {

/// Mistakes that the fixture must notice.
enum class Mistake { none, wrong_sign, forgotten_errors, second_moment_that_moves };

class OnebitAdamAlgorithm : public testing::AlgorithmsTest {
 protected:
  /// The largest distance of parameters, or of the momentum, after any step from the fixture's.
  double largest_distance(Mistake mistake) {
    const auto expected = golden("onebit_adam");
    parameters_ = made(testing::sines(count, 2));
    const OptimizerConfig config{.kind = "adamw",
                                 .lr = 0.01,
                                 .beta1 = 0.9,
                                 .beta2 = 0.95,
                                 .epsilon = 1e-8,
                                 .weight_decay = 0.1};
    const RunSize run{testing::algorithm_steps, testing::algorithm_workers};
    const auto warming = make_optimizer(config, run, *device_, parameters_, {});
    remember();
    double largest = 0;
    for (int step = 0; step < testing::algorithm_steps; ++step) {
      std::vector<Tensor> shares;
      for (int w = 0; w < testing::algorithm_workers; ++w)
        shares.push_back(made(
            testing::sines(count, testing::phase_of(w, step), 1.0F / testing::algorithm_workers)));
      const StepInfo info{.step = step};
      if (step < warm_up) {
        warming->update({0, parameters_, sum_of(shares)}, info);
      } else {
        if (!frozen_) {
          frozen_.emplace(*device_, config, run, ParameterMap{}, warming->state());
          frozen_->freeze(step);
        }
        if (mistake == Mistake::forgotten_errors) remember();
        agree(shares);
        if (mistake == Mistake::wrong_sign) negate(frozen_->momentum());
        if (mistake == Mistake::second_moment_that_moves) move(warming->state(), shares);
        frozen_->update(parameters_, info);
      }
      const auto& after = expected[static_cast<std::size_t>(step)];
      const auto of = [&](const char* name) { return after.at(name).get<std::vector<double>>(); };
      largest = std::max(largest, distance(parameters_, of("parameters")));
      largest = std::max(largest, distance(warming->state()[0].values, of("momentum")));
    }
    return largest;
  }

 private:
  static constexpr std::int64_t count = 58;
  static constexpr int warm_up = 8;

  void remember() {
    workers_.clear();
    for (int w = 0; w < testing::algorithm_workers; ++w)
      workers_.emplace_back(*device_,
                            std::vector<Piece>{{0, {6, 5}, 0}, {30, {4}, 1}, {34, {3, 8}, 2}}, w,
                            testing::algorithm_workers);
  }
  Tensor codes(std::int64_t chunks) const {
    return device_->tensor({chunks * workers_[0].chunk_bytes()}, MemoryKind::communication,
                           DType::u8);
  }
  void agree(const std::vector<Tensor>& shares) {
    const std::int64_t bytes = workers_[0].chunk_bytes();
    std::vector<Tensor> given;
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      given.push_back(codes(testing::algorithm_workers));
      workers_[w].give(frozen_->momentum(), shares[w], 0.9F, given.back());
    }
    const Tensor answers = codes(testing::algorithm_workers);
    for (std::int64_t server = 0; server < testing::algorithm_workers; ++server) {
      const Tensor received = codes(testing::algorithm_workers);
      for (std::int64_t w = 0; w < testing::algorithm_workers; ++w)
        device_->kernels().copy(
            {.in = given[static_cast<std::size_t>(w)].range(server * bytes, bytes),
             .out = received.range(w * bytes, bytes)});
      workers_[static_cast<std::size_t>(server)].combine(received,
                                                         answers.range(server * bytes, bytes));
    }
    workers_[0].take(answers, frozen_->momentum());
  }
  static void negate(const Tensor& values) {
    for (float& value : values.span<float>()) value = -value;
  }
  /// The second moment goes on with the gradients.
  void move(const std::vector<OptimizerState>& state, const std::vector<Tensor>& shares) const {
    const Tensor gradient = sum_of(shares);
    for (std::size_t i = 0; i < count; ++i) {
      const float g = gradient.span<float>()[i];
      float& v = state[1].values.span<float>()[i];
      v = 0.95F * v + 0.05F * g * g;
    }
  }

  Tensor parameters_;
  std::vector<peer::OnebitMomentum> workers_;
  std::optional<peer::FrozenAdam> frozen_;
};

TEST_F(OnebitAdamAlgorithm, IsThatOfThePaper) { EXPECT_LT(largest_distance(Mistake::none), 1e-5); }
TEST_F(OnebitAdamAlgorithm, HasTheRightSign) {
  EXPECT_GT(largest_distance(Mistake::wrong_sign), 1e-3);
}
TEST_F(OnebitAdamAlgorithm, RemembersItsErrors) {
  EXPECT_GT(largest_distance(Mistake::forgotten_errors), 1e-3);
}
TEST_F(OnebitAdamAlgorithm, FreezesTheSecondMoment) {
  EXPECT_GT(largest_distance(Mistake::second_moment_that_moves), 1e-4);
}

}  // namespace
}  // namespace ringside::runner
