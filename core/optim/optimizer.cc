#include "core/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "core/base/error.h"

namespace ringside {
namespace {

/// What is left of the learning rate when a `progress` in [0, 1] of the way down is done.
struct Schedule {
  std::string_view name;
  double (*share)(double progress, double final_share);
};

constexpr Schedule schedules[] = {
    {"constant", [](double, double) { return 1.0; }},
    {"linear", [](double progress, double last) { return 1 + (last - 1) * progress; }},
    {"cosine",
     [](double progress, double last) {
       return last + (1 - last) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
     }},
};

/// One number for each of the parameters.
Tensor zeros(Device& device, const Tensor& parameters) {
  Tensor state = device.tensor({parameters.count()}, MemoryKind::optimizer);
  device.kernels().fill({.out = state, .value = 0});
  return state;
}

/// Empty for parameters that are their own.
Tensor masters(Device& device, const Tensor& parameters) {
  if (parameters.dtype() == DType::f32) return {};
  Tensor values = device.tensor({parameters.count()}, MemoryKind::optimizer);
  device.kernels().cast({.in = parameters, .out = values});
  return values;
}

Tensor part_of(const Tensor& state, std::int64_t begin, std::int64_t count) {
  return state ? state.range(begin, count) : Tensor{};
}

class AdamWOptimizer final : public Optimizer {
 public:
  AdamWOptimizer(const OptimizerConfig& config, std::int64_t steps, Device& device,
                 const Tensor& parameters)
      : config_(config),
        steps_(steps),
        device_(device),
        master_(masters(device, parameters)),
        first_moment_(zeros(device, parameters)),
        second_moment_(zeros(device, parameters)) {}

  void update(std::int64_t begin, const Tensor& parameters, const Tensor& gradients,
              std::int64_t step) override {
    device_.kernels().adamw({.parameters = parameters,
                             .gradients = gradients,
                             .master = part_of(master_, begin, parameters.count()),
                             .first_moment = first_moment_.range(begin, parameters.count()),
                             .second_moment = second_moment_.range(begin, parameters.count()),
                             .lr = static_cast<float>(learning_rate(config_, step, steps_)),
                             .beta1 = static_cast<float>(config_.beta1),
                             .beta2 = static_cast<float>(config_.beta2),
                             .epsilon = static_cast<float>(config_.epsilon),
                             .weight_decay = static_cast<float>(config_.weight_decay),
                             .step = step + 1});
  }

 private:
  OptimizerConfig config_;
  std::int64_t steps_;
  Device& device_;
  Tensor master_, first_moment_, second_moment_;
};

class SgdOptimizer final : public Optimizer {
 public:
  SgdOptimizer(const OptimizerConfig& config, std::int64_t steps, Device& device,
               const Tensor& parameters)
      : config_(config),
        steps_(steps),
        device_(device),
        master_(masters(device, parameters)),
        velocity_(config.momentum == 0 ? Tensor{} : zeros(device, parameters)) {}

  void update(std::int64_t begin, const Tensor& parameters, const Tensor& gradients,
              std::int64_t step) override {
    device_.kernels().sgd({.parameters = parameters,
                           .gradients = gradients,
                           .master = part_of(master_, begin, parameters.count()),
                           .velocity = part_of(velocity_, begin, parameters.count()),
                           .lr = static_cast<float>(learning_rate(config_, step, steps_)),
                           .momentum = static_cast<float>(config_.momentum),
                           .weight_decay = static_cast<float>(config_.weight_decay),
                           .step = step + 1});
  }

 private:
  OptimizerConfig config_;
  std::int64_t steps_;
  Device& device_;
  Tensor master_, velocity_;
};

template <class T>
std::unique_ptr<Optimizer> make(const OptimizerConfig& config, std::int64_t steps, Device& device,
                                const Tensor& parameters) {
  return std::make_unique<T>(config, steps, device, parameters);
}

struct Kind {
  std::string_view name;
  std::unique_ptr<Optimizer> (*make)(const OptimizerConfig&, std::int64_t, Device&, const Tensor&);
};

constexpr Kind kinds[] = {{"adamw", make<AdamWOptimizer>}, {"sgd", make<SgdOptimizer>}};

/// The row of a table that has the name; throws Error that lists them.
template <class Row, std::size_t n>
const Row& find(const Row (&table)[n], std::string_view key, std::string_view name) {
  std::string known;
  for (const Row& row : table) {
    if (row.name == name) return row;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  throw Error("{} = \"{}\" is not known; choose one of: {}", key, name, known);
}

void check(const OptimizerConfig& c) {
  const auto need = [](bool ok, std::string_view name, double value, std::string_view rule) {
    if (!ok) throw Error("optimizer.{} = {} is out of range; it has to be {}", name, value, rule);
  };
  need(c.lr >= 0 && std::isfinite(c.lr), "lr", c.lr, "0 or more");
  need(c.beta1 >= 0 && c.beta1 < 1, "beta1", c.beta1, "in [0, 1)");
  need(c.beta2 >= 0 && c.beta2 < 1, "beta2", c.beta2, "in [0, 1)");
  need(c.epsilon > 0, "epsilon", c.epsilon, "above 0");
  need(c.momentum >= 0 && c.momentum < 1, "momentum", c.momentum, "in [0, 1)");
  need(c.weight_decay >= 0, "weight_decay", c.weight_decay, "0 or more");
  need(c.warmup_steps >= 0, "warmup_steps", static_cast<double>(c.warmup_steps), "0 or more");
  need(c.final_lr_share >= 0 && c.final_lr_share <= 1, "final_lr_share", c.final_lr_share,
       "in [0, 1]");
}

}  // namespace

double learning_rate(const OptimizerConfig& config, std::int64_t step, std::int64_t steps) {
  const Schedule& schedule = find(schedules, "optimizer.schedule", config.schedule);
  const auto warmup = config.warmup_steps;
  if (step < warmup)
    return config.lr * static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
  const auto way = static_cast<double>(std::max<std::int64_t>(1, steps - 1 - warmup));
  const double progress = std::min(1.0, static_cast<double>(step - warmup) / way);
  return config.lr * schedule.share(progress, config.final_lr_share);
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, std::int64_t steps,
                                          Device& device, const Tensor& parameters) {
  check(config);
  find(schedules, "optimizer.schedule", config.schedule);
  return find(kinds, "optimizer.kind", config.kind).make(config, steps, device, parameters);
}

}  // namespace ringside
