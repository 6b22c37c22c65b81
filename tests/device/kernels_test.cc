// Kernels of layers on every device against float64 references.
#include "tests/device/harness.h"

namespace ringside {
namespace {

using reference::Values;

class LayerKernels : public KernelsOnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, LayerKernels, ::testing::ValuesIn(layers_under_test()),
                         case_name);

Values plus(Values a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

TEST_P(LayerKernels, FillEverySlot) {
  for_each_slot(kernels(), [](std::string_view name, const auto& kernel) {
    EXPECT_TRUE(static_cast<bool>(kernel)) << name;
  });
}

struct LinearShape {
  std::int64_t rows, in, out;
};
constexpr LinearShape linear_shapes[] = {{1, 1, 1},    {1, 7, 33},     {33, 7, 1},  {7, 130, 33},
                                         {130, 33, 7}, {65, 128, 257}, {300, 1, 5}, {512, 64, 96}};
constexpr Activation activations[] = {Activation::none, Activation::relu, Activation::gelu,
                                      Activation::gelu_erf, Activation::tanh};

TEST_P(LayerKernels, LinearForwardAgreesWithReference) {
  for (const auto& s : linear_shapes)
    for (const auto activation : activations)
      for (const bool with_bias : {true, false}) {
        const Values x = normal(s.rows * s.in), weight = normal(s.out * s.in), bias = normal(s.out);
        LinearForward op{.x = upload({s.rows, s.in}, x),
                         .weight = upload({s.out, s.in}, weight),
                         .activation = activation,
                         .y = output({s.rows, s.out})};
        if (with_bias) op.bias = upload({s.out}, bias);
        if (activation != Activation::none) op.pre = output({s.rows, s.out});
        kernels().linear_forward(op);

        Values pre = reference::product(x, false, weight, true, s.rows, s.out, s.in);
        if (with_bias)
          for (std::size_t i = 0; i < pre.size(); ++i) pre[i] += bias[i % bias.size()];
        Values y = pre;
        for (auto& value : y) value = reference::activate(activation, value);
        SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.in << "x" << s.out << " activation "
                                          << static_cast<int>(activation));
        if (op.pre) {
          EXPECT_CLOSE(op.pre, pre);
        }
        EXPECT_CLOSE(op.y, y);
      }
}

TEST_P(LayerKernels, LinearBackwardAgreesWithReference) {
  for (const auto& s : linear_shapes)
    for (const auto activation : activations)
      for (const bool optional : {true, false}) {
        const Values dy = normal(s.rows * s.out), x = normal(s.rows * s.in);
        const Values weight = normal(s.out * s.in), pre = normal(s.rows * s.out);
        LinearBackward op{.dy = upload({s.rows, s.out}, dy),
                          .x = upload({s.rows, s.in}, x),
                          .weight = upload({s.out, s.in}, weight),
                          .activation = activation,
                          .dweight = output({s.out, s.in})};
        if (activation != Activation::none) op.pre = upload({s.rows, s.out}, pre);
        if (optional) {
          op.dx = output({s.rows, s.in});
          op.dbias = output({s.out});
        }
        kernels().linear_backward(op);

        Values dpre = dy, dbias(static_cast<std::size_t>(s.out), 0.0);
        for (std::size_t i = 0; i < dpre.size(); ++i) {
          dpre[i] *= reference::slope(activation, pre[i]);
          dbias[i % dbias.size()] += dpre[i];
        }
        SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.in << "x" << s.out << " activation "
                                          << static_cast<int>(activation));
        EXPECT_CLOSE(op.dy, dpre);
        EXPECT_CLOSE(op.dweight, reference::product(dpre, true, x, false, s.out, s.in, s.rows));
        if (!optional) continue;
        EXPECT_CLOSE(op.dx, reference::product(dpre, false, weight, false, s.rows, s.in, s.out));
        // The terms of dbias were rounded before they were added up, and may cancel. So if the
        // terms have a larger norm than their sums, the error is divided by the norm of the terms.
        const double sum = std::sqrt(reference::sum_of_squares(dbias));
        const double terms = std::sqrt(reference::sum_of_squares(dpre));
        EXPECT_LT(distance(op.dbias, dbias) * sum / std::max(sum, terms), tolerance(op.dbias));
      }
}

TEST_P(LayerKernels, ActivationsHoldFarFromZero) {
  const Values x = held({-100, -20, -5, -1e-4, 0, 1e-4, 5, 20, 100});
  const auto count = static_cast<std::int64_t>(x.size());
  const double close = dtype() == DType::f32 ? 1e-6 : 4e-3;
  for (const auto activation : {Activation::gelu, Activation::gelu_erf, Activation::tanh}) {
    LinearForward op{.x = upload({count, 1}, x),
                     .weight = upload({1, 1}, Values{1}),
                     .activation = activation,
                     .pre = output({count, 1}),
                     .y = output({count, 1})};
    kernels().linear_forward(op);
    LinearBackward backward{.dy = upload({count, 1}, Values(x.size(), 1.0)),
                            .x = op.x,
                            .weight = op.weight,
                            .activation = activation,
                            .pre = op.pre,
                            .dweight = output({1, 1})};
    kernels().linear_backward(backward);
    const auto y = download(op.y), slope = download(backward.dy);
    for (std::size_t i = 0; i < x.size(); ++i) {
      SCOPED_TRACE(::testing::Message()
                   << "activation " << static_cast<int>(activation) << " of " << x[i]);
      EXPECT_NEAR(y[i], reference::activate(activation, x[i]), close * (1 + std::abs(x[i])));
      EXPECT_NEAR(slope[i], reference::slope(activation, x[i]), 4 * close);
    }
  }
}

TEST_P(LayerKernels, LinearBackwardInHalvesHasTheBitsOfTheWhole) {
  for (const auto& s : linear_shapes)
    for (const auto activation : activations) {
      const Values dy = normal(s.rows * s.out), pre = normal(s.rows * s.out);
      LinearBackward whole{.dy = upload({s.rows, s.out}, dy),
                           .x = upload({s.rows, s.in}, normal(s.rows * s.in)),
                           .weight = upload({s.out, s.in}, normal(s.out * s.in)),
                           .activation = activation,
                           .dx = output({s.rows, s.in}),
                           .dweight = output({s.out, s.in}),
                           .dbias = output({s.out})};
      if (activation != Activation::none) whole.pre = upload({s.rows, s.out}, pre);
      const LinearBackward input{.dy = upload({s.rows, s.out}, dy),
                                 .weight = whole.weight,
                                 .activation = activation,
                                 .pre = whole.pre,
                                 .dx = output({s.rows, s.in})};
      const LinearBackward parameters{
          .dy = input.dy, .x = whole.x, .dweight = output({s.out, s.in}), .dbias = output({s.out})};
      for (const LinearBackward& op : {whole, input, parameters}) kernels().linear_backward(op);
      SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.in << "x" << s.out << " activation "
                                        << static_cast<int>(activation));
      EXPECT_EQ(download(input.dy), download(whole.dy));
      EXPECT_EQ(download(input.dx), download(whole.dx));
      EXPECT_EQ(download(parameters.dweight), download(whole.dweight));
      EXPECT_EQ(download(parameters.dbias), download(whole.dbias));
    }
}

TEST_P(LayerKernels, EmbeddingAgreesWithReference) {
  struct {
    std::int64_t samples, positions, width, vocabulary, table_rows;
  } shapes[] = {{1, 1, 1, 1, 1},       {3, 7, 33, 5, 9},       {2, 130, 64, 300, 130},
                {2, 50, 8, 50257, 60}, {2, 50, 24, 50304, 50}, {5, 200, 320, 7, 200},
                {2, 100, 40, 256, 128}};
  for (const auto& s : shapes)
    for (const bool with_positions : {true, false}) {
      const auto tokens = integers(s.samples * s.positions, s.vocabulary);
      const Values table = normal(s.vocabulary * s.width), places = normal(s.table_rows * s.width);
      const Values dy = normal(s.samples * s.positions * s.width);
      const Shape rows{s.samples * s.positions, s.width};
      EmbeddingForward forward{.tokens = upload({s.samples, s.positions}, tokens),
                               .token_table = upload({s.vocabulary, s.width}, table),
                               .y = output(rows)};
      EmbeddingBackward backward{.tokens = forward.tokens,
                                 .dy = upload(rows, dy),
                                 .dtoken_table = output({s.vocabulary, s.width})};
      if (with_positions) {
        forward.position_table = upload({s.table_rows, s.width}, places);
        backward.dposition_table = output({s.table_rows, s.width});
      }
      kernels().embedding_forward(forward);
      kernels().embedding_backward(backward);

      Values y(dy.size()), dtable(table.size(), 0.0), dplaces(places.size(), 0.0);
      for (std::int64_t i = 0; i < s.samples * s.positions; ++i)
        for (std::int64_t c = 0; c < s.width; ++c) {
          const auto here = static_cast<std::size_t>(i * s.width + c);
          const auto token =
              static_cast<std::size_t>(tokens[static_cast<std::size_t>(i)] * s.width + c);
          const auto place = static_cast<std::size_t>(i % s.positions * s.width + c);
          y[here] = table[token] + (with_positions ? places[place] : 0);
          dtable[token] += dy[here];
          dplaces[place] += dy[here];
        }
      EXPECT_CLOSE(forward.y, y);
      EXPECT_CLOSE(backward.dtoken_table, dtable);
      if (with_positions) {
        EXPECT_CLOSE(backward.dposition_table, dplaces);
      }
    }
}

struct KernelRows {
  std::int64_t rows, width;
};
constexpr KernelRows kernel_rows[] = {{1, 5},    {7, 33},   {33, 130}, {130, 7},
                                      {600, 64}, {70, 768}, {5, 2056}, {3, 20000}};

TEST_P(LayerKernels, LayerNormForwardAgreesWithReference) {
  enum Case { plain, sum_apart, sum_in_x, sum_in_residual, sum_unwanted };
  for (const auto& s : kernel_rows)
    for (const auto which : {plain, sum_apart, sum_in_x, sum_in_residual, sum_unwanted}) {
      const Values x = normal(s.rows * s.width), residual = normal(s.rows * s.width);
      const Values weight = normal(s.width), bias = normal(s.width);
      LayerNormForward op{.x = upload({s.rows, s.width}, x),
                          .weight = upload({s.width}, weight),
                          .bias = upload({s.width}, bias),
                          .y = output({s.rows, s.width}),
                          .mean = output_f32({s.rows}),
                          .rstd = output_f32({s.rows})};
      if (which != plain) op.residual = upload({s.rows, s.width}, residual);
      if (which == sum_apart) op.sum = output({s.rows, s.width});
      if (which == sum_unwanted) op.epsilon = 0.5f;
      if (which == sum_in_x) op.sum = op.x;
      if (which == sum_in_residual) op.sum = op.residual;
      kernels().layer_norm_forward(op);

      const Values sum = which == plain ? x : plus(x, residual);
      const auto expected = reference::layer_norm(sum, weight, bias, s.rows, op.epsilon);
      SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.width << " case " << which);
      EXPECT_CLOSE(op.y, expected.y);
      EXPECT_CLOSE(op.mean, expected.mean);
      EXPECT_CLOSE(op.rstd, expected.rstd);
      if (op.sum) {
        EXPECT_CLOSE(op.sum, sum);
      }
    }
}

TEST_P(LayerKernels, LayerNormBackwardAgreesWithReference) {
  enum Case { plain, residual_apart, residual_in_dx };
  for (const auto& s : kernel_rows)
    for (const auto which : {plain, residual_apart, residual_in_dx}) {
      const Values dy = normal(s.rows * s.width), x = normal(s.rows * s.width);
      const Values weight = normal(s.width), dresidual = normal(s.rows * s.width);
      const auto statistics = reference::layer_norm(x, weight, weight, s.rows);
      LayerNormBackward op{.dy = upload({s.rows, s.width}, dy),
                           .x = upload({s.rows, s.width}, x),
                           .weight = upload({s.width}, weight),
                           .mean = upload({s.rows}, statistics.mean, DType::f32),
                           .rstd = upload({s.rows}, statistics.rstd, DType::f32),
                           .dx = output({s.rows, s.width}),
                           .dweight = output({s.width}),
                           .dbias = output({s.width})};
      if (which != plain) op.dresidual = upload({s.rows, s.width}, dresidual);
      if (which == residual_in_dx) op.dx = op.dresidual;
      kernels().layer_norm_backward(op);

      const auto expected = reference::layer_norm_backward(dy, x, weight, s.rows);
      SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.width << " case " << which);
      EXPECT_CLOSE(op.dx, which == plain ? expected.dx : plus(expected.dx, dresidual));
      EXPECT_CLOSE(op.dweight, expected.dweight);
      EXPECT_CLOSE(op.dbias, expected.dbias);
    }
}

TEST_P(LayerKernels, RmsNormForwardAgreesWithReference) {
  enum Case { plain, sum_apart, sum_in_x, sum_in_residual, sum_unwanted };
  for (const auto& s : kernel_rows)
    for (const auto which : {plain, sum_apart, sum_in_x, sum_in_residual, sum_unwanted}) {
      const Values x = normal(s.rows * s.width), residual = normal(s.rows * s.width);
      const Values weight = normal(s.width);
      RmsNormForward op{.x = upload({s.rows, s.width}, x),
                        .weight = upload({s.width}, weight),
                        .y = output({s.rows, s.width}),
                        .rstd = output_f32({s.rows})};
      if (which != plain) op.residual = upload({s.rows, s.width}, residual);
      if (which == sum_apart) op.sum = output({s.rows, s.width});
      if (which == sum_unwanted) op.epsilon = 0.5f;
      if (which == sum_in_x) op.sum = op.x;
      if (which == sum_in_residual) op.sum = op.residual;
      kernels().rms_norm_forward(op);

      const Values sum = which == plain ? x : plus(x, residual);
      const auto expected = reference::rms_norm(sum, weight, s.rows, op.epsilon);
      SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.width << " case " << which);
      EXPECT_CLOSE(op.y, expected.y);
      EXPECT_CLOSE(op.rstd, expected.rstd);
      if (op.sum) {
        EXPECT_CLOSE(op.sum, sum);
      }
    }
}

TEST_P(LayerKernels, RmsNormBackwardAgreesWithReference) {
  enum Case { plain, residual_apart, residual_in_dx };
  for (const auto& s : kernel_rows)
    for (const auto which : {plain, residual_apart, residual_in_dx}) {
      const Values dy = normal(s.rows * s.width), x = normal(s.rows * s.width);
      const Values weight = normal(s.width), dresidual = normal(s.rows * s.width);
      RmsNormBackward op{
          .dy = upload({s.rows, s.width}, dy),
          .x = upload({s.rows, s.width}, x),
          .weight = upload({s.width}, weight),
          .rstd = upload({s.rows}, reference::rms_norm(x, weight, s.rows).rstd, DType::f32),
          .dx = output({s.rows, s.width}),
          .dweight = output({s.width})};
      if (which != plain) op.dresidual = upload({s.rows, s.width}, dresidual);
      if (which == residual_in_dx) op.dx = op.dresidual;
      kernels().rms_norm_backward(op);

      const auto expected = reference::rms_norm_backward(dy, x, weight, s.rows);
      SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.width << " case " << which);
      EXPECT_CLOSE(op.dx, which == plain ? expected.dx : plus(expected.dx, dresidual));
      EXPECT_CLOSE(op.dweight, expected.dweight);
    }
}

TEST_P(LayerKernels, SwiGluAgreesWithReference) {
  for (const auto& s : kernel_rows)
    for (const bool in_place : {false, true}) {
      Values x = normal(s.rows * 2 * s.width);
      for (std::size_t i = 0; i < x.size(); i += 3) x[i] *= 16;  // also where silu is flat
      x = held(x);
      const Values dy = normal(s.rows * s.width);
      const Shape whole{s.rows, 2 * s.width}, half{s.rows, s.width};
      const SwiGluForward forward{.x = upload(whole, x), .y = output(half)};
      kernels().swiglu_forward(forward);
      const SwiGluBackward backward{
          .dy = upload(half, dy), .x = forward.x, .dx = in_place ? forward.x : output(whole)};
      kernels().swiglu_backward(backward);
      Values y(dy.size()), dx(x.size());
      for (std::int64_t i = 0; i < s.rows * s.width; ++i) {
        const auto here = static_cast<std::size_t>(i);
        const auto gate = static_cast<std::size_t>(i / s.width * 2 * s.width + i % s.width);
        const auto up = gate + static_cast<std::size_t>(s.width);
        y[here] = reference::silu(x[gate]) * x[up];
        dx[gate] = dy[here] * x[up] * reference::silu_slope(x[gate]);
        dx[up] = dy[here] * reference::silu(x[gate]);
      }
      SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.width << " in place " << in_place);
      EXPECT_CLOSE(forward.y, y);
      EXPECT_CLOSE(backward.dx, dx);
    }
}

TEST_P(LayerKernels, TakeRowsAgreesWithReference) {
  struct {
    std::int64_t samples, rows, taken, width;
  } shapes[] = {{1, 1, 1, 1}, {3, 7, 4, 33}, {2, 130, 20, 64}, {5, 4, 9, 7}};
  for (const auto& s : shapes) {
    const auto positions = integers(s.samples * s.taken, s.rows);
    const Values x = normal(s.samples * s.rows * s.width);
    const Values dy = normal(s.samples * s.taken * s.width);
    const TakeRowsForward forward{.x = upload({s.samples, s.rows, s.width}, x),
                                  .positions = upload({s.samples, s.taken}, positions),
                                  .y = output({s.samples * s.taken, s.width})};
    const TakeRowsBackward backward{.dy = upload({s.samples * s.taken, s.width}, dy),
                                    .positions = forward.positions,
                                    .dx = output({s.samples, s.rows, s.width})};
    kernels().take_rows_forward(forward);
    kernels().take_rows_backward(backward);
    Values y(dy.size()), dx(x.size(), 0.0);
    for (std::int64_t i = 0; i < s.samples * s.taken; ++i)
      for (std::int64_t c = 0; c < s.width; ++c) {
        const auto here = static_cast<std::size_t>(i * s.width + c);
        const auto there = static_cast<std::size_t>(
            (i / s.taken * s.rows + positions[static_cast<std::size_t>(i)]) * s.width + c);
        y[here] = x[there];
        dx[there] += dy[here];
      }
    EXPECT_EQ(distance(forward.y, y), 0);
    EXPECT_CLOSE(backward.dx, dx);
  }
}

TEST_P(LayerKernels, GiveTheSameBitsForTheSameOperands) {
  const Values qkv = normal(2 * 100 * 3 * 48), dy = normal(2 * 100 * 48);
  std::vector<std::vector<float>> results;
  std::vector<Tensor> kept;  // moves later operands to other addresses
  for (int repeat = 0; repeat < 3; ++repeat) {
    kept.push_back(output({1 + 37 * repeat}));
    AttentionForward forward{.qkv = upload({2, 100, 9, 16}, qkv),
                             .y = output({2, 100, 3, 16}),
                             .statistics = output_f32({2, 3, 100})};
    kernels().attention_forward(forward);
    AttentionBackward backward{.dy = upload({2, 100, 3, 16}, dy),
                               .qkv = forward.qkv,
                               .y = forward.y,
                               .statistics = forward.statistics,
                               .dqkv = output({2, 100, 9, 16})};
    kernels().attention_backward(backward);
    LayerNormBackward norm{.dy = upload({200, 48}, dy),
                           .x = forward.y.reshaped({200, 48}),
                           .weight = upload({48}, Values(48, 1.0)),
                           .mean = upload({200}, Values(200, 0.0), DType::f32),
                           .rstd = upload({200}, Values(200, 1.0), DType::f32),
                           .dx = output({200, 48}),
                           .dweight = output({48}),
                           .dbias = output({48})};
    kernels().layer_norm_backward(norm);
    auto bits = download(backward.dqkv);
    for (const auto& more : {norm.dx, norm.dweight, norm.dbias}) {
      const auto values = download(more);
      bits.insert(bits.end(), values.begin(), values.end());
    }
    results.push_back(std::move(bits));
    kept.push_back(forward.qkv);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace ringside
