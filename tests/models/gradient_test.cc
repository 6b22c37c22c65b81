// Every unit's backward against finite differences of its forward.
#include <functional>

#include "tests/models/bound_model.h"

namespace ringside {
namespace {

constexpr std::int64_t samples = 3;

ModelConfig tiny(const std::string& kind) {
  return {.kind = kind, .layers = 2, .heads = 2, .width = 8, .context = 5, .vocabulary = 11};
}

Model make(const ModelConfig& config, Device& device) {
  return config.kind == "gpt" ? make_gpt(config, device) : make_mlp(config, device);
}

/// The slope of `f` along `direction` at `values`: central differences, the error of order h^2
/// taken out by a second step (Richardson).
double slope(const std::function<double()>& f, std::span<float> values,
             std::span<const float> direction, double h) {
  const std::vector<float> at(values.begin(), values.end());
  const auto difference = [&](double step) {
    // What really lies between the two points after rounding to fp32 is close enough to 2 step.
    const auto moved = [&](double by) {
      for (std::size_t i = 0; i < at.size(); ++i)
        values[i] = static_cast<float>(at[i] + by * direction[i]);
      return f();
    };
    return (moved(step) - moved(-step)) / (2 * step);
  };
  const double result = (4 * difference(h) - difference(2 * h)) / 3;
  std::copy(at.begin(), at.end(), values.begin());
  return result;
}

struct Tolerance {
  double step, relative, absolute;
};

/// Holds `gradient` against slopes along random directions and along single elements.
void expect_gradient(const std::string& what, const std::function<double()>& f,
                     std::span<float> values, std::span<const float> gradient, Tolerance t) {
  const auto n = static_cast<std::int64_t>(values.size());
  const double norm = std::sqrt(dot(gradient, gradient));
  const auto expect = [&](std::span<const float> direction, const std::string& along) {
    const double expected = slope(f, values, direction, t.step);
    EXPECT_NEAR(dot(gradient, direction), expected, t.relative * norm + t.absolute)
        << what << " along " << along;
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
}

/// ReLU has a kink: there the step must be short and cannot be very exact.
Tolerance tolerance_of(const std::string& kind) {
  return kind == "mlp" ? Tolerance{1e-3, 3e-3, 2e-3} : Tolerance{1e-2, 1e-3, 3e-4};
}

class EveryUnit : public testing::TestWithParam<std::string> {};

TEST_P(EveryUnit, HasTheGradientsOfItsForward) {
  const auto device = make_cpu_device(1);
  BoundModel bound(*device, make(tiny(GetParam()), *device));
  Tensor input = tokens_of(*device, samples, 5, 11, 3);
  for (std::size_t i = 0; i < bound.model.units.size(); ++i) {
    Unit& unit = *bound.model.units[i];
    // The scalar: a fixed weight on every output.
    const Tensor output = unit.forward(input, true);
    const auto weights = normals(output.count(), 70 + i);
    const Tensor grad_input = unit.backward(upload(*device, weights, output.shape()));
    const auto scalar = [&] { return dot(weights, unit.forward(input, false).span<float>()); };
    const auto gradients = download(bound.gradients[i]);
    for (const Parameter& p : unit.layout().parameters()) {
      const auto begin = static_cast<std::size_t>(p.begin);
      const auto count = static_cast<std::size_t>(p.shape.count());
      expect_gradient(unit.name() + " " + p.name, scalar,
                      bound.parameters[i].span<float>().subspan(begin, count),
                      std::span(gradients).subspan(begin, count), tolerance_of(GetParam()));
    }
    if (i == 0) {
      EXPECT_FALSE(grad_input) << "tokens have no gradient";
    } else {
      ASSERT_EQ(grad_input.shape(), input.shape());
      expect_gradient(unit.name() + " input", scalar, input.span<float>(), download(grad_input),
                      tolerance_of(GetParam()));
    }
    input = output;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EveryUnit, testing::Values("gpt", "mlp"),
                         [](const auto& info) { return info.param; });

class WholeModel : public testing::TestWithParam<std::string> {
 protected:
  WholeModel()
      : device_(make_cpu_device(1)),
        bound_(*device_, make(tiny(GetParam()), *device_)),
        rest_(device_->ledger().current()) {}

  std::int64_t rows() const {
    return bound_.model.targets == Targets::every ? samples * 5 : samples;
  }

  /// The summed loss of one micro-batch, and its gradients.
  double forward(std::uint64_t batch, bool training) {
    Tensor x = tokens_of(*device_, samples, 5, 11, 100 + batch);
    for (auto& unit : bound_.model.units) x = unit->forward(x, training);
    EXPECT_EQ(x.shape(), Shape({rows(), 11}));
    const Tensor losses = device_->tensor({rows()}, MemoryKind::workspace);
    const Tensor targets = tokens_of(*device_, rows(), 1, 11, 200 + batch).reshaped({rows()});
    device_->kernels().cross_entropy(
        {.logits = x, .targets = targets, .scale = 1, .losses = losses, .dlogits = x});
    if (training) {
      // As a trainer does: nothing else holds what a unit returned.
      for (auto unit = bound_.model.units.rbegin(); unit != bound_.model.units.rend(); ++unit)
        x = (*unit)->backward(x);
    }
    double sum = 0;
    for (float loss : losses.span<float>()) sum += loss;
    return sum;
  }

  std::unique_ptr<Device> device_;
  BoundModel bound_;
  MemoryUse rest_;
};

TEST_P(WholeModel, HasTheGradientsOfItsLoss) {
  forward(1, true);
  for (std::size_t i = 0; i < bound_.model.units.size(); ++i)
    expect_gradient(
        bound_.model.units[i]->name(), [&] { return forward(1, false); },
        bound_.parameters[i].span<float>(), download(bound_.gradients[i]),
        tolerance_of(GetParam()));
}

TEST_P(WholeModel, HasGradientsThatDoNotDependOnWhatWasComputedBefore) {
  forward(1, true);
  const auto first = bound_.all_gradients();
  forward(2, true);
  const auto second = bound_.all_gradients();
  EXPECT_NE(first, second);
  forward(3, false);
  forward(1, true);
  EXPECT_EQ(bound_.all_gradients(), first);
  forward(2, true);
  EXPECT_EQ(bound_.all_gradients(), second);
}

TEST_P(WholeModel, OverwritesEveryElementOfItsGradients) {
  forward(1, true);
  const auto expected = bound_.all_gradients();
  for (const Tensor& g : bound_.gradients)
    device_->kernels().fill({.out = g, .value = std::nanf("")});
  forward(1, true);
  EXPECT_EQ(bound_.all_gradients(), expected);
}

TEST_P(WholeModel, FreesEveryActivationInBackward) {
  forward(1, true);
  EXPECT_EQ(device_->ledger().current(), rest_);
}

TEST_P(WholeModel, KeepsNothingWhenItDoesNotTrain) {
  Tensor x = tokens_of(*device_, samples, 5, 11, 1);
  for (auto& unit : bound_.model.units) {
    x = unit->forward(x, false);
    MemoryUse expected = rest_;
    expected[MemoryKind::activation] += static_cast<std::int64_t>(x.bytes());
    EXPECT_EQ(device_->ledger().current(), expected) << unit->name();
  }
}

TEST_P(WholeModel, MayBeBoundElsewhereBetweenForwardAndBackward) {
  forward(1, true);
  const auto expected = bound_.all_gradients();
  Tensor x = tokens_of(*device_, samples, 5, 11, 101);
  std::vector<Tensor> moved;
  for (auto& unit : bound_.model.units) {
    x = unit->forward(x, true);
    unit->bind({}, {});
  }
  const Tensor losses = device_->tensor({rows()}, MemoryKind::workspace);
  device_->kernels().cross_entropy(
      {.logits = x,
       .targets = tokens_of(*device_, rows(), 1, 11, 201).reshaped({rows()}),
       .scale = 1,
       .losses = losses,
       .dlogits = x});
  for (std::size_t i = bound_.model.units.size(); i-- > 0;) {
    const Tensor& old = bound_.parameters[i];
    const Tensor copy = upload(*device_, download(old), {old.count()});
    bound_.model.units[i]->bind(copy, bound_.gradients[i]);
    x = bound_.model.units[i]->backward(x);
    bound_.model.units[i]->bind({}, {});
  }
  EXPECT_EQ(bound_.all_gradients(), expected);
}

INSTANTIATE_TEST_SUITE_P(Models, WholeModel, testing::Values("gpt", "mlp"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace ringside
