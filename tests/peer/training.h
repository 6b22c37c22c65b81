// A tiny model, trained in two ways: with a scheme and its hooks, as the trainer does it, and
// without a scheme, from a plain sum of all gradients.
#pragma once

#include <cstring>
#include <functional>
#include <vector>

#include "core/models/mlp.h"
#include "core/optim/optimizers.h"
#include "core/scheme/parameter_map.h"
#include "core/scheme/scheme.h"
#include "tests/peer/ranks.h"
#include "tests/support/micro_batch.h"

namespace ringside::testing {

/// The training. Each micro-batch has two samples. The embedding has 55 parameters, a number that
/// the worlds of 2, 3 and 4 ranks do not divide.
struct Training {
  int world = 1;
  std::int64_t micro_batches = 1;
  std::int64_t steps = 3;
  ModelConfig config{.kind = "mlp", .layers = 3, .width = 15, .context = 3, .vocabulary = 11};
  static constexpr std::int64_t samples = 2;

  RunPlan plan() const {
    RunPlan out;
    out.world = world;
    out.model = config;
    out.train.steps = steps;
    out.train.accumulation = micro_batches;
    out.optimizer.kind = "adamw";
    out.optimizer.lr = 0.01;
    out.optimizer.weight_decay = 0.1;
    for (int r = 0; r < world; ++r) out.ranks.push_back({.rank = r, .worker = r});
    return out;
  }

  LossTerms terms() const {
    return {.terms = {{.rows = 1, .classes = config.vocabulary}},
            .global_batch = samples * micro_batches * world};
  }

  /// The samples of one micro-batch. `part` is its number among the micro-batches of all ranks in
  /// this step, counted in rank order.
  Batch batch(Device& device, std::int64_t step, std::int64_t part) const {
    Batch out{device.tensor({samples, config.context}, MemoryKind::data, DType::i32),
              device.tensor({samples}, MemoryKind::data, DType::i32)};
    const std::int64_t first = (step * 31 + part) * 17;
    for (std::int64_t i = 0; i < out.inputs.count(); ++i)
      out.inputs.data<std::int32_t>()[i] =
          static_cast<std::int32_t>((first + i * i * 3) % config.vocabulary);
    for (std::int64_t i = 0; i < samples; ++i)
      out.targets.data<std::int32_t>()[i] =
          static_cast<std::int32_t>((first + i * 5) % config.vocabulary);
    return out;
  }
};

/// Links that give every scheme of the rank a communicator of its own, which ends with the scheme.
inline Links links_among(const Rank& r) {
  return Links([&comm = r.comm](const RankContext& context, const Group&) {
    return comm.split(0, context.rank);
  });
}

/// The objects of a test's body on each rank.
struct Scene {
  Scene(const Rank& r, const Training& training)
      : plan(training.plan()),
        timeline(r.device),
        context{plan, r.rank, r.device, r.store, timeline, nullptr, {}, links_among(r)},
        model(make_mlp(training.config, r.device)) {}

  RunPlan plan;
  Timeline timeline;
  RankContext context;
  Model model;
};

/// Does all steps of one rank. Calls `observe` after every hook of the scheme.
inline void train(
    const Training& training, const RankContext& context, Model& model, SyncScheme& scheme,
    const std::function<void()>& observe = [] {}) {
  for (std::int64_t step = 0; step < training.steps; ++step) {
    context.timeline.begin_step();
    for (std::int64_t m = 0; m < training.micro_batches; ++m) {
      const Pass pass{.step = step, .micro_batch = m, .micro_batches = training.micro_batches};
      const Batch batch =
          training.batch(context.device, step, context.rank * training.micro_batches + m);
      MicroBatch own(model);
      Tensor x = batch.inputs;
      for (std::size_t u = 0; u < model.units.size(); ++u) {
        scheme.before_forward(u, pass);
        observe();
        x = model.units[u]->forward(x, pass, own.saved[u]);
        scheme.after_forward(u, pass);
        observe();
      }
      x = scheme.loss(x, batch, training.terms(), pass).gradient;
      for (std::size_t u = model.units.size(); u-- > 0;) {
        scheme.before_backward(u, pass);
        observe();
        x = model.units[u]->backward(x, own.saved[u]);
        scheme.after_backward(u, pass);
        observe();
      }
    }
    EXPECT_TRUE(scheme.step({.step = step}));
    observe();
    context.timeline.end_step();
  }
}

/// The order in which the gradients of all ranks and micro-batches are added up.
enum class Order { micro_batches_first, ranks_first };

/// The parameters after the steps, from gradients that are added one after the other.
inline std::vector<float> expected_parameters(const Training& training, Order order) {
  const auto device = make_cpu_device(1);
  Model model = make_mlp(training.config, *device);
  const RunPlan plan = training.plan();
  const std::int64_t count = model.parameter_count();
  const Tensor parameters = device->tensor({count}, MemoryKind::parameter);
  const auto optimizer = make_optimizer(plan.optimizer, {training.steps, training.world}, *device,
                                        parameters, parameter_map(model));
  const auto range = [&](const Tensor& all, std::size_t u) {
    return all.range(model.first_parameter(u), model.units[u]->layout().count());
  };
  for (std::size_t u = 0; u < model.units.size(); ++u)
    initialise(*model.units[u], model.first_parameter(u),
               static_cast<std::uint64_t>(plan.train.seed), 0, range(parameters, u));

  const auto gradient_of = [&](std::int64_t step, std::int64_t part) {
    const Tensor gradient = device->tensor({count}, MemoryKind::gradient);
    const Batch batch = training.batch(*device, step, part);
    for (std::size_t u = 0; u < model.units.size(); ++u)
      model.units[u]->bind(range(parameters, u), range(gradient, u));
    MicroBatch own(model);
    Tensor x = own.forward(model, batch.inputs, {});
    x = cross_entropy(*device, x, batch.targets, training.terms(), true).gradient;
    own.backward(model, x);
    return gradient;
  };
  const auto add = [&](Tensor& sum, const Tensor& next) {
    if (!sum)
      sum = next;
    else
      for (std::int64_t i = 0; i < count; ++i) sum.data<float>()[i] += next.data<float>()[i];
  };

  for (std::int64_t step = 0; step < training.steps; ++step) {
    const bool by_rank = order == Order::micro_batches_first;
    const std::int64_t outer = by_rank ? training.world : training.micro_batches;
    const std::int64_t inner = by_rank ? training.micro_batches : training.world;
    Tensor total;
    for (std::int64_t i = 0; i < outer; ++i) {
      Tensor partial;
      for (std::int64_t j = 0; j < inner; ++j)
        add(partial, gradient_of(step, by_rank ? i * inner + j : j * training.micro_batches + i));
      add(total, partial);
    }
    optimizer->update({0, parameters, total}, {.step = step});
  }
  const auto values = parameters.span<float>();
  return {values.begin(), values.end()};
}

/// The values that visit_parameters() shows, in unit order.
inline std::vector<float> parameters_of(SyncScheme& scheme) {
  std::vector<float> out;
  scheme.visit_parameters([&](int, const Unit& unit, const Tensor& values) {
    EXPECT_EQ(values.count(), unit.layout().count());
    out.insert(out.end(), values.data<float>(), values.data<float>() + values.count());
  });
  return out;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace ringside::testing
