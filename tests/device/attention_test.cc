// Attention and rotary positions on every device against float64 references.
#include "tests/device/harness.h"

namespace ringside {
namespace {

using reference::AttentionShape;
using reference::CrossShape;
using reference::Values;

class AttentionKernels : public KernelsOnDevice {
 protected:
  static Shape qkv_shape(const AttentionShape& s) {
    return {s.samples, s.positions, s.heads + 2 * s.key_heads, s.depth};
  }
  static Shape y_shape(const AttentionShape& s) {
    return {s.samples, s.positions, s.heads, s.depth};
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, AttentionKernels, ::testing::ValuesIn(layers_under_test()),
                         case_name);

TEST_P(AttentionKernels, AgreeWithReference) {
  for (const bool causal : {true, false})
    for (const auto& s :
         {AttentionShape{1, 1, 1, 1, 1, causal}, AttentionShape{2, 7, 3, 3, 5, causal},
          AttentionShape{1, 33, 2, 2, 16, causal}, AttentionShape{2, 64, 1, 1, 8, causal},
          AttentionShape{1, 130, 3, 3, 33, causal}, AttentionShape{2, 128, 2, 2, 64, causal},
          // Heads of queries that share keys and values:
          AttentionShape{2, 7, 6, 1, 5, causal}, AttentionShape{2, 40, 4, 2, 8, causal},
          AttentionShape{1, 130, 8, 2, 16, causal}, AttentionShape{1, 300, 6, 3, 32, causal}}) {
      const Values qkv = normal(qkv_shape(s).count()), dy = normal(y_shape(s).count());
      AttentionForward forward{.qkv = upload(qkv_shape(s), qkv),
                               .causal = causal,
                               .y = output(y_shape(s)),
                               .statistics = output_f32({s.samples, s.heads, s.positions})};
      kernels().attention_forward(forward);
      const auto expected = reference::attention(qkv, s);
      SCOPED_TRACE(::testing::Message() << s.positions << " positions, heads " << s.heads << ", "
                                        << s.key_heads << ", causal " << causal);
      EXPECT_CLOSE(forward.y, expected.y);
      EXPECT_CLOSE(forward.statistics, expected.statistics);

      AttentionBackward backward{.dy = upload(y_shape(s), dy),
                                 .qkv = forward.qkv,
                                 .causal = causal,
                                 .y = forward.y,
                                 .statistics = forward.statistics,
                                 .dqkv = output(qkv_shape(s))};
      kernels().attention_backward(backward);
      EXPECT_CLOSE(backward.dqkv, reference::attention_backward(dy, qkv, s));
    }
}

TEST_P(AttentionKernels, HoldWithScoresThatWouldOverflow) {
  const AttentionShape s{1, 70, 1, 1, 4, true};
  Values qkv = normal(3 * 70 * 4);
  for (auto& value : qkv) value *= 20;
  qkv = held(qkv);
  AttentionForward op{.qkv = upload(qkv_shape(s), qkv),
                      .y = output(y_shape(s)),
                      .statistics = output_f32({1, 1, 70})};
  kernels().attention_forward(op);
  // In fp32 a score of size 1e3 has an error of about 1e-4, and so has the logarithm in
  // `statistics`.
  EXPECT_LT(distance(op.y, reference::attention(qkv, s).y), std::max(tolerance(op.y), 1e-3));
  EXPECT_CLOSE(op.statistics, reference::attention(qkv, s).statistics);
}

TEST_P(AttentionKernels, OfSharedKeysGiveTheSameBitsForTheSameOperands) {
  const AttentionShape s{2, 100, 6, 2, 16, true};
  const Values qkv = normal(qkv_shape(s).count()), dy = normal(y_shape(s).count());
  std::vector<std::vector<float>> results;
  std::vector<Tensor> kept;  // moves later operands to other addresses
  for (int repeat = 0; repeat < 3; ++repeat) {
    kept.push_back(output({1 + 37 * repeat}));
    AttentionForward forward{.qkv = upload(qkv_shape(s), qkv),
                             .y = output(y_shape(s)),
                             .statistics = output_f32({2, 6, 100})};
    kernels().attention_forward(forward);
    AttentionBackward backward{.dy = upload(y_shape(s), dy),
                               .qkv = forward.qkv,
                               .y = forward.y,
                               .statistics = forward.statistics,
                               .dqkv = output(qkv_shape(s))};
    kernels().attention_backward(backward);
    results.push_back(download(backward.dqkv));
    kept.push_back(forward.qkv);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

class CrossAttentionKernels : public AttentionKernels {
 protected:
  struct Operands {
    Shape y, kv, bias;
    Values q_values, kv_values, bias_values, dy_values;
  };
  Operands operands(const CrossShape& s, bool biased) {
    Operands out{{s.samples, s.queries, s.heads, s.depth},
                 {s.samples, s.keys, 2 * s.heads, s.depth},
                 {s.queries + s.keys - 1, s.heads},
                 {},
                 {},
                 {},
                 {}};
    out.q_values = normal(out.y.count());
    out.kv_values = normal(out.kv.count());
    if (biased) out.bias_values = normal(out.bias.count());
    out.dy_values = normal(out.y.count());
    return out;
  }
  CrossAttentionForward forward(const CrossShape& s, const Operands& o) {
    CrossAttentionForward op{.q = upload(o.y, o.q_values),
                             .kv = upload(o.kv, o.kv_values),
                             .scale = static_cast<float>(s.scale),
                             .causal = s.causal,
                             .y = output(o.y),
                             .statistics = output_f32({s.samples, s.heads, s.queries})};
    if (!o.bias_values.empty()) op.bias = upload(o.bias, o.bias_values);
    kernels().cross_attention_forward(op);
    return op;
  }
  /// `before` is what dbias holds before its part is added.
  CrossAttentionBackward backward(const CrossAttentionForward& done, const Operands& o,
                                  const Values& before) {
    CrossAttentionBackward op{.dy = upload(o.y, o.dy_values),
                              .q = done.q,
                              .kv = done.kv,
                              .bias = done.bias,
                              .scale = done.scale,
                              .causal = done.causal,
                              .y = done.y,
                              .statistics = done.statistics,
                              .dq = output(o.y),
                              .dkv = output(o.kv)};
    if (op.bias) op.dbias = upload(o.bias, before, DType::f32);
    kernels().cross_attention_backward(op);
    return op;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, CrossAttentionKernels, ::testing::ValuesIn(layers_under_test()),
                         case_name);

TEST_P(CrossAttentionKernels, AgreeWithReference) {
  for (const bool biased : {false, true})
    for (const auto& s :
         {CrossShape{1, 1, 1, 1, 1, false, 1}, CrossShape{2, 7, 7, 3, 5, true, 1},
          CrossShape{2, 5, 9, 2, 4, false, 0.5}, CrossShape{2, 33, 6, 2, 16, false, 0.25},
          CrossShape{1, 130, 130, 2, 33, true, 0.2}, CrossShape{1, 40, 300, 3, 8, false, 0.3},
          CrossShape{1, 128, 128, 2, 64, false, 0.125}}) {
      SCOPED_TRACE(::testing::Message() << s.queries << " queries, " << s.keys << " keys, causal "
                                        << s.causal << ", biased " << biased);
      const Operands o = operands(s, biased);
      const CrossAttentionForward done = forward(s, o);
      const auto expected = reference::cross_attention(o.q_values, o.kv_values, o.bias_values, s);
      EXPECT_CLOSE(done.y, expected.y);
      EXPECT_CLOSE(done.statistics, expected.statistics);
      Values before = normal_f32(o.bias.count());
      const CrossAttentionBackward back = backward(done, o, before);
      const auto gradients = reference::cross_attention_backward(o.dy_values, o.q_values,
                                                                 o.kv_values, o.bias_values, s);
      // The gradients of queries and keys are 0 where there is one key.
      EXPECT_CLOSE(back.dq, gradients.q);
      EXPECT_CLOSE(back.dkv, gradients.kv);
      if (!biased) continue;
      for (std::size_t i = 0; i < before.size(); ++i) before[i] += gradients.bias[i];
      // In 16 bits y was rounded before the gradient of the scores is computed with it.
      EXPECT_LT(distance(back.dbias, before), tolerance(back.dy));
    }
}

TEST_P(CrossAttentionKernels, GiveASampleTheBitsThatItHasAlone) {
  const CrossShape both{2, 50, 20, 3, 8, false, 1}, alone{1, 50, 20, 3, 8, false, 1};
  Operands o = operands(both, true);
  const CrossAttentionForward done = forward(both, o);
  const CrossAttentionBackward back = backward(done, o, Values(o.bias_values.size(), 0.0));
  const auto second_half = [](auto values) {
    values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
    return values;
  };
  Operands one = operands(alone, true);
  one.q_values = second_half(o.q_values);
  one.kv_values = second_half(o.kv_values);
  one.dy_values = second_half(o.dy_values);
  one.bias_values = o.bias_values;
  const CrossAttentionForward done_alone = forward(alone, one);
  const CrossAttentionBackward back_alone =
      backward(done_alone, one, Values(o.bias_values.size(), 0.0));
  EXPECT_EQ(download(done_alone.y), second_half(download(done.y)));
  EXPECT_EQ(download(back_alone.dq), second_half(download(back.dq)));
  EXPECT_EQ(download(back_alone.dkv), second_half(download(back.dkv)));
}

TEST_P(CrossAttentionKernels, GiveTheSameBitsForTheSameOperands) {
  const CrossShape s{3, 60, 60, 2, 8, true, 1};
  const Operands o = operands(s, true);
  std::vector<std::vector<float>> results;
  for (int repeat = 0; repeat < 3; ++repeat)
    results.push_back(
        download(backward(forward(s, o), o, Values(o.bias_values.size(), 0.5)).dbias));
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_P(AttentionKernels, RotaryPositionsAgreeWithReference) {
  struct {
    std::int64_t samples, positions, all_heads, heads, depth;
    double base, factor;
  } shapes[] = {{1, 1, 1, 1, 2, 10000, 1},     {2, 7, 5, 3, 6, 10000, 1},
                {1, 300, 3, 2, 64, 500000, 8}, {3, 130, 4, 4, 128, 500000, 32},
                {1, 2, 2, 1, 512, 10000, 1},   {1, 3000, 1, 1, 16, 10000, 8}};
  for (const auto& s : shapes)
    for (const bool inverse : {false, true}) {
      const Shape shape{s.samples, s.positions, s.all_heads, s.depth};
      const Values x = normal(shape.count());
      const Rotary op{.x = upload(shape, x),
                      .heads = s.heads,
                      .base = s.base,
                      .factor = s.factor,
                      .inverse = inverse};
      kernels().rotary(op);
      Values expected = x;
      const std::int64_t half = s.depth / 2;
      for (std::int64_t row = 0; row < s.samples * s.positions; ++row)
        for (std::int64_t head = 0; head < s.heads; ++head)
          for (std::int64_t i = 0; i < half; ++i) {
            const double frequency = reference::rotary_frequency(s.base, s.factor, i, s.depth);
            const double angle =
                static_cast<double>(row % s.positions) * frequency * (inverse ? -1 : 1);
            const auto first = static_cast<std::size_t>((row * s.all_heads + head) * s.depth + i);
            const auto second = first + static_cast<std::size_t>(half);
            expected[first] = x[first] * std::cos(angle) - x[second] * std::sin(angle);
            expected[second] = x[second] * std::cos(angle) + x[first] * std::sin(angle);
          }
      SCOPED_TRACE(::testing::Message() << s.positions << " positions, depth " << s.depth);
      EXPECT_CLOSE(op.x, expected);
    }
}

}  // namespace
}  // namespace ringside
