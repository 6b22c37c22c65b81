// Every unit's backward against finite differences of its forward.
#include <functional>
#include <string>

#include "tests/models/cases.h"

namespace ringside {
namespace {

using testing::MicroBatch;

constexpr std::int64_t samples = 3;

struct Tolerance {
  double step, relative, absolute;
  bool kinks;  // the model has relu or max pooling, whose slopes jump
};

struct Slope {
  double value, doubt;
};

/// The slope of `f` along `direction` at `values`, from central differences with the steps h and
/// 2 * h, combined so that the error of order h^2 cancels (Richardson). If `f` may have kinks,
/// `doubt` says how much the slopes of both sides and of both steps differ: near a kink they differ
/// much.
Slope slope(const std::function<double()>& f, std::span<float> values,
            std::span<const float> direction, const Tolerance& t) {
  const std::vector<float> at(values.begin(), values.end());
  const auto moved = [&](double by) {
    for (std::size_t i = 0; i < at.size(); ++i)
      values[i] = static_cast<float>(at[i] + by * direction[i]);
    return f();
  };
  const double h = t.step;
  // The values are rounded to fp32, so the true distance between two points is only close to the
  // step. That is exact enough.
  const double above = moved(h), below = moved(-h), far_above = moved(2 * h),
               far_below = moved(-2 * h), here = moved(0);
  const double near = (above - below) / (2 * h), far = (far_above - far_below) / (4 * h);
  const double bend = std::abs(above - 2 * here + below) / h;
  return {(4 * near - far) / 3, t.kinks ? bend + 2 * std::abs(near - far) : 0};
}

/// Compares `gradient` with slopes along random directions and along single elements.
void expect_gradient(const std::string& what, const std::function<double()>& f,
                     std::span<float> values, std::span<const float> gradient, Tolerance t) {
  const auto n = static_cast<std::int64_t>(values.size());
  const double norm = std::sqrt(dot(gradient, gradient));
  double doubts = 0;
  const auto expect = [&](std::span<const float> direction, const std::string& along) {
    const Slope expected = slope(f, values, direction, t);
    EXPECT_NEAR(dot(gradient, direction), expected.value,
                t.relative * norm + t.absolute + expected.doubt)
        << what << " along " << along;
    doubts += expected.doubt;
  };
  for (std::uint64_t trial = 0; trial < 3; ++trial) {
    auto direction = normals(n, 900 + trial);
    const double length = std::sqrt(dot(direction, direction));
    for (float& d : direction) d = static_cast<float>(d / length);
    expect(direction, "direction " + std::to_string(trial));
  }
  for (std::uint64_t trial = 0; trial < 4; ++trial) {
    std::vector<float> direction(values.size());
    const auto element = random_bits(7, Stream::synthetic_data, trial) % values.size();
    direction[element] = 1;
    expect(direction, "element " + std::to_string(element));
  }
  EXPECT_LT(doubts / 7, 0.1 * norm + t.absolute)
      << what << ": too many kinks to judge the gradient";
}

/// Models with kinks need a short step, so that it seldom reaches a kink; rounding then makes the
/// slope less exact.
Tolerance tolerance_of(const std::string& kind) {
  const bool smooth = kind == "gpt" || kind == "llama" || kind == "bert" || kind == "idefics3";
  return smooth ? Tolerance{1e-2, 1e-3, 3e-4, false} : Tolerance{1e-3, 3e-3, 2e-3, true};
}

class EveryUnit : public ::testing::TestWithParam<Case> {};

TEST_P(EveryUnit, HasTheGradientsOfItsForward) {
  const auto device = make_cpu_device(1);
  const ModelConfig& config = GetParam().config;
  const Tolerance tolerance = tolerance_of(config.kind);
  BoundModel bound(*device, make_model(config, *device));
  const Tensor data = input_of(config, bound.model, *device, samples, 3);
  Tensor input = data;
  MicroBatch own(bound.model);
  for (std::size_t i = 0; i < bound.model.units.size(); ++i) {
    Unit& unit = *bound.model.units[i];
    // The gradients are those of a scalar: the sum of all outputs, each times a fixed weight.
    // The first unit hands tensors over to later units, which use them up.
    const auto hand_over = [&] {
      if (i > 0) bound.model.units[0]->forward(data, looking, own.saved[0]);
    };
    hand_over();
    const Tensor output = unit.forward(input, keeping, own.saved[i]);
    const auto weights = normals(output.count(), 70 + i);
    const Tensor grad_input = unit.backward(upload(*device, weights, output.shape()), own.saved[i]);
    const auto scalar = [&] {
      hand_over();
      return dot(weights, unit.forward(input, looking, own.saved[i]).span<float>());
    };
    const auto gradients = download(bound.gradients[i]);
    for (const Parameter& p : unit.layout().parameters()) {
      const auto begin = static_cast<std::size_t>(p.begin);
      const auto count = static_cast<std::size_t>(p.shape.count());
      expect_gradient(unit.name() + " " + p.name, scalar,
                      bound.parameters[i].span<float>().subspan(begin, count),
                      std::span(gradients).subspan(begin, count), tolerance);
    }
    if (i == 0) {
      EXPECT_FALSE(grad_input) << "data have no gradient";
    } else {
      ASSERT_EQ(grad_input.shape(), input.shape());
      expect_gradient(unit.name() + " input", scalar, input.span<float>(), download(grad_input),
                      tolerance);
    }
    input = output;
  }
}

const auto name_of_case = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Models, EveryUnit, ::testing::ValuesIn(cases()), name_of_case);

class WholeModel : public ::testing::TestWithParam<Case> {
 protected:
  WholeModel()
      : config_(GetParam().config),
        device_(make_cpu_device(1)),
        bound_(*device_, make_model(config_, *device_)),
        rest_(device_->ledger().current()) {}

  Tensor input(std::uint64_t batch) const {
    return input_of(config_, bound_.model, *device_, samples, 100 + batch);
  }
  double loss(const Tensor& logits, std::uint64_t batch) const {
    return loss_of(bound_.model, *device_, logits, samples, 200 + batch);
  }
  /// Returns the summed loss of one micro-batch. If `pass.keep`, also computes the gradients.
  double forward(std::uint64_t batch, const Pass& pass) {
    MicroBatch own(bound_.model);
    Tensor x = own.forward(bound_.model, input(batch), pass);
    const double sum = loss(x, batch);
    if (pass.keep) own.backward(bound_.model, std::exchange(x, {}));
    return sum;
  }

  ModelConfig config_;
  std::unique_ptr<Device> device_;
  BoundModel bound_;
  MemoryUse rest_;
};

TEST_P(WholeModel, HasTheGradientsOfItsLoss) {
  forward(1, keeping);
  for (std::size_t i = 0; i < bound_.model.units.size(); ++i)
    expect_gradient(
        bound_.model.units[i]->name(), [&] { return forward(1, looking); },
        bound_.parameters[i].span<float>(), download(bound_.gradients[i]),
        tolerance_of(config_.kind));
}

TEST_P(WholeModel, HasGradientsThatDoNotDependOnWhatWasComputedBefore) {
  forward(1, keeping);
  const auto first = bound_.all_gradients();
  forward(2, keeping);
  const auto second = bound_.all_gradients();
  EXPECT_NE(first, second);
  forward(3, evaluation);
  forward(1, keeping);
  EXPECT_EQ(bound_.all_gradients(), first);
  forward(2, keeping);
  EXPECT_EQ(bound_.all_gradients(), second);
}

TEST_P(WholeModel, OverwritesEveryElementOfItsGradients) {
  forward(1, keeping);
  const auto expected = bound_.all_gradients();
  for (const Tensor& g : bound_.gradients)
    device_->kernels().fill({.out = g, .value = std::nanf("")});
  forward(1, keeping);
  EXPECT_EQ(bound_.all_gradients(), expected);
}

/// The units lie elsewhere when their attention is made again.
TEST_P(WholeModel, HasTheSameGradientsIfAttentionIsMadeAgain) {
  forward(1, keeping);
  const auto expected = bound_.all_gradients();
  Pass dropping = keeping;
  dropping.keep_attention = false;
  std::vector<std::int64_t> kept;
  std::vector<Tensor> moved;
  for (const Pass& pass : {keeping, dropping}) {
    MicroBatch own(bound_.model);
    Tensor x = own.forward(bound_.model, input(1), pass);
    kept.push_back(device_->ledger().current()[MemoryKind::activation]);
    loss(x, 1);
    for (std::size_t i = bound_.model.units.size(); i-- > 0;) {
      const Tensor& old = bound_.parameters[i];
      moved.push_back(upload(*device_, download(old), {old.count()}));
      bound_.model.units[i]->bind(moved.back(), bound_.gradients[i]);
      x = bound_.model.units[i]->backward(x, own.saved[i]);
      bound_.model.units[i]->bind(old, bound_.gradients[i]);
    }
    EXPECT_EQ(bound_.all_gradients(), expected);
    moved.clear();
    x = {};
    EXPECT_EQ(device_->ledger().current(), rest_);
  }
  EXPECT_EQ(kept[1] < kept[0], find_model(config_.kind).attention);
  EXPECT_LE(kept[1], kept[0]);
}

TEST_P(WholeModel, HasTheSameGradientsAfterAForwardWithoutAttentionAndBackward) {
  forward(1, keeping);
  const auto expected = bound_.all_gradients();
  Pass dropping = keeping;
  dropping.keep_attention = false;
  MicroBatch(bound_.model).forward(bound_.model, input(2), dropping);
  forward(1, keeping);
  EXPECT_EQ(bound_.all_gradients(), expected);
  EXPECT_EQ(device_->ledger().current(), rest_);
}

TEST_P(WholeModel, FreesEveryActivationInBackward) {
  forward(1, keeping);
  EXPECT_EQ(device_->ledger().current(), rest_);
}

TEST_P(WholeModel, KeepsNothingInEvaluation) {
  MicroBatch own(bound_.model);
  Tensor x = input(1);
  bool handed = false;
  for (std::size_t u = 0; u < bound_.model.units.size(); ++u) {
    const auto& unit = bound_.model.units[u];
    x = unit->forward(x, evaluation, own.saved[u]);
    MemoryUse expected = rest_;
    expected[MemoryKind::activation] += static_cast<std::int64_t>(x.bytes());
    // The first unit's data stay until the unit that they are for takes them.
    handed = handed || is_handed_data(*unit);
    if ((config_.kind == "bert" || config_.kind == "idefics3") && !handed)
      expected[MemoryKind::data] = device_->ledger().current()[MemoryKind::data];
    // T5's units keep what the decoder reads until the head is done.
    if (config_.kind == "t5" && unit != bound_.model.units.back())
      expected[MemoryKind::activation] = device_->ledger().current()[MemoryKind::activation];
    EXPECT_EQ(device_->ledger().current(), expected) << unit->name();
  }
}

TEST_P(WholeModel, MayBeBoundElsewhereBetweenForwardAndBackward) {
  forward(1, keeping);
  const auto expected = bound_.all_gradients();
  MicroBatch own(bound_.model);
  Tensor x = own.forward(bound_.model, input(1), keeping);
  loss(x, 1);
  std::vector<Tensor> moved;
  for (std::size_t i = 0; i < bound_.model.units.size(); ++i) {
    const Tensor& old = bound_.parameters[i];
    moved.push_back(upload(*device_, download(old), {old.count()}));
    device_->kernels().fill({.out = old, .value = std::nanf("")});
    bound_.model.units[i]->bind(moved[i], bound_.gradients[i]);
  }
  for (std::size_t i = bound_.model.units.size(); i-- > 0;) {
    x = bound_.model.units[i]->backward(x, own.saved[i]);
    bound_.model.units[i]->bind(i == 0 ? Tensor{} : moved[i], {});
  }
  EXPECT_EQ(bound_.all_gradients(), expected);
}

/// As in activation checkpointing, each unit computes its forward a second time: the outputs are
/// the same, and the statistics do not change again.
TEST_P(WholeModel, GivesTheSameAgain) {
  const auto statistics = [](const Unit& unit) {
    std::vector<std::vector<float>> out;
    for (const Unit::Statistic& statistic : unit.statistics())
      out.push_back(download(statistic.values));
    return out;
  };
  forward(1, keeping);
  const auto expected = bound_.all_gradients();
  std::vector<Tensor> inputs, outputs;
  Tensor x = input(1);
  const auto& units = bound_.model.units;
  MicroBatch own(bound_.model);
  for (std::size_t u = 0; u < units.size(); ++u) {
    inputs.push_back(x);
    x = units[u]->forward(x, u + 1 == units.size() ? keeping : looking, own.saved[u]);
    outputs.push_back(upload(*device_, download(x), x.shape()));
  }
  loss(x, 1);
  Pass again = keeping;
  again.again = true;
  for (std::size_t i = units.size(); i-- > 0;) {
    if (i + 1 < units.size()) {
      const auto before = statistics(*units[i]);
      EXPECT_EQ(download(units[i]->forward(inputs[i], again, own.saved[i])), download(outputs[i]))
          << units[i]->name();
      EXPECT_EQ(statistics(*units[i]), before) << units[i]->name();
    }
    x = units[i]->backward(x, own.saved[i]);
  }
  EXPECT_EQ(bound_.all_gradients(), expected);
  inputs.clear();
  outputs.clear();
  EXPECT_EQ(device_->ledger().current(), rest_);
}

INSTANTIATE_TEST_SUITE_P(Models, WholeModel, ::testing::ValuesIn(cases()), name_of_case);

}  // namespace
}  // namespace ringside
