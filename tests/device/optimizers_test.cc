// Tests of the updates of optimizers on every device: the values are right, and an element's bits
// do not depend on its position.
#include "tests/device/flat_fixture.h"

namespace ringside {
namespace {

using reference::Values;

class OptimizerKernels : public FlatKernels {
 protected:
  /// Parameters, gradients, both moments and, for parameters of 16 bits, their master values.
  std::vector<Operand> with_moments(std::int64_t count) {
    const Values p = normal(count);
    std::vector<Operand> operands = {{p, dtype()},
                                     {normal(count), dtype()},
                                     {normal_f32(count), DType::f32},
                                     {positive(count), DType::f32}};
    if (dtype() != DType::f32) operands.push_back({masters(p), DType::f32});
    return operands;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, OptimizerKernels,
                         ::testing::ValuesIn(flat_operations_under_test()), case_name);

TEST_P(OptimizerKernels, AdamWAgreesWithReference) {
  for (const auto count : flat_sizes)
    for (const std::int64_t step : {1, 2, 1000}) {
      const float gradient_scale = step == 2 ? 0.25f : 1.0f;
      const Values p = normal(count), g = normal(count), finer = masters(p);
      const Values m = normal_f32(count), v = positive(count);
      const AdamW op{.parameters = upload({count}, p),
                     .gradients = upload({count}, g),
                     .master = upload_masters(finer),
                     .first_moment = upload({count}, m, DType::f32),
                     .second_moment = upload({count}, v, DType::f32),
                     .lr = 0.1f,
                     .beta1 = 0.9f,
                     .beta2 = 0.95f,
                     .epsilon = 1e-8f,
                     .weight_decay = 0.1f,
                     .gradient_scale = gradient_scale,
                     .step = step};
      kernels().adamw(op);
      const auto expected = reference::adamw(op, finer.empty() ? p : finer, g, m, v);
      expect_updated(op.parameters, op.master, expected.parameters);
      EXPECT_CLOSE(op.first_moment, expected.first);
      EXPECT_CLOSE(op.second_moment, expected.second);
    }
}

TEST_P(OptimizerKernels, SgdAgreesWithReference) {
  for (const auto count : flat_sizes)
    for (const std::int64_t step : {1, 2})
      for (const bool nesterov : {false, true})
        for (const float gradient_scale : {1.0f, 0.125f}) {
          const Values p = normal(count), g = normal(count), finer = masters(p);
          const Values u = normal_f32(count);
          Sgd op{.parameters = upload({count}, p),
                 .gradients = upload({count}, g),
                 .master = upload_masters(finer),
                 .velocity = upload({count}, u, DType::f32),
                 .lr = 0.1f,
                 .momentum = 0.9f,
                 .weight_decay = 0.01f,
                 .nesterov = nesterov,
                 .gradient_scale = gradient_scale,
                 .step = step};
          kernels().sgd(op);
          const auto expected = reference::sgd(op, finer.empty() ? p : finer, g, u);
          expect_updated(op.parameters, op.master, expected.parameters);
          EXPECT_CLOSE(op.velocity, expected.first);
        }
}

TEST_P(OptimizerKernels, SgdWithoutMomentumNeedsNoVelocity) {
  const Values p = normal(130), g = normal(130), finer = masters(p);
  const Sgd op{.parameters = upload({130}, p),
               .gradients = upload({130}, g),
               .master = upload_masters(finer),
               .lr = 0.5f,
               .weight_decay = 0.1f,
               .gradient_scale = 0.5f,
               .step = 3};
  kernels().sgd(op);
  const Values none(130, 0.0);
  expect_updated(op.parameters, op.master,
                 reference::sgd(op, finer.empty() ? p : finer, g, none).parameters);
}

TEST_P(OptimizerKernels, SgdIgnoresWhatVelocityHeldBeforeStepOne) {
  const Values p = normal(130), g = normal(130);
  const Sgd op{.parameters = upload({130}, p),
               .gradients = upload({130}, g),
               .master = upload_masters(masters(p)),
               .velocity = output_f32({130}),
               .lr = 0.5f,
               .momentum = 0.9f};
  kernels().sgd(op);
  EXPECT_CLOSE(op.velocity, g);
}

TEST_P(OptimizerKernels, AdamWIsIndependentOfPosition) {
  for (const std::int64_t count : {101, 70001}) {
    expect_position_independent(with_moments(count), [&](const std::vector<Tensor>& t) {
      kernels().adamw({.parameters = t[0],
                       .gradients = t[1],
                       .master = t.size() > 4 ? t[4] : Tensor(),
                       .first_moment = t[2],
                       .second_moment = t[3],
                       .lr = 3e-4f,
                       .beta1 = 0.9f,
                       .beta2 = 0.999f,
                       .epsilon = 1e-8f,
                       .weight_decay = 0.1f,
                       .step = 7});
    });
  }
}

TEST_P(OptimizerKernels, SgdIsIndependentOfPosition) {
  for (const std::int64_t step : {1, 2})
    for (const float momentum : {0.0f, 0.9f}) {
      const Values p = normal(5003);
      std::vector<Operand> operands = {
          {p, dtype()}, {normal(5003), dtype()}, {normal_f32(5003), DType::f32}};
      if (dtype() != DType::f32) operands.push_back({masters(p), DType::f32});
      expect_position_independent(operands, [&](const std::vector<Tensor>& t) {
        kernels().sgd({.parameters = t[0],
                       .gradients = t[1],
                       .master = t.size() > 3 ? t[3] : Tensor(),
                       .velocity = t[2],
                       .lr = 3e-4f,
                       .momentum = momentum,
                       .weight_decay = 0.1f,
                       .step = step});
      });
    }
}

TEST_P(OptimizerKernels, GradientScalesOfPowersOfTwoChangeNoBit) {
  // Gradients twice as large, at half the scale, give the same update.
  constexpr std::int64_t count = 5003;
  const Values p = normal(count), g = normal(count), finer = masters(p);
  Values twice = g;
  for (auto& value : twice) value *= 2;
  const auto run = [&](const Values& gradients, float scale) {
    const Tensor parameters = upload({count}, p), master = upload_masters(finer);
    const Tensor m = upload({count}, Values(count, 0.5), DType::f32);
    const Tensor v = upload({count}, Values(count, 0.25), DType::f32);
    kernels().adamw({.parameters = parameters,
                     .gradients = upload({count}, gradients),
                     .master = master,
                     .first_moment = m,
                     .second_moment = v,
                     .lr = 0.1f,
                     .beta1 = 0.9f,
                     .beta2 = 0.99f,
                     .epsilon = 1e-8f,
                     .gradient_scale = scale,
                     .step = 2});
    return std::vector{download(parameters), download(m), download(v)};
  };
  EXPECT_EQ(run(twice, 0.5f), run(g, 1.0f));
}

/// Gradients of 16 bits that were summed in fp32 are the same numbers, and change the same bits.
TEST_P(OptimizerKernels, TakeGradientsOfFp32ForParametersOf16Bits) {
  constexpr std::int64_t count = 5003;
  const Values p = normal(count), g = normal(count), finer = masters(p);
  const Values m = normal_f32(count), v = positive(count);
  enum class Kind { adamw, sgd, lamb };
  const auto run = [&](Kind kind, DType gradients) {
    const Tensor parameters = upload({count}, p), master = upload_masters(finer);
    const Tensor gradient = upload({count}, g, gradients);
    const Tensor first = upload({count}, m, DType::f32), second = upload({count}, v, DType::f32);
    if (kind == Kind::adamw)
      kernels().adamw({.parameters = parameters,
                       .gradients = gradient,
                       .master = master,
                       .first_moment = first,
                       .second_moment = second,
                       .lr = 0.1f,
                       .beta1 = 0.9f,
                       .beta2 = 0.99f,
                       .epsilon = 1e-8f,
                       .step = 2});
    else if (kind == Kind::sgd)
      kernels().sgd({.parameters = parameters,
                     .gradients = gradient,
                     .master = master,
                     .velocity = first,
                     .lr = 0.1f,
                     .momentum = 0.9f,
                     .step = 2});
    else
      kernels().lamb_moments({.parameters = parameters,
                              .gradients = gradient,
                              .master = master,
                              .first_moment = first,
                              .second_moment = second,
                              .beta1 = 0.9f,
                              .beta2 = 0.99f,
                              .epsilon = 1e-6f,
                              .step = 2,
                              .squares = output_sums(2)});
    return std::vector{download(parameters), download(first), download(second)};
  };
  for (const Kind kind : {Kind::adamw, Kind::sgd, Kind::lamb})
    EXPECT_EQ(run(kind, dtype()), run(kind, DType::f32)) << static_cast<int>(kind);
}

/// Gradients of fp32 are not rounded to the dtype of the parameters.
TEST_P(OptimizerKernels, UseAllBitsOfGradientsOfFp32) {
  constexpr std::int64_t count = 130;
  const Values p = normal(count), g = normal_f32(count), finer = masters(p);
  const Values m = normal_f32(count), v = positive(count);
  const AdamW op{.parameters = upload({count}, p),
                 .gradients = upload({count}, g, DType::f32),
                 .master = upload_masters(finer),
                 .first_moment = upload({count}, m, DType::f32),
                 .second_moment = upload({count}, v, DType::f32),
                 .lr = 0.1f,
                 .beta1 = 0.9f,
                 .beta2 = 0.95f,
                 .epsilon = 1e-8f,
                 .step = 2};
  kernels().adamw(op);
  const auto expected = reference::adamw(op, finer.empty() ? p : finer, g, m, v);
  expect_updated(op.parameters, op.master, expected.parameters);
  EXPECT_CLOSE(op.first_moment, expected.first);
  EXPECT_CLOSE(op.second_moment, expected.second);
}

LambMoments lamb(std::int64_t step) {
  return {.beta1 = 0.9f,
          .beta2 = 0.99f,
          .epsilon = 1e-6f,
          .weight_decay = 0.1f,
          .gradient_scale = step == 2 ? 0.25f : 1.0f,
          .step = step};
}
LambUpdate update_after(const LambMoments& op, float rate) {
  return {.parameters = op.parameters,
          .master = op.master,
          .first_moment = op.first_moment,
          .second_moment = op.second_moment,
          .rate = rate,
          .beta1 = op.beta1,
          .beta2 = op.beta2,
          .epsilon = op.epsilon,
          .weight_decay = op.weight_decay,
          .step = op.step};
}

TEST_P(OptimizerKernels, LambAgreesWithReference) {
  for (const auto count : flat_sizes)
    for (const std::int64_t step : {1, 2, 1000}) {
      const Values p = normal(count), g = normal(count), finer = masters(p);
      const Values m = normal_f32(count), v = positive(count), &values = finer.empty() ? p : finer;
      LambMoments op = lamb(step);
      op.parameters = upload({count}, p);
      op.gradients = upload({count}, g);
      op.master = upload_masters(finer);
      op.first_moment = upload({count}, m, DType::f32);
      op.second_moment = upload({count}, v, DType::f32);
      op.squares = output_sums(2);
      kernels().lamb_moments(op);
      const auto moments = reference::lamb_moments(op, values, g, m, v);
      const Values u = reference::lamb_direction(op, values, moments.first, moments.second);
      EXPECT_CLOSE(op.first_moment, moments.first);
      EXPECT_CLOSE(op.second_moment, moments.second);
      const Values sums = sums_in(op.squares);
      EXPECT_NEAR(sums[0] / reference::sum_of_squares(values), 1, 1e-5);
      EXPECT_NEAR(sums[1] / reference::sum_of_squares(u), 1, 1e-5);
      EXPECT_EQ(distance(op.parameters, p), 0) << "only lamb_update() may write them";

      kernels().lamb_update(update_after(op, 0.05f));
      Values expected = values;
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] -= double{0.05f} * u[i];
      expect_updated(op.parameters, op.master, expected);
    }
}

TEST_P(OptimizerKernels, LambIsIndependentOfPosition) {
  for (const std::int64_t count : {101, 70001}) {
    expect_position_independent(with_moments(count), [&](const std::vector<Tensor>& t) {
      LambMoments op = lamb(7);
      op.parameters = t[0];
      op.gradients = t[1];
      op.first_moment = t[2];
      op.second_moment = t[3];
      if (t.size() > 4) op.master = t[4];
      op.squares = output_sums(2);
      kernels().lamb_moments(op);
      kernels().lamb_update(update_after(op, 0.01f));
    });
  }
}

}  // namespace
}  // namespace ringside
