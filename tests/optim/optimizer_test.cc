#include "core/optim/optimizers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <vector>

#include "core/base/error.h"
#include "core/device/cpu/cpu_device.h"
#include "core/num/random.h"

namespace ringside {
namespace {

OptimizerConfig schedule(Schedule kind, std::int64_t warmup) {
  OptimizerConfig config;
  config.lr = 0.5;
  config.schedule = kind;
  config.warmup_steps = warmup;
  config.final_lr_share = 0.2;
  return config;
}

TEST(LearningRate, RisesLinearlyWhileWarmingUp) {
  for (const Schedule kind : {Schedule::constant, Schedule::linear, Schedule::cosine}) {
    const auto config = schedule(kind, 4);
    for (std::int64_t step = 0; step <= 4; ++step)
      EXPECT_DOUBLE_EQ(learning_rate(config, step, {100}), 0.5 * static_cast<double>(step + 1) / 5);
  }
}

TEST(LearningRate, FollowsItsScheduleToTheLastStep) {
  const std::int64_t warmup = 4, steps = 25;
  for (std::int64_t step = warmup; step < steps; ++step) {
    const double progress = static_cast<double>(step - warmup) / 20;
    EXPECT_DOUBLE_EQ(learning_rate(schedule(Schedule::constant, warmup), step, {steps}), 0.5);
    EXPECT_DOUBLE_EQ(learning_rate(schedule(Schedule::linear, warmup), step, {steps}),
                     0.5 * (1 - 0.8 * progress));
    EXPECT_DOUBLE_EQ(learning_rate(schedule(Schedule::cosine, warmup), step, {steps}),
                     0.5 * (0.2 + 0.4 * (1 + std::cos(std::numbers::pi * progress))));
  }
  for (const Schedule kind : {Schedule::linear, Schedule::cosine})
    for (std::int64_t step : {steps - 1, steps, steps + 100})
      EXPECT_DOUBLE_EQ(learning_rate(schedule(kind, warmup), step, {steps}), 0.1);
}

TEST(LearningRate, IsFullWhereARunHasOneStep) {
  for (const Schedule kind : {Schedule::constant, Schedule::linear, Schedule::cosine})
    EXPECT_DOUBLE_EQ(learning_rate(schedule(kind, 0), 0, {1}), 0.5);
}

TEST(LearningRate, GrowsWithTheReplicasAsItIsTold) {
  auto config = schedule(Schedule::linear, 4);
  for (const auto& [scaling, factor] :
       {std::pair{LrScaling::none, 1.0}, {LrScaling::sqrt, 3.0}, {LrScaling::linear, 9.0}}) {
    config.lr_scaling = scaling;
    EXPECT_DOUBLE_EQ(scaled_lr(config, 1), 0.5);
    EXPECT_DOUBLE_EQ(scaled_lr(config, 9), 0.5 * factor);
    EXPECT_DOUBLE_EQ(learning_rate(config, 0, {25, 9}), 0.1 * factor) << "warming up";
    EXPECT_DOUBLE_EQ(learning_rate(config, 24, {25, 9}), 0.1 * factor) << "at the end";
  }
}

// The textbook forms in double precision.
struct Reference {
  OptimizerConfig config;
  std::vector<double> p, first, second;

  void update(const std::vector<float>& gradients, std::int64_t step, double lr) {
    const double t = static_cast<double>(step + 1);
    for (std::size_t i = 0; i < p.size(); ++i) {
      double g = gradients[i];
      if (config.kind == "adamw") {
        p[i] -= lr * config.weight_decay * p[i];
        first[i] = config.beta1 * first[i] + (1 - config.beta1) * g;
        second[i] = config.beta2 * second[i] + (1 - config.beta2) * g * g;
        const double m = first[i] / (1 - std::pow(config.beta1, t));
        const double v = second[i] / (1 - std::pow(config.beta2, t));
        p[i] -= lr * m / (std::sqrt(v) + config.epsilon);
      } else {
        g += config.weight_decay * p[i];
        first[i] = step == 0 ? g : config.momentum * first[i] + g;
        p[i] -= lr * first[i];
      }
    }
  }
};

/// "adamw", "sgd", or "plain": sgd without momentum.
OptimizerConfig settings(const std::string& name) {
  OptimizerConfig config;
  config.kind = name == "plain" ? "sgd" : name;
  config.lr = 0.01;
  config.momentum = name == "plain" ? 0 : 0.9;
  config.weight_decay = 0.1;
  config.schedule = Schedule::cosine;
  config.warmup_steps = 2;
  return config;
}

std::vector<float> values(std::int64_t count, std::uint64_t seed) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(random_normal(seed, Stream::synthetic_data, i));
  return out;
}

Tensor upload(Device& device, const std::vector<float>& from, MemoryKind kind) {
  Tensor out = device.tensor({static_cast<std::int64_t>(from.size())}, kind);
  device.write(out, std::as_bytes(std::span(from)));
  return out;
}

/// A model of one parameter with one extent.
ParameterMap vector(std::int64_t count) { return {{{0, count, 0, false}}, 1}; }

class Optimizers : public testing::TestWithParam<std::string> {
 protected:
  const OptimizerConfig config_ = settings(GetParam());
};

TEST_P(Optimizers, AgreeWithTheTextbookOverSeveralSteps) {
  constexpr std::int64_t count = 1003, steps = 8;
  const auto device = make_cpu_device(1);
  const auto start = values(count, 1);
  const Tensor parameters = upload(*device, start, MemoryKind::parameter);
  const auto optimizer = make_optimizer(config_, {steps}, *device, parameters, vector(count));
  Reference reference{config_, {start.begin(), start.end()}, {}, {}};
  reference.first.resize(start.size());
  reference.second.resize(start.size());
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto g = values(count, static_cast<std::uint64_t>(100 + step));
    optimizer->update({0, parameters, upload(*device, g, MemoryKind::gradient)}, {.step = step});
    reference.update(g, step, learning_rate(config_, step, {steps}));
  }
  const auto p = parameters.span<float>();
  for (std::size_t i = 0; i < p.size(); ++i)
    ASSERT_NEAR(p[i], reference.p[i], 1e-5 * (1 + std::abs(reference.p[i]))) << "element " << i;
}

TEST_P(Optimizers, GiveTheSameBitsForShardsAsForTheWhole) {
  constexpr std::int64_t count = 1003, steps = 4;
  const auto device = make_cpu_device(1);
  const auto start = values(count, 1);
  const Tensor whole = upload(*device, start, MemoryKind::parameter);
  const Tensor ranged = upload(*device, start, MemoryKind::parameter);
  const Tensor sharded = upload(*device, start, MemoryKind::parameter);
  const std::int64_t cuts[] = {0, 1, 334, 335, 800, count};

  const auto of_whole = make_optimizer(config_, {steps}, *device, whole, vector(count));
  const auto of_ranges = make_optimizer(config_, {steps}, *device, ranged, vector(count));
  std::vector<std::unique_ptr<Optimizer>> of_shards;
  for (int s = 0; s < 5; ++s)
    of_shards.push_back(make_optimizer(config_, {steps}, *device,
                                       sharded.range(cuts[s], cuts[s + 1] - cuts[s]),
                                       vector(cuts[s + 1] - cuts[s])));

  for (std::int64_t step = 0; step < steps; ++step) {
    const Tensor g = upload(*device, values(count, static_cast<std::uint64_t>(100 + step)),
                            MemoryKind::gradient);
    of_whole->update({0, whole, g}, {.step = step});
    for (int s = 4; s >= 0; --s) {
      const std::int64_t begin = cuts[s], n = cuts[s + 1] - cuts[s];
      of_ranges->update({begin, ranged.range(begin, n), g.range(begin, n)}, {.step = step});
      of_shards[static_cast<std::size_t>(s)]->update(
          {0, sharded.range(begin, n), g.range(begin, n)}, {.step = step});
    }
  }
  EXPECT_EQ(std::memcmp(whole.data<float>(), ranged.data<float>(), whole.bytes()), 0);
  EXPECT_EQ(std::memcmp(whole.data<float>(), sharded.data<float>(), whole.bytes()), 0);
}

/// 1 - 2^-9 rounds to 1 in bf16, but the master values keep such small steps, which add up.
TEST_P(Optimizers, KeepsMastersOfRoundedParameters) {
  constexpr std::int64_t count = 65, steps = 40;
  OptimizerConfig config = config_;
  config.lr = 1.0 / 512;
  config.weight_decay = 0;
  const auto device = make_cpu_device(1);
  const Tensor whole = device->tensor({count}, MemoryKind::parameter);
  const Tensor rounded = device->tensor({count}, MemoryKind::parameter, DType::bf16);
  const Tensor g = device->tensor({count}, MemoryKind::gradient);
  const Tensor rounded_g = device->tensor({count}, MemoryKind::gradient, DType::bf16);
  for (const Tensor& t : {whole, rounded, g, rounded_g})
    device->kernels().fill({.out = t, .value = 1});
  const auto exact = make_optimizer(config, {steps}, *device, whole, vector(count));
  const auto masters = make_optimizer(config, {steps}, *device, rounded, vector(count));
  for (std::int64_t step = 0; step < steps; ++step) {
    exact->update({0, whole, g}, {.step = step});
    masters->update({0, rounded, rounded_g}, {.step = step});
  }
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_LT(whole.data<float>()[i], 0.97f);
    ASSERT_EQ(rounded.data<bf16>()[i].bits, to_bf16(whole.data<float>()[i]).bits);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Optimizers, testing::Values("adamw", "sgd", "plain"),
                         [](const auto& info) { return info.param; });

TEST(Optimizer, KeepsItsStateUnderTheKindOptimizer) {
  const auto device = make_cpu_device(1);
  const auto bytes = [&] { return device->ledger().current()[MemoryKind::optimizer]; };
  const Tensor parameters = device->tensor({100}, MemoryKind::parameter);
  {
    const auto adamw = make_optimizer(settings("adamw"), {}, *device, parameters, vector(100));
    EXPECT_EQ(bytes(), 2 * 100 * 4);
  }
  {
    const auto sgd = make_optimizer(settings("sgd"), {}, *device, parameters, vector(100));
    EXPECT_EQ(bytes(), 100 * 4);
  }
  const auto plain = make_optimizer(settings("plain"), {}, *device, parameters, vector(100));
  EXPECT_EQ(bytes(), 0);
  const Tensor rounded = device->tensor({100}, MemoryKind::parameter, DType::bf16);
  device->kernels().fill({.out = rounded, .value = 1});
  const auto with_masters = make_optimizer(settings("adamw"), {}, *device, rounded, vector(100));
  EXPECT_EQ(bytes(), 3 * 100 * 4);
}

TEST(Optimizer, SaysHowManyValuesItKeepsOfEachParameter) {
  const auto device = make_cpu_device(1);
  const Tensor parameters = device->tensor({100}, MemoryKind::parameter);
  OptimizerConfig lamb;
  lamb.kind = "lamb";
  for (const OptimizerConfig& config :
       {settings("adamw"), settings("sgd"), settings("plain"), lamb}) {
    const auto optimizer = make_optimizer(config, {}, *device, parameters, vector(100));
    EXPECT_EQ(device->ledger().current()[MemoryKind::optimizer], values_of_each(config) * 100 * 4)
        << config.kind << ", momentum " << config.momentum;
  }
}

TEST(Optimizer, RefusesWhatItDoesNotKnow) {
  const auto device = make_cpu_device(1);
  const auto message = [&](OptimizerConfig config) -> std::string {
    try {
      make_optimizer(config, {}, *device, device->tensor({1}, MemoryKind::parameter), vector(1));
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message(settings("adam")),
            "unknown optimizer 'adam'; did you mean 'adamw'? There are: adamw, sgd, lamb; "
            "those of a plug-in with --plugin FILE");
  OptimizerConfig config;
  config.beta2 = 1;
  EXPECT_EQ(message(config),
            "optimizer.beta2 = 1 is out of range; it has to be 0 or more, and below 1 even after "
            "rounding to fp32");
}

TEST(Optimizer, SettingsHaveBounds) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  struct Setting {
    const char* name;
    double OptimizerConfig::*field;
    std::vector<double> good, bad;
  };
  const Setting settings[] = {
      {"lr", &OptimizerConfig::lr, {0, 1e9}, {-1e-9, 1e39, infinite, none}},
      {"beta1", &OptimizerConfig::beta1, {0, 0.999}, {-0.1, 1, 0.99999999999, none}},
      {"beta2", &OptimizerConfig::beta2, {0, 0.999}, {-0.1, 1, 0.99999999999, none}},
      {"epsilon", &OptimizerConfig::epsilon, {1e-12, 1}, {0, -1, 1e-50, 1e50, infinite, none}},
      {"momentum", &OptimizerConfig::momentum, {0, 0.99}, {-0.1, 1, 0.99999999, none}},
      {"weight_decay", &OptimizerConfig::weight_decay, {0, 1}, {-0.1, infinite, none}},
      {"clip_norm", &OptimizerConfig::clip_norm, {0, 1e9}, {-1, infinite, none}},
      {"final_lr_share", &OptimizerConfig::final_lr_share, {0, 1}, {-0.1, 1.1, none}},
      {"step_factor", &OptimizerConfig::step_factor, {0.1, 1}, {0, 1.1, none}},
  };
  const auto refused = [](const OptimizerConfig& config, const std::string& name) {
    try {
      check(config);
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()).find("optimizer." + name + " = "), 0u) << e.what();
      return true;
    }
    return false;
  };
  for (const Setting& setting : settings) {
    OptimizerConfig config;
    for (const double value : setting.good) {
      config.*setting.field = value;
      EXPECT_FALSE(refused(config, setting.name)) << setting.name << " " << value;
    }
    for (const double value : setting.bad) {
      config.*setting.field = value;
      EXPECT_TRUE(refused(config, setting.name)) << setting.name << " " << value;
    }
  }
  EXPECT_TRUE(refused({.warmup_steps = -1}, "warmup_steps"));
  EXPECT_TRUE(refused({.warmup_steps = std::numeric_limits<std::int64_t>::max()}, "warmup_steps"));
  EXPECT_TRUE(refused({.step_every = 0}, "step_every"));
  EXPECT_TRUE(refused({.kind = "adamw", .nesterov = true}, "nesterov"));
  EXPECT_TRUE(refused({.kind = "sgd", .momentum = 0, .nesterov = true}, "nesterov"));
  EXPECT_FALSE(refused({.kind = "sgd", .nesterov = true}, "nesterov"));
}

}  // namespace
}  // namespace ringside
