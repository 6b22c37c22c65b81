// Softmax cross-entropy on every device against its float64 reference.
#include "tests/device/harness.h"

namespace ringside {
namespace {

using reference::Values;

class LossKernels : public KernelsOnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, LossKernels, ::testing::ValuesIn(layers_under_test()), case_name);

struct LossRows {
  std::int64_t rows, width;
};

TEST_P(LossKernels, CrossEntropyAgreesWithReference) {
  enum Case { loss_only, apart, in_place };
  for (const auto& s :
       {LossRows{1, 1}, LossRows{7, 33}, LossRows{33, 130}, LossRows{130, 7}, LossRows{40, 1001},
        LossRows{9, 256}, LossRows{3, 50257}, LossRows{3, 50304}, LossRows{2, 70000}})
    for (const auto which : {loss_only, apart, in_place}) {
      const Values logits = normal(s.rows * s.width);
      const auto targets = integers(s.rows, s.width);
      const float scale = 1.0f / static_cast<float>(s.rows);
      CrossEntropy op{.logits = upload({s.rows, s.width}, logits),
                      .targets = upload({s.rows}, targets),
                      .scale = scale,
                      .losses = output_f32({s.rows})};
      if (which == apart) op.dlogits = output({s.rows, s.width});
      if (which == in_place) op.dlogits = op.logits;
      kernels().cross_entropy(op);

      const auto expected = reference::cross_entropy(logits, targets, scale);
      SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.width << " case " << which);
      EXPECT_CLOSE(op.losses, expected.losses);
      if (op.dlogits) {
        EXPECT_CLOSE(op.dlogits, expected.dlogits);
      }
    }
}

TEST_P(LossKernels, CrossEntropyCountsHits) {
  // The target's logit is the largest of row 0 and not the largest of row 1. In rows 2 and 3 it is
  // the largest together with others. If there is a gradient, it overwrites the logits.
  const Values logits = held({1, 2, 3, 3, 2, 1, 5, 5, 0, 0, 0, 0});
  const std::vector<std::int32_t> targets = {2, 2, 1, 0};
  for (const bool gradient : {false, true}) {
    CrossEntropy op{.logits = upload({4, 3}, logits),
                    .targets = upload({4}, targets),
                    .losses = output_f32({4}),
                    .hits = output_f32({4})};
    if (gradient) op.dlogits = op.logits;
    kernels().cross_entropy(op);
    EXPECT_EQ(download(op.hits), (std::vector<float>{1, 0, 1, 1}));
  }
  for (const auto& s : {LossRows{130, 3}, LossRows{40, 1001}, LossRows{3, 50257}}) {
    const Values rows = normal(s.rows * s.width);
    const auto any = integers(s.rows, s.width);
    CrossEntropy op{.logits = upload({s.rows, s.width}, rows),
                    .targets = upload({s.rows}, any),
                    .losses = output_f32({s.rows}),
                    .hits = output_f32({s.rows})};
    kernels().cross_entropy(op);
    const auto expected = reference::cross_entropy(rows, any, 1).hits;
    EXPECT_EQ(download(op.hits), std::vector<float>(expected.begin(), expected.end()));
  }
}

TEST_P(LossKernels, CrossEntropyLeavesOutRowsWithoutATarget) {
  for (const auto& s : {LossRows{7, 33}, LossRows{9, 256}, LossRows{3, 70000}})
    for (const bool gradient : {false, true}) {
      const Values logits = normal(s.rows * s.width);
      auto targets = integers(s.rows, s.width);
      targets[1] = targets.back() = -1;
      CrossEntropy op{.logits = upload({s.rows, s.width}, logits),
                      .targets = upload({s.rows}, targets),
                      .scale = 0.5f,
                      .losses = output_f32({s.rows}),
                      .hits = output_f32({s.rows})};
      if (gradient) op.dlogits = op.logits;
      kernels().cross_entropy(op);
      const auto expected = reference::cross_entropy(logits, targets, 0.5);
      SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.width << " gradient " << gradient);
      EXPECT_CLOSE(op.losses, expected.losses);
      EXPECT_EQ(download(op.losses)[1], 0);
      EXPECT_EQ(download(op.hits), std::vector<float>(expected.hits.begin(), expected.hits.end()));
      if (gradient) {
        EXPECT_CLOSE(op.dlogits, expected.dlogits);
      }
    }
}

TEST_P(LossKernels, CrossEntropyOfNaNIsNoHit) {
  CrossEntropy op{.logits = upload({2, 2}, Values{double{NAN}, 1, double{NAN}, 1}),
                  .targets = upload({2}, std::vector<std::int32_t>{0, 0}),
                  .losses = output_f32({2}),
                  .hits = output_f32({2})};
  kernels().cross_entropy(op);
  EXPECT_EQ(download(op.hits), (std::vector<float>{0, 0}));
}

TEST_P(LossKernels, CrossEntropyHoldsWithExtremeLogits) {
  constexpr std::int64_t classes = 20;
  for (const double extreme : {1e4, -1e4}) {
    Values logits = normal(2 * classes);
    logits[3] = logits[classes + 5] = extreme;
    logits = held(logits);
    // The class with the extreme logit, and another class.
    const std::vector<std::int32_t> targets = {3, 4};
    CrossEntropy op{.logits = upload({2, classes}, logits),
                    .targets = upload({2}, targets),
                    .losses = output_f32({2}),
                    .dlogits = output({2, classes})};
    kernels().cross_entropy(op);
    const auto expected = reference::cross_entropy(logits, targets, 1);
    EXPECT_CLOSE(op.losses, expected.losses);
    EXPECT_CLOSE(op.dlogits, expected.dlogits);
  }
}

TEST_P(LossKernels, CrossEntropyPassesOnWhatIsNotFinite) {
  constexpr std::int64_t classes = 37;
  for (const double bad : {double{NAN}, -double{NAN}, double{INFINITY}})
    for (const std::size_t place : {0, 20, 36})
      for (const bool gradient : {true, false}) {
        Values logits = normal(2 * classes);
        logits[place] = bad;
        CrossEntropy op{.logits = upload({2, classes}, logits),
                        .targets = upload({2}, std::vector<std::int32_t>{1, 1}),
                        .losses = output_f32({2})};
        if (gradient) op.dlogits = output({2, classes});
        kernels().cross_entropy(op);
        const auto losses = download(op.losses);
        EXPECT_FALSE(std::isfinite(losses[0])) << bad << " at " << place;
        EXPECT_TRUE(std::isfinite(losses[1]));
      }
}

}  // namespace
}  // namespace ringside
