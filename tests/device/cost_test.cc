// Compares the costs of operations with closed forms, which count elements of 4 bytes.
#include "core/device/cost.h"

#include <gtest/gtest.h>

#include <set>

namespace ringside {
namespace {

Tensor made(Shape shape, DType dtype = DType::f32) {
  const auto bytes = static_cast<std::size_t>(shape.count()) * size_of(dtype);
  auto buffer =
      std::make_shared<Buffer>(nullptr, bytes, MemoryKind::activation, SymmetricAddress{}, nullptr);
  return {std::move(buffer), 0, shape, dtype};
}
Tensor integers(Shape shape) { return made(shape, DType::i32); }

void expect_cost(const OpCost& actual, OpClass kind, double operations, double elements) {
  EXPECT_EQ(name_of(actual.kind), name_of(kind));
  EXPECT_EQ(actual.operations, operations);
  EXPECT_EQ(actual.bytes, 4 * elements);
}

TEST(Cost, ClassesHaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < op_classes; ++i) names.insert(name_of(static_cast<OpClass>(i)));
  EXPECT_EQ(names.size(), op_classes);
  EXPECT_EQ(names.count(""), 0u);
}

TEST(Cost, FlatOperations) {
  const Tensor a = made({1000}), b = made({1000}), c = made({1000}), d = made({1000});
  expect_cost(cost(Fill{.out = a}), OpClass::elementwise, 0, 1000);
  expect_cost(cost(Copy{.in = a, .out = b}), OpClass::elementwise, 0, 2000);
  expect_cost(cost(Add{.in = a, .out = b}), OpClass::elementwise, 1000, 3000);
  expect_cost(cost(Divide{.in = a, .by = made({1}), .out = b}), OpClass::elementwise, 1000, 2001);
  expect_cost(cost(CompensateDelay{.gradients = a, .now = b, .read = c, .out = d}),
              OpClass::elementwise, 5000, 4000);
  expect_cost(cost(AdamW{.parameters = a, .gradients = b, .first_moment = c, .second_moment = d}),
              OpClass::optimizer, 14000, 7000);
}

TEST(Cost, CopiesCountBytesOfAnyType) {
  const Tensor in = made({1000}, DType::u8), out = made({1000}, DType::u8);
  EXPECT_EQ(cost(Copy{.in = in, .out = out}).bytes, 2000);
}

TEST(Cost, SgdTouchesItsVelocityWhereThereIsMomentum) {
  Sgd op{.parameters = made({100}), .gradients = made({100})};
  expect_cost(cost(op), OpClass::optimizer, 400, 300);
  op.velocity = made({100});
  op.momentum = 0.9f;
  expect_cost(cost(op), OpClass::optimizer, 400, 400);  // step 1 writes velocity without reading it
  op.step = 2;
  expect_cost(cost(op), OpClass::optimizer, 600, 500);
}

TEST(Cost, Linear) {
  constexpr std::int64_t m = 30, in = 20, out = 50;
  constexpr double product = 2.0 * m * in * out;
  LinearForward forward{.x = made({m, in}), .weight = made({out, in}), .y = made({m, out})};
  expect_cost(cost(forward), OpClass::linear, product, m * in + in * out + m * out);
  forward.bias = made({out});
  expect_cost(cost(forward), OpClass::linear, product, m * in + in * out + m * out + out);
  forward.activation = Activation::gelu;
  forward.pre = made({m, out});
  expect_cost(cost(forward), OpClass::linear, product, m * in + in * out + 2 * m * out + out);

  LinearBackward backward{.dy = made({m, out}),
                          .x = made({m, in}),
                          .weight = made({out, in}),
                          .dweight = made({out, in})};
  expect_cost(cost(backward), OpClass::linear, product, m * out + m * in + in * out);
  backward.dx = made({m, in});
  expect_cost(cost(backward), OpClass::linear, 2 * product, m * out + 2 * m * in + 2 * in * out);
  backward.dbias = made({out});
  backward.activation = Activation::relu;
  backward.pre = made({m, out});
  // dy is read and overwritten.
  expect_cost(cost(backward), OpClass::linear, 2 * product,
              3 * m * out + 2 * m * in + 2 * in * out + out);
  // Each half of the backward takes a product, as the forward does.
  expect_cost(cost(LinearBackward{.dy = backward.dy,
                                  .weight = backward.weight,
                                  .activation = backward.activation,
                                  .pre = backward.pre,
                                  .dx = backward.dx}),
              OpClass::linear, product, 3 * m * out + m * in + in * out);
  expect_cost(cost(LinearBackward{.dy = backward.dy,
                                  .x = backward.x,
                                  .dweight = backward.dweight,
                                  .dbias = backward.dbias}),
              OpClass::linear, product, m * out + m * in + in * out + out);
}

TEST(Cost, Embedding) {
  constexpr std::int64_t samples = 3, positions = 10, width = 8, many = 1000, few = 5, places = 16;
  constexpr std::int64_t rows = samples * positions;
  EmbeddingForward forward{.tokens = integers({samples, positions}),
                           .token_table = made({many, width}),
                           .y = made({rows, width})};
  expect_cost(cost(forward), OpClass::embedding, 0, rows + 2 * rows * width);
  forward.token_table = made({few, width});
  expect_cost(cost(forward), OpClass::embedding, 0, rows + few * width + rows * width);
  forward.position_table = made({places, width});
  expect_cost(cost(forward), OpClass::embedding, rows * width,
              rows + (few + positions) * width + rows * width);

  EmbeddingBackward backward{
      .tokens = forward.tokens, .dy = made({rows, width}), .dtoken_table = made({many, width})};
  expect_cost(cost(backward), OpClass::embedding, rows * width, rows + (rows + many) * width);
  backward.dposition_table = made({places, width});
  expect_cost(cost(backward), OpClass::embedding, 2 * rows * width,
              rows + (rows + many + places) * width);
}

/// One pass over `out`, however many codes are added.
TEST(Cost, CodesThatAreAddedTogether) {
  constexpr std::int64_t n = 3200;
  const Tensor code = made({n / 32}), norms = made({10});  // a bit for each element
  AddSigns signs{.signs = {code, code, code}, .magnitudes = {made({1}), made({1}), made({1})}};
  signs.out = made({n});
  expect_cost(cost(signs), OpClass::elementwise, 3 * n, 3 * (n / 32 + 1) + 2 * n);
  signs.onto = false;
  expect_cost(cost(signs), OpClass::elementwise, 3 * n, 3 * (n / 32 + 1) + n);

  const Tensor bytes = made({n / 4});
  AddQuantised sum{.codes = {bytes, bytes}, .norms = {norms, norms}, .out = made({n})};
  expect_cost(cost(sum), OpClass::elementwise, 4 * n, 2 * (n / 4 + 10) + 2 * n);
  sum.onto = false;
  expect_cost(cost(sum), OpClass::elementwise, 4 * n, 2 * (n / 4 + 10) + n);
}

TEST(Cost, LayerNorm) {
  constexpr std::int64_t m = 30, width = 20;
  LayerNormForward forward{.x = made({m, width}),
                           .weight = made({width}),
                           .bias = made({width}),
                           .y = made({m, width}),
                           .mean = made({m}),
                           .rstd = made({m})};
  expect_cost(cost(forward), OpClass::normalisation, 8 * m * width,
              2 * m * width + 2 * width + 2 * m);
  forward.residual = made({m, width});
  expect_cost(cost(forward), OpClass::normalisation, 9 * m * width,
              3 * m * width + 2 * width + 2 * m);
  forward.sum = forward.x;  // in place: read and written
  expect_cost(cost(forward), OpClass::normalisation, 9 * m * width,
              4 * m * width + 2 * width + 2 * m);

  LayerNormBackward backward{.dy = made({m, width}),
                             .x = made({m, width}),
                             .weight = made({width}),
                             .mean = made({m}),
                             .rstd = made({m}),
                             .dx = made({m, width}),
                             .dweight = made({width}),
                             .dbias = made({width})};
  expect_cost(cost(backward), OpClass::normalisation, 13 * m * width,
              3 * m * width + 3 * width + 2 * m);
  backward.dresidual = backward.dx;
  expect_cost(cost(backward), OpClass::normalisation, 14 * m * width,
              4 * m * width + 3 * width + 2 * m);
}

TEST(Cost, RmsNorm) {
  constexpr std::int64_t m = 30, width = 20;
  RmsNormForward forward{
      .x = made({m, width}), .weight = made({width}), .y = made({m, width}), .rstd = made({m})};
  expect_cost(cost(forward), OpClass::normalisation, 4 * m * width, 2 * m * width + width + m);
  forward.residual = made({m, width});
  forward.sum = forward.x;  // in place: read and written
  expect_cost(cost(forward), OpClass::normalisation, 5 * m * width, 4 * m * width + width + m);

  RmsNormBackward backward{.dy = made({m, width}),
                           .x = made({m, width}),
                           .weight = made({width}),
                           .rstd = made({m}),
                           .dx = made({m, width}),
                           .dweight = made({width})};
  expect_cost(cost(backward), OpClass::normalisation, 9 * m * width, 3 * m * width + 2 * width + m);
  backward.dresidual = backward.dx;
  expect_cost(cost(backward), OpClass::normalisation, 10 * m * width,
              4 * m * width + 2 * width + m);
}

TEST(Cost, SwiGluAndRotaryPositions) {
  constexpr std::int64_t m = 30, width = 20;
  const SwiGluForward forward{.x = made({m, 2 * width}), .y = made({m, width})};
  expect_cost(cost(forward), OpClass::elementwise, 4 * m * width, 3 * m * width);
  const SwiGluBackward backward{.dy = made({m, width}), .x = forward.x, .dx = forward.x};
  expect_cost(cost(backward), OpClass::elementwise, 10 * m * width, 5 * m * width);
  const Rotary rotary{.x = made({2, 9, 8, 4}), .heads = 6};  // 6 of 8 heads
  expect_cost(cost(rotary), OpClass::elementwise, 3 * 2 * 9 * 6 * 4, 2 * 2 * 9 * 6 * 4);
}

TEST(Cost, AttentionCountsThePairsThatTheMaskLeaves) {
  constexpr std::int64_t samples = 2, positions = 9, heads = 6, key_heads = 2, depth = 4;
  constexpr std::int64_t y = samples * positions * heads * depth;
  constexpr std::int64_t qkv = samples * positions * (heads + 2 * key_heads) * depth;
  for (const bool causal : {true, false}) {
    const double pairs = causal ? positions * (positions + 1) / 2 : positions * positions;
    const double unit = samples * heads * depth * pairs;
    const AttentionForward forward{.qkv = made({samples, positions, heads + 2 * key_heads, depth}),
                                   .causal = causal,
                                   .y = made({samples, positions, heads, depth}),
                                   .statistics = made({samples, heads, positions})};
    expect_cost(cost(forward), OpClass::attention, 4 * unit, qkv + y + samples * heads * positions);
    const AttentionBackward backward{
        .dy = made({samples, positions, heads, depth}),
        .qkv = forward.qkv,
        .causal = causal,
        .y = forward.y,
        .statistics = forward.statistics,
        .dqkv = made({samples, positions, heads + 2 * key_heads, depth})};
    expect_cost(cost(backward), OpClass::attention, 10 * unit,
                2 * qkv + 2 * y + samples * heads * positions);
  }
}

TEST(Cost, CrossAttentionCountsTheKeysOfTheOtherSequence) {
  constexpr std::int64_t samples = 2, queries = 5, keys = 9, heads = 6, depth = 4;
  constexpr std::int64_t q = samples * queries * heads * depth;
  constexpr std::int64_t kv = 2 * samples * keys * heads * depth;
  constexpr std::int64_t sums = samples * heads * queries, biases = (queries + keys - 1) * heads;
  constexpr double unit = double{q} * keys;
  CrossAttentionForward forward{.q = made({samples, queries, heads, depth}),
                                .kv = made({samples, keys, 2 * heads, depth}),
                                .y = made({samples, queries, heads, depth}),
                                .statistics = made({samples, heads, queries})};
  expect_cost(cost(forward), OpClass::attention, 4 * unit, 2 * q + kv + sums);
  forward.bias = made({queries + keys - 1, heads});
  expect_cost(cost(forward), OpClass::attention, 4 * unit, 2 * q + kv + sums + biases);
  const CrossAttentionBackward backward{.dy = made({samples, queries, heads, depth}),
                                        .q = forward.q,
                                        .kv = forward.kv,
                                        .bias = forward.bias,
                                        .y = forward.y,
                                        .statistics = forward.statistics,
                                        .dq = made({samples, queries, heads, depth}),
                                        .dkv = made({samples, keys, 2 * heads, depth}),
                                        .dbias = made({queries + keys - 1, heads})};
  // The gradient of the biases is read and written.
  expect_cost(cost(backward), OpClass::attention, 10 * unit, 4 * q + 2 * kv + sums + 3 * biases);
  CrossAttentionForward causal = forward;
  causal.kv = made({samples, queries, 2 * heads, depth});
  causal.causal = true;
  EXPECT_EQ(cost(causal).operations, 4.0 * q * (queries + 1) / 2);
}

TEST(Cost, ConvolutionsThatAreNotSquare) {
  constexpr std::int64_t pixels = 2 * 9 * 8, in = 6, out = 5, taps = 7;
  const ConvolutionForward forward{.x = made({2, 9, 8, in}),
                                   .weight = made({out, 1, taps, in}),
                                   .padding = {0, 3},
                                   .y = made({2, 9, 8, out})};
  expect_cost(cost(forward), OpClass::convolution, 2.0 * pixels * out * taps * in,
              pixels * (in + out) + out * taps * in);
}

TEST(Cost, ConvolutionsWithGroups) {
  constexpr std::int64_t pixels = 2 * 9 * 8, in = 6, out = 9, groups = 3;
  const Tensor x = made({2, 9, 8, in}), y = made({2, 9, 8, out});
  const Tensor weight = made({out, 1, 1, in / groups});
  // A group has 3 channels, and takes the time of 32.
  expect_cost(cost(ConvolutionForward{.x = x, .weight = weight, .y = y}),
              OpClass::grouped_convolution, 2.0 * pixels * (32 * groups) * in / groups,
              pixels * (in + out) + out * in / groups);
  const ConvolutionBackward backward{.dy = y, .x = x, .weight = weight, .dx = x, .dweight = weight};
  expect_cost(cost(backward), OpClass::grouped_convolution,
              4.0 * pixels * (32 * groups) * in / groups,
              pixels * (2 * in + out) + 2 * out * in / groups);
  expect_cost(cost(ConvolutionBackward{.dy = y, .weight = weight, .dx = x}),
              OpClass::grouped_convolution, 2.0 * pixels * (32 * groups) * in / groups,
              pixels * (in + out) + out * in / groups);
  expect_cost(cost(ConvolutionBackward{.dy = y, .x = x, .dweight = weight}),
              OpClass::grouped_convolution, 2.0 * pixels * (32 * groups) * in / groups,
              pixels * (in + out) + out * in / groups);
  const Tensor wide = made({2, 9, 8, 2 * 48}), half = made({2 * 48, 1, 1, 48});
  EXPECT_EQ(cost(ConvolutionForward{.x = wide, .weight = half, .y = wide}).operations,
            2.0 * pixels * 2 * 48 * 48)
      << "groups of 48 channels fill their tiles";
}

TEST(Cost, AverageWindowsAndCopiesOfColumns) {
  const Tensor x = made({2, 8, 9, 4}), y = made({2, 3, 4, 4});
  expect_cost(cost(AverageWindowsForward{.x = x, .size = 3, .stride = 2, .y = y}), OpClass::pooling,
              9 * 2 * 3 * 4 * 4, 2 * 8 * 9 * 4 + 2 * 3 * 4 * 4);
  expect_cost(cost(AverageWindowsBackward{.dy = y, .size = 3, .stride = 2, .dx = x}),
              OpClass::pooling, 9 * 2 * 3 * 4 * 4, 2 * 8 * 9 * 4 + 2 * 3 * 4 * 4);
  // The columns beside those that are copied cost nothing.
  expect_cost(cost(CopyColumns{
                  .in = made({30, 7}), .out = made({30, 50}), .from = 1, .to = 20, .columns = 5}),
              OpClass::elementwise, 0, 2 * 30 * 5);
}

TEST(Cost, CrossEntropy) {
  constexpr std::int64_t m = 30, classes = 20;
  CrossEntropy op{.logits = made({m, classes}), .targets = integers({m}), .losses = made({m})};
  expect_cost(cost(op), OpClass::loss, 4 * m * classes, m * classes + 2 * m);
  op.dlogits = op.logits;  // in place: read and written
  expect_cost(cost(op), OpClass::loss, 5 * m * classes, 2 * m * classes + 2 * m);
}

TEST(Cost, SelectionAndMovesByIndex) {
  constexpr std::int64_t n = 1000, k = 30;
  const Tensor in = made({n}), indices = integers({k}), values = made({k});
  // Radix selection reads its input once for each of four digits of 8 bits, once to count what is
  // selected of each stretch, and once to write it; every reading looks at each element.
  expect_cost(cost(SelectTopK{.in = in, .indices = indices, .values = values}),
              OpClass::elementwise, (4 + 1 + 1) * n, (4 + 1 + 1) * n + k + k);
  expect_cost(cost(DrawIndices{.indices = indices, .below = n}), OpClass::elementwise, k, k);
  // Only k of the n elements are touched: read and written, or read, added to and written.
  expect_cost(cost(TakeElements{.in = in, .indices = indices, .out = values}), OpClass::elementwise,
              0, k + k + k);
  expect_cost(cost(AddElements{.in = values, .indices = indices, .out = in, .scale = 0.5F}),
              OpClass::elementwise, 2 * k, k + k + 2 * k);
}

TEST(Cost, SignsTakeABitEach) {
  constexpr std::int64_t n = 1001, sign_bytes = 126;
  const Tensor in = made({n}), signs = made({sign_bytes}, DType::u8), magnitude = made({1});
  // A magnitude and a sum for each element.
  expect_cost(cost(PackSigns{.in = in, .signs = signs, .magnitude = magnitude}),
              OpClass::elementwise, 2 * n, n + sign_bytes / 4.0 + 1);
  expect_cost(cost(PackSigns{.in = in, .signs = signs}), OpClass::elementwise, 2 * n,
              n + sign_bytes / 4.0);
  // The sum is read and written.
  expect_cost(cost(AddSigns{.signs = {signs}, .magnitudes = {magnitude}, .out = in}),
              OpClass::elementwise, n, sign_bytes / 4.0 + 1 + 2 * n);
}

TEST(Cost, CodesOfBlocks) {
  constexpr std::int64_t n = 1001, block = 99, norms = 11;
  for (const int bits : {8, 4}) {
    // Ten blocks of 99 elements, of 50 bytes with two codes in a byte, and one of 11.
    const std::int64_t code_bytes = bits == 8 ? n : 10 * 50 + 6;
    const Tensor in = made({n}), codes = made({code_bytes}, DType::u8), norm = made({norms});
    // The largest, a product, a sum with what is drawn, a comparison with L.
    expect_cost(
        cost(Quantise{.in = in, .codes = codes, .norms = norm, .block = block, .bits = bits}),
        OpClass::elementwise, 4 * n, n + static_cast<double>(code_bytes) / 4 + norms);
    // A product and a sum; the sum is read and written.
    expect_cost(cost(AddQuantised{
                    .codes = {codes}, .norms = {norm}, .out = in, .block = block, .bits = bits}),
                OpClass::elementwise, 2 * n, static_cast<double>(code_bytes) / 4 + norms + 2 * n);
  }
}

TEST(Cost, CodesOfMatrices) {
  constexpr std::int64_t m = 30, n = 20, r = 4;
  // m * n products and as many sums for each of r columns, whichever way the matrices lie.
  const Tensor matrix = made({m, n}), left = made({m, r}), right = made({n, r});
  expect_cost(cost(MatrixProduct{.a = matrix, .b = right, .out = left}), OpClass::linear,
              2 * m * n * r, m * n + n * r + m * r);
  expect_cost(cost(MatrixProduct{.a = matrix, .b = left, .out = right, .transpose_a = true}),
              OpClass::linear, 2 * m * n * r, m * n + n * r + m * r);
  expect_cost(cost(MatrixProduct{.a = left, .b = right, .out = matrix, .transpose_b = true}),
              OpClass::linear, 2 * m * n * r, m * n + n * r + m * r);
  // Twice, each of about r * r / 2 pairs of columns takes a dot product, of 2 m operations, and
  // another 2 m to take the share away. A pair reads the other column once and its own twice, which
  // it writes again.
  expect_cost(cost(Orthonormalise{.matrix = left}), OpClass::elementwise,
              2 * (r * r / 2) * (2 * m + 2 * m), 2 * (r * r / 2) * 4 * m);
  // A logarithm, a root and a cosine in fp64 count as 60 operations.
  expect_cost(cost(DrawNormal{.out = right}), OpClass::elementwise, 60 * n * r, n * r);
}

TEST(Cost, KnowsTheDtypeThatItComputesOn) {
  const auto of16 = [](Shape shape) { return made(shape, DType::bf16); };
  const LinearForward linear{.x = of16({4, 6}), .weight = of16({5, 6}), .y = of16({4, 5})};
  EXPECT_EQ(cost(linear).dtype, DType::bf16);
  EXPECT_EQ(cost(linear).bytes, 2 * (4 * 6 + 5 * 6 + 4 * 5));
  EXPECT_EQ(cost(Cast{.in = made({4}), .out = of16({4})}).dtype, DType::bf16);
  EXPECT_EQ(cost(Cast{.in = of16({4}), .out = made({4})}).dtype, DType::bf16);
  // What lies between the rows costs nothing.
  const Cast rows{.in = of16({6}), .out = made({12}), .rows = 3, .stride = 5};
  EXPECT_EQ(cost(rows).bytes, 6 * 2 + 6 * 4);
  // Moments and master values have fp32, whatever dtype the parameters have.
  const AdamW adamw{.parameters = of16({100}),
                    .gradients = of16({100}),
                    .master = made({100}),
                    .first_moment = made({100}),
                    .second_moment = made({100})};
  EXPECT_EQ(cost(adamw).dtype, DType::bf16);
  EXPECT_EQ(cost(adamw).bytes, 100 * (2 + 2 + 4 + 4 + 8 + 8));
}

TEST(Cost, OperationsOnNothingCostNothing) {
  const Tensor none = made({0});
  expect_cost(cost(Add{.in = none, .out = none}), OpClass::elementwise, 0, 0);
  expect_cost(cost(Quantise{.in = none, .codes = none, .norms = none}), OpClass::elementwise, 0, 0);
  expect_cost(
      cost(AdamW{
          .parameters = none, .gradients = none, .first_moment = none, .second_moment = none}),
      OpClass::optimizer, 0, 0);
}

}  // namespace
}  // namespace ringside
