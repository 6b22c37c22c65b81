// Optimizers that need sums over the whole model. Compares them with double precision, and updates
// of the whole model with updates of its parts.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/base/error.h"
#include "core/device/cpu/cpu_device.h"
#include "core/num/exact_sum.h"
#include "core/num/random.h"
#include "core/optim/loss_scale.h"
#include "core/optim/optimizers.h"

namespace ringside {
namespace {

constexpr std::int64_t count = 700;

/// A matrix [0, 400), a bias [400, 437) and a matrix [437, 700).
ParameterMap whole_map() {
  return {{{0, 400, 0, true}, {400, 37, 1, false}, {437, 263, 2, true}}, 3};
}

std::vector<float> values(std::uint64_t seed, double scale = 1) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(scale * random_normal(seed, Stream::synthetic_data, i));
  return out;
}

class Sums : public ::testing::Test {
 protected:
  Tensor upload(const std::vector<float>& from, MemoryKind kind) {
    Tensor out = device_->tensor({static_cast<std::int64_t>(from.size())}, kind);
    device_->write(out, std::as_bytes(std::span(from)));
    return out;
  }
  /// One step of an optimizer whose range is the whole model, so its sums need no other ranks.
  bool step(Optimizer& optimizer, const ParameterRange& all, const StepInfo& info) {
    if (!settle_rounds(optimizer, all, info, [](std::span<double>) {})) return false;
    optimizer.update(all, info);
    return true;
  }
  std::unique_ptr<Device> device_ = make_cpu_device(1);
};

TEST_F(Sums, APartOfThemTellsWhetherGradientsStayAsTheyAre) {
  const auto squares = [](std::initializer_list<double> values) {
    ExactSum sum;
    for (const double value : values) sum.add(value * value);
    std::vector<double> out(ExactSum::digits);
    sum.store(std::span<double, ExactSum::digits>(out));
    return out;
  };
  constexpr double scale = 4;
  const auto all = squares({8, 8, 4});  // of norm 12
  const OptimizerConfig loose{.clip_norm = 3.1}, tight{.clip_norm = 2};
  EXPECT_TRUE(leaves_gradients(loose, all, scale));
  EXPECT_EQ(clip_factor(loose, all, scale), 1);
  EXPECT_FALSE(leaves_gradients(tight, all, scale));
  EXPECT_DOUBLE_EQ(clip_factor(tight, all, scale), 2 / (3 + 1e-6));
  EXPECT_TRUE(leaves_gradients(tight, squares({4}), scale)) << "a part of norm 1";
  EXPECT_FALSE(leaves_gradients(tight, squares({8, 4}), scale)) << "a part of norm 2.2";
  EXPECT_TRUE(leaves_gradients({}, all, scale)) << "nothing is clipped";
  EXPECT_FALSE(leaves_gradients({}, squares({1, HUGE_VAL}), scale));
}

TEST_F(Sums, ClippingScalesTheWholeGradientByItsNorm) {
  const OptimizerConfig config{.kind = "sgd", .lr = 0.5, .momentum = 0, .clip_norm = 2.0};
  const auto start = values(1), gradient = values(2);
  const Tensor p = upload(start, MemoryKind::parameter);
  const auto optimizer = make_optimizer(config, {}, *device_, p, whole_map());
  EXPECT_EQ(optimizer->rounds(), 1);
  ASSERT_TRUE(step(*optimizer, {0, p, upload(gradient, MemoryKind::gradient)}, {}));
  double squares = 0;
  for (const float g : gradient) squares += static_cast<double>(g) * g;
  const double factor = 2.0 / (std::sqrt(squares) + 1e-6);
  ASSERT_LT(factor, 1);
  for (std::size_t i = 0; i < start.size(); ++i)
    ASSERT_NEAR(p.data<float>()[i], start[i] - 0.5 * factor * gradient[i], 1e-6);
}

TEST_F(Sums, ASmallGradientIsLeftAsItIs) {
  OptimizerConfig config{.kind = "sgd", .lr = 0.5};
  const auto start = values(1), gradient = values(2, 1e-4);
  const Tensor clipped = upload(start, MemoryKind::parameter);
  const Tensor plain = upload(start, MemoryKind::parameter);
  const Tensor g = upload(gradient, MemoryKind::gradient);
  step(*make_optimizer(config, {}, *device_, plain, whole_map()), {0, plain, g}, {});
  config.clip_norm = 2;
  step(*make_optimizer(config, {}, *device_, clipped, whole_map()), {0, clipped, g}, {});
  EXPECT_EQ(std::memcmp(plain.data<float>(), clipped.data<float>(), plain.bytes()), 0);
}

TEST_F(Sums, LambMovesEveryParameterAtARateOfItsOwn) {
  OptimizerConfig config{.kind = "lamb", .lr = 0.01, .weight_decay = 0.1};
  config.decay = Decay::matrices;
  const auto start = values(1);
  std::vector<double> p(start.begin(), start.end()), m(count), v(count);
  const Tensor parameters = upload(start, MemoryKind::parameter);
  const auto optimizer = make_optimizer(config, {3}, *device_, parameters, whole_map());
  for (std::int64_t s = 0; s < 3; ++s) {
    const auto gradient = values(static_cast<std::uint64_t>(10 + s));
    ASSERT_TRUE(
        step(*optimizer, {0, parameters, upload(gradient, MemoryKind::gradient)}, {.step = s}));
    for (const auto& stretch : whole_map().stretches) {
      const double decay = stretch.matrix ? 0.1 : 0;
      std::vector<double> u(count);
      double of_p = 0, of_u = 0;
      const auto begin = static_cast<std::size_t>(stretch.begin);
      const auto end = begin + static_cast<std::size_t>(stretch.count);
      for (std::size_t i = begin; i < end; ++i) {
        m[i] = 0.9 * m[i] + 0.1 * gradient[i];
        v[i] = 0.999 * v[i] + 0.001 * gradient[i] * gradient[i];
        const double t = static_cast<double>(s + 1);
        u[i] = m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(v[i] / (1 - std::pow(0.999, t))) + 1e-8) +
               decay * p[i];
        of_p += p[i] * p[i];
        of_u += u[i] * u[i];
      }
      const double ratio = stretch.matrix ? std::sqrt(of_p / of_u) : 1;
      for (std::size_t i = begin; i < end; ++i) p[i] -= 0.01 * ratio * u[i];
    }
  }
  for (std::size_t i = 0; i < p.size(); ++i)
    ASSERT_NEAR(parameters.data<float>()[i], p[i], 1e-5 * (1 + std::abs(p[i]))) << i;
}

TEST_F(Sums, PartsHaveTheBitsOfTheWhole) {
  for (const char* kind : {"lamb", "adamw", "sgd"}) {
    OptimizerConfig config{.kind = kind, .lr = 0.01, .weight_decay = 0.1, .decay = Decay::matrices};
    config.clip_norm = 1;
    const auto start = values(1);
    const Tensor whole = upload(start, MemoryKind::parameter);
    const Tensor parts = upload(start, MemoryKind::parameter);
    const auto of_whole = make_optimizer(config, {4}, *device_, whole, whole_map());
    // The parts are [0, 300) and [300, 700). The first matrix lies in both.
    const std::int64_t begins[] = {0, 300}, counts[] = {300, 400};
    const ParameterMap maps[] = {
        {{{0, 300, 0, true}}, 3},
        {{{0, 100, 0, true}, {100, 37, 1, false}, {137, 263, 2, true}}, 3}};
    std::vector<std::unique_ptr<Optimizer>> of_parts;
    for (int i = 0; i < 2; ++i)
      of_parts.push_back(
          make_optimizer(config, {4}, *device_, parts.range(begins[i], counts[i]), maps[i]));
    for (std::int64_t s = 0; s < 4; ++s) {
      const Tensor g = upload(values(static_cast<std::uint64_t>(20 + s)), MemoryKind::gradient);
      const StepInfo info{.step = s};
      ASSERT_TRUE(step(*of_whole, {0, whole, g}, info));
      const auto range = [&](int i) {
        return ParameterRange{0, parts.range(begins[i], counts[i]), g.range(begins[i], counts[i])};
      };
      for (int round = 0; round < of_parts[0]->rounds(); ++round) {
        auto totals = of_parts[0]->measure(round, range(0), info);
        const auto other = of_parts[1]->measure(round, range(1), info);
        ASSERT_EQ(totals.size(), of_parts[1]->sums(round));
        for (std::size_t i = 0; i < totals.size(); ++i) totals[i] += other[i];
        for (const auto& optimizer : of_parts) ASSERT_TRUE(optimizer->settle(round, totals, info));
      }
      for (int i = 0; i < 2; ++i) of_parts[static_cast<std::size_t>(i)]->update(range(i), info);
    }
    EXPECT_EQ(std::memcmp(whole.data<float>(), parts.data<float>(), whole.bytes()), 0) << kind;
  }
}

TEST_F(Sums, TotalsHaveTheSameBitsHoweverTheModelIsCut) {
  // The gradients differ so much in magnitude that fp64 sums in another order round differently.
  std::vector<float> gradient = values(3), start = values(1);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] *= std::exp2(static_cast<float>(i * 7919 % 200) - 130);
    start[i] *= std::exp2(static_cast<float>(i * 104729 % 100) - 60);
  }
  OptimizerConfig config{.kind = "lamb", .lr = 0.01, .weight_decay = 0.1};
  config.clip_norm = 1;
  const Tensor g = upload(gradient, MemoryKind::gradient);
  const auto totals_of_parts = [&](std::int64_t parts) {
    const Tensor p = upload(start, MemoryKind::parameter);
    const auto optimizer = make_optimizer(config, {}, *device_, p, whole_map());
    std::vector<double> all;
    for (int round = 0; round < optimizer->rounds(); ++round) {
      std::vector<double> totals(optimizer->sums(round));
      for (std::int64_t part = parts; part-- > 0;) {
        const std::int64_t begin = count * part / parts, end = count * (part + 1) / parts;
        const auto own = optimizer->measure(
            round, {begin, p.range(begin, end - begin), g.range(begin, end - begin)}, {});
        for (std::size_t i = 0; i < totals.size(); ++i) totals[i] += own[i];
      }
      EXPECT_TRUE(optimizer->settle(round, totals, {}));
      for (std::size_t i = 0; i < totals.size() / ExactSum::digits; ++i)
        all.push_back(ExactSum::value(totals, i));
    }
    return all;
  };
  const auto whole = totals_of_parts(1);
  ASSERT_EQ(whole.size(), 1U + 2 * whole_map().parameters);
  for (const std::int64_t parts : {2, 3, 7, 100, 350}) EXPECT_EQ(totals_of_parts(parts), whole);
}

TEST_F(Sums, AnOverflowOfFp16ChangesNothingAndDoesNotCount) {
  const OptimizerConfig config{.lr = 0.1};
  const auto rounded = [&](float value) {
    const Tensor out = device_->tensor({count}, MemoryKind::gradient, DType::f16);
    device_->kernels().fill({.out = out, .value = value});
    return out;
  };
  const Tensor once = rounded(1), twice = rounded(1), g = rounded(0.25F);
  const auto without = make_optimizer(config, {2}, *device_, once, whole_map());
  const auto with = make_optimizer(config, {2}, *device_, twice, whole_map());
  EXPECT_EQ(with->rounds(), 1);
  const Tensor bad = rounded(0.25F);
  bad.data<fp16>()[count - 1] = to_fp16(std::numeric_limits<float>::infinity());
  LossScale scale(/*fp16=*/true);
  const float before = scale.value();
  const bool finite = step(*with, {0, twice, bad}, {.step = 0, .loss_scale = before});
  EXPECT_FALSE(finite);
  scale.update(finite);
  EXPECT_EQ(scale.value(), before / 2);
  EXPECT_EQ(twice.data<fp16>()[0].bits, to_fp16(1).bits);
  ASSERT_TRUE(step(*with, {0, twice, g}, {.step = 1, .loss_scale = 2}));
  ASSERT_TRUE(step(*without, {0, once, g}, {.step = 1, .loss_scale = 2}));
  // The learning rate is constant, but the correction of the moments depends on the number of the
  // update. `with` skipped step 0, so this update is its first. For `without` this update is the
  // second.
  EXPECT_NEAR(to_float(twice.data<fp16>()[0]), 0.9, 1e-3) << "a first step moves by lr";
  EXPECT_NE(once.data<fp16>()[0].bits, twice.data<fp16>()[0].bits)
      << "a second step moves by another amount";
}

TEST_F(Sums, AScaleThatCannotBeLoweredIsExhausted) {
  LossScale scale(/*fp16=*/true);
  while (scale.value() > 1) {
    scale.update(false);
    EXPECT_FALSE(scale.exhausted()) << scale.value();
  }
  scale.update(true);
  EXPECT_FALSE(scale.exhausted());
  scale.update(false);
  EXPECT_TRUE(scale.exhausted());
}

TEST_F(Sums, SoManyStepsInARowMayBeSkipped) {
  for (const bool fp16 : {false, true}) {
    LossScale scale(fp16, 2);
    while (scale.value() > 1) {
      scale.update(false);
      EXPECT_FALSE(scale.exhausted()) << "a lower scale may help";
    }
    for (int round = 0; round < 2; ++round) {
      for (int step = 0; step < 2; ++step) {
        scale.update(false);
        EXPECT_FALSE(scale.exhausted()) << step;
      }
      if (round == 0) scale.update(true);  // so they are not in a row
    }
    LossScale later(fp16, 2);
    later.restore(scale.state());
    for (LossScale* one : {&scale, &later}) {
      one->update(false);
      EXPECT_TRUE(one->exhausted());
    }
  }
}

TEST_F(Sums, DecayOfMatricesLeavesTheBiasAlone) {
  const OptimizerConfig config{
      .kind = "sgd", .lr = 0.5, .momentum = 0, .weight_decay = 0.5, .decay = Decay::matrices};
  const Tensor p = upload(std::vector<float>(count, 1), MemoryKind::parameter);
  const Tensor g = upload(std::vector<float>(count, 0), MemoryKind::gradient);
  step(*make_optimizer(config, {}, *device_, p, whole_map()), {0, p, g}, {});
  for (std::int64_t i = 0; i < count; ++i)
    ASSERT_EQ(p.data<float>()[i], i >= 400 && i < 437 ? 1.0F : 0.75F) << i;
}

TEST_F(Sums, NesterovLooksAhead) {
  const OptimizerConfig config{.kind = "sgd", .lr = 0.5, .momentum = 0.5, .nesterov = true};
  const Tensor p = upload(std::vector<float>(count, 1), MemoryKind::parameter);
  const Tensor g = upload(std::vector<float>(count, 1), MemoryKind::gradient);
  const auto optimizer = make_optimizer(config, {2}, *device_, p, whole_map());
  step(*optimizer, {0, p, g}, {.step = 0});
  EXPECT_EQ(p.data<float>()[0], 1 - 0.5F * 1.5F);
  step(*optimizer, {0, p, g}, {.step = 1});
  EXPECT_EQ(p.data<float>()[0], 0.25F - 0.5F * 1.75F);
}

TEST(LearningRateOfRuns, FallsInStepsAndGrowsWithTheRanks) {
  OptimizerConfig config{.lr = 1, .schedule = Schedule::step, .warmup_steps = 2};
  config.step_every = 3;
  config.step_factor = 0.5;
  for (std::int64_t s = 2; s < 12; ++s)
    EXPECT_DOUBLE_EQ(learning_rate(config, s, {100}), std::pow(0.5, (s - 2) / 3)) << s;
  config.lr_scaling = LrScaling::linear;
  EXPECT_DOUBLE_EQ(learning_rate(config, 2, {100, 4}), 4);
  EXPECT_DOUBLE_EQ(learning_rate(config, 0, {100, 4}), 4.0 / 3);
  config.lr_scaling = LrScaling::sqrt;
  EXPECT_DOUBLE_EQ(learning_rate(config, 2, {100, 4}), 2);
}

TEST(OptimizerSettings, AreRefusedByName) {
  const auto refused = [](auto change, const char* name) {
    OptimizerConfig config;
    change(config);
    try {
      check(config);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  };
  refused([](auto& c) { c.clip_norm = -1; }, "optimizer.clip_norm = -1");
  refused([](auto& c) { c.step_every = 0; }, "optimizer.step_every = 0");
  refused([](auto& c) { c.step_factor = 0; }, "optimizer.step_factor = 0");
  refused([](auto& c) { c.nesterov = true; }, "optimizer.nesterov");
}

}  // namespace
}  // namespace ringside
