#include "core/device/cost.h"

#include <algorithm>

namespace ringside {
namespace {

double count(const Tensor& tensor) { return static_cast<double>(tensor.count()); }

/// Bytes of operands, each read or written once. An operand that is both read and overwritten is
/// passed twice. An empty operand has no bytes.
template <class... Operands>
double bytes(const Operands&... operands) {
  return (0.0 + ... + static_cast<double>(operands.bytes()));
}

double bytes_of_all(const std::vector<Tensor>& operands) {
  double sum = 0;
  for (const Tensor& operand : operands) sum += bytes(operand);
  return sum;
}

/// Number of pairs of a query and a key that the query sees, over all samples and heads of
/// queries, times the width of a head. `y` is [B, T, H, D]; a causal mask is for T keys.
double attended(const Tensor& y, std::int64_t keys, bool causal) {
  const auto extent = [&](std::size_t i) { return static_cast<double>(y.shape()[i]); };
  const double queries = extent(1);
  const double pairs = causal ? queries * (queries + 1) / 2 : queries * static_cast<double>(keys);
  return extent(0) * extent(2) * extent(3) * pairs;
}

/// Kernels of GPUs compute an output in tiles of many channels: the smallest of cuDNN's have 32
/// (maxwell_scudnn_128x32). A group with fewer channels leaves the rest of its tile unused, but
/// takes the time of all of it.
constexpr double least_channels = 32;

double convolution_product(const Tensor& x, const Tensor& y, const Tensor& weight) {
  const auto outputs = static_cast<double>(weight.shape()[0]);
  const auto groups = static_cast<double>(groups_of(x, weight));
  const double computed = groups > 1 ? std::max(1.0, least_channels * groups / outputs) : 1;
  return 2 * count(y) * count(weight) / outputs * computed;
}

/// Number of the products of a backward.
double gradients_of(const auto& op) { return (op.dx ? 1 : 0) + (op.dweight ? 1 : 0); }

OpClass convolution_class(const Tensor& x, const Tensor& weight) {
  return groups_of(x, weight) > 1 ? OpClass::grouped_convolution : OpClass::convolution;
}

/// Bytes of a table's rows that `lookups` look-ups can touch at most.
double rows_touched(const Tensor& table, std::int64_t lookups) {
  return static_cast<double>(std::min(table.shape()[0], lookups) * table.shape()[1]) *
         static_cast<double>(size_of(table.dtype()));
}

/// Bytes that an update of parameters reads and writes. If there are master values, the update
/// reads and writes the master values, and writes the parameters without reading them.
double updated(const Tensor& parameters, const Tensor& master) {
  return master ? bytes(parameters, master, master) : 2 * bytes(parameters);
}

}  // namespace

bool is_product(OpClass kind) {
  return kind == OpClass::linear || kind == OpClass::attention || kind == OpClass::convolution ||
         kind == OpClass::grouped_convolution;
}

std::optional<OpClass> stand_in(OpClass kind) {
  if (kind == OpClass::grouped_convolution) return OpClass::convolution;
  if (kind == OpClass::convolution) return OpClass::linear;
  if (kind == OpClass::batch_normalisation) return OpClass::normalisation;
  if (kind == OpClass::pooling) return OpClass::elementwise;
  return std::nullopt;
}

OpCost cost(const Fill& op) { return {OpClass::elementwise, 0, bytes(op.out), op.out.dtype()}; }

OpCost cost(const Copy& op) {
  return {OpClass::elementwise, 0, bytes(op.in, op.out), op.out.dtype()};
}

OpCost cost(const Add& op) {
  return {OpClass::elementwise, count(op.out), bytes(op.in, op.out, op.out), op.out.dtype()};
}

OpCost cost(const Blend& op) {
  return {OpClass::elementwise, 3 * count(op.out),
          bytes(op.in, op.out) + (op.out_scale == 0 ? 0 : bytes(op.out)), op.out.dtype()};
}

OpCost cost(const Divide& op) {
  return {OpClass::elementwise, count(op.out), bytes(op.in, op.by, op.out), op.out.dtype()};
}

OpCost cost(const CompensateDelay& op) {
  return {OpClass::elementwise, 5 * count(op.out), bytes(op.gradients, op.now, op.read, op.out),
          op.out.dtype()};
}

OpCost cost(const Cast& op) {
  const double written = count(op.in) * static_cast<double>(size_of(op.out.dtype()));
  return {OpClass::elementwise, 0, bytes(op.in) + written,
          op.in.dtype() == DType::f32 ? op.out.dtype() : op.in.dtype()};
}

OpCost cost(const SumOfSquares& op) {
  return {OpClass::elementwise, 2 * count(op.in), bytes(op.in, op.out), op.in.dtype()};
}

OpCost cost(const Dropout& op) {
  return {OpClass::elementwise, 2 * count(op.in), bytes(op.in, op.out), op.out.dtype()};
}

OpCost cost(const AdamW& op) {
  return {OpClass::optimizer, 14 * count(op.parameters),
          bytes(op.gradients) + updated(op.parameters, op.master) +
              2 * bytes(op.first_moment, op.second_moment),
          op.parameters.dtype()};
}

OpCost cost(const Sgd& op) {
  const double both = bytes(op.gradients) + updated(op.parameters, op.master);
  if (op.momentum == 0)
    return {OpClass::optimizer, 4 * count(op.parameters), both, op.parameters.dtype()};
  // The first step only writes the velocity.
  if (op.step == 1)
    return {OpClass::optimizer, 4 * count(op.parameters), both + bytes(op.velocity),
            op.parameters.dtype()};
  return {OpClass::optimizer, 6 * count(op.parameters), both + 2 * bytes(op.velocity),
          op.parameters.dtype()};
}

OpCost cost(const LambMoments& op) {
  const Tensor& values = op.master ? op.master : op.parameters;
  return {OpClass::optimizer, 16 * count(op.parameters),
          bytes(op.gradients, values) + 2 * bytes(op.first_moment, op.second_moment),
          op.parameters.dtype()};
}

OpCost cost(const LambUpdate& op) {
  return {OpClass::optimizer, 9 * count(op.parameters),
          updated(op.parameters, op.master) + bytes(op.first_moment, op.second_moment),
          op.parameters.dtype()};
}

OpCost cost(const LinearForward& op) {
  return {OpClass::linear, 2 * count(op.x) * static_cast<double>(op.weight.shape()[0]),
          bytes(op.x, op.weight, op.bias, op.pre, op.y), op.x.dtype()};
}

OpCost cost(const LinearBackward& op) {
  const double product = 2 * count(op.dx ? op.dx : op.x) * static_cast<double>(op.dy.shape()[1]);
  double moved = bytes(op.dy);
  if (op.activation != Activation::none) moved += bytes(op.pre, op.dy);
  if (op.dx) moved += bytes(op.weight, op.dx);
  if (op.dweight) moved += bytes(op.x, op.dweight, op.dbias);
  return {OpClass::linear, gradients_of(op) * product, moved, op.dy.dtype()};
}

OpCost cost(const EmbeddingForward& op) {
  double moved = bytes(op.tokens, op.y) + rows_touched(op.token_table, op.tokens.count());
  if (!op.position_table) return {OpClass::embedding, 0, moved, op.y.dtype()};
  moved += rows_touched(op.position_table, op.tokens.shape()[1]);
  return {OpClass::embedding, count(op.y), moved, op.y.dtype()};
}

OpCost cost(const EmbeddingBackward& op) {
  return {OpClass::embedding, (op.dposition_table ? 2 : 1) * count(op.dy),
          bytes(op.tokens, op.dy, op.dtoken_table, op.dposition_table), op.dy.dtype()};
}

OpCost cost(const TakeRowsForward& op) {
  return {OpClass::embedding, 0, 2 * bytes(op.y) + bytes(op.positions), op.y.dtype()};
}

OpCost cost(const TakeRowsBackward& op) {
  return {OpClass::embedding, count(op.dy), bytes(op.dy, op.positions, op.dx), op.dy.dtype()};
}

OpCost cost(const CopyColumns& op) {
  const double copied = static_cast<double>(op.in.shape()[0] * op.columns) *
                        static_cast<double>(size_of(op.in.dtype()));
  return {OpClass::elementwise, 0, 2 * copied, op.in.dtype()};
}

OpCost cost(const LayerNormForward& op) {
  return {OpClass::normalisation, (op.residual ? 9 : 8) * count(op.x),
          bytes(op.x, op.residual, op.weight, op.bias, op.sum, op.y, op.mean, op.rstd),
          op.x.dtype()};
}

OpCost cost(const LayerNormBackward& op) {
  return {
      OpClass::normalisation, (op.dresidual ? 14 : 13) * count(op.x),
      bytes(op.dy, op.x, op.weight, op.mean, op.rstd, op.dresidual, op.dx, op.dweight, op.dbias),
      op.x.dtype()};
}

OpCost cost(const RmsNormForward& op) {
  return {OpClass::normalisation, (op.residual ? 5 : 4) * count(op.x),
          bytes(op.x, op.residual, op.weight, op.sum, op.y, op.rstd), op.x.dtype()};
}

OpCost cost(const RmsNormBackward& op) {
  return {OpClass::normalisation, (op.dresidual ? 10 : 9) * count(op.x),
          bytes(op.dy, op.x, op.weight, op.rstd, op.dresidual, op.dx, op.dweight), op.x.dtype()};
}

OpCost cost(const SwiGluForward& op) {
  return {OpClass::elementwise, 4 * count(op.y), bytes(op.x, op.y), op.x.dtype()};
}

OpCost cost(const SwiGluBackward& op) {
  return {OpClass::elementwise, 10 * count(op.dy), bytes(op.dy, op.x, op.dx), op.x.dtype()};
}

OpCost cost(const Rotary& op) {
  const double share = static_cast<double>(op.heads) / static_cast<double>(op.x.shape()[2]);
  return {OpClass::elementwise, 3 * share * count(op.x), 2 * share * bytes(op.x), op.x.dtype()};
}

OpCost cost(const AttentionForward& op) {
  return {OpClass::attention, 4 * attended(op.y, op.y.shape()[1], op.causal),
          bytes(op.qkv, op.y, op.statistics), op.qkv.dtype()};
}

OpCost cost(const AttentionBackward& op) {
  return {OpClass::attention, 10 * attended(op.y, op.y.shape()[1], op.causal),
          bytes(op.dy, op.qkv, op.y, op.statistics, op.dqkv), op.qkv.dtype()};
}

OpCost cost(const CrossAttentionForward& op) {
  return {OpClass::attention, 4 * attended(op.y, op.kv.shape()[1], op.causal),
          bytes(op.q, op.kv, op.bias, op.y, op.statistics), op.q.dtype()};
}

OpCost cost(const CrossAttentionBackward& op) {
  return {
      OpClass::attention, 10 * attended(op.y, op.kv.shape()[1], op.causal),
      bytes(op.dy, op.q, op.kv, op.bias, op.y, op.statistics, op.dq, op.dkv, op.dbias, op.dbias),
      op.q.dtype()};
}

OpCost cost(const ConvolutionForward& op) {
  return {convolution_class(op.x, op.weight), convolution_product(op.x, op.y, op.weight),
          bytes(op.x, op.weight, op.bias, op.y), op.x.dtype()};
}

OpCost cost(const ConvolutionBackward& op) {
  const auto& [dy, x, weight, y, relu, stride, padding, dx, dweight, dbias] = with_extents(op);
  double moved = bytes(dy);
  if (relu) moved += bytes(y, dy);
  if (dx) moved += bytes(weight, dx);
  if (dweight) moved += bytes(x, dweight, dbias);
  return {convolution_class(x, weight), gradients_of(op) * convolution_product(x, dy, weight),
          moved, dy.dtype()};
}

OpCost cost(const BatchNormStatistics& op) {
  return {OpClass::batch_normalisation, 4 * count(op.x), bytes(op.x, op.mean, op.variance),
          op.x.dtype()};
}

OpCost cost(const BatchNormMerge& op) {
  return {OpClass::batch_normalisation, 4 * count(op.groups),
          bytes(op.groups, op.mean, op.variance), op.mean.dtype()};
}

OpCost cost(const BatchNormForward& op) {
  return {OpClass::batch_normalisation, (op.residual ? 5 : 4) * count(op.x),
          bytes(op.x, op.residual, op.mean, op.variance, op.weight, op.bias, op.y), op.x.dtype()};
}

OpCost cost(const BatchNormReduce& op) {
  return {OpClass::batch_normalisation, 5 * count(op.x),
          bytes(op.dy, op.x, op.y, op.mean, op.variance, op.sums), op.x.dtype()};
}

OpCost cost(const BatchNormBackward& op) {
  return {OpClass::batch_normalisation, 7 * count(op.x),
          bytes(op.dy, op.x, op.y, op.mean, op.variance, op.weight, op.sums, op.dx, op.dresidual),
          op.x.dtype()};
}

OpCost cost(const MaxPoolForward& op) {
  return {OpClass::pooling, static_cast<double>(op.size * op.size) * count(op.y),
          bytes(op.x, op.y, op.where), op.x.dtype()};
}

OpCost cost(const MaxPoolBackward& op) {
  return {OpClass::pooling, count(op.dy), bytes(op.dy, op.where, op.dx), op.dx.dtype()};
}

OpCost cost(const AverageWindowsForward& op) {
  return {OpClass::pooling, static_cast<double>(op.size * op.size) * count(op.y), bytes(op.x, op.y),
          op.x.dtype()};
}

OpCost cost(const AverageWindowsBackward& op) {
  return {OpClass::pooling, static_cast<double>(op.size * op.size) * count(op.dy),
          bytes(op.dy, op.dx), op.dx.dtype()};
}

OpCost cost(const AveragePoolForward& op) {
  return {OpClass::pooling, count(op.x), bytes(op.x, op.y), op.x.dtype()};
}

OpCost cost(const AveragePoolBackward& op) {
  return {OpClass::pooling, count(op.dx), bytes(op.dy, op.dx), op.dx.dtype()};
}

OpCost cost(const CrossEntropy& op) {
  return {OpClass::loss, (op.dlogits ? 5 : 4) * count(op.logits),
          bytes(op.logits, op.targets, op.losses, op.hits, op.dlogits), op.logits.dtype()};
}

OpCost cost(const SelectTopK& op) {
  // Radix selection reads its input for each of four digits, to count, and to write.
  return {OpClass::elementwise, 6 * count(op.in), 6 * bytes(op.in) + bytes(op.indices, op.values),
          op.in.dtype()};
}

OpCost cost(const DrawIndices& op) {
  return {OpClass::elementwise, count(op.indices), bytes(op.indices), DType::f32};
}

/// A logarithm, a root and a cosine in fp64.
OpCost cost(const DrawNormal& op) {
  return {OpClass::elementwise, 60 * count(op.out), bytes(op.out), op.out.dtype()};
}

OpCost cost(const TakeElements& op) {
  return {OpClass::elementwise, 0, bytes(op.indices, op.out, op.out), op.out.dtype()};
}

OpCost cost(const AddElements& op) {
  return {OpClass::elementwise, 2 * count(op.in), bytes(op.indices, op.in, op.in, op.in),
          op.in.dtype()};
}

OpCost cost(const PackSigns& op) {
  return {OpClass::elementwise, 2 * count(op.in), bytes(op.in, op.signs, op.magnitude),
          op.in.dtype()};
}

OpCost cost(const AddSigns& op) {
  return {OpClass::elementwise, static_cast<double>(op.signs.size()) * count(op.out),
          bytes_of_all(op.signs) + bytes_of_all(op.magnitudes) + (op.onto ? 2 : 1) * bytes(op.out),
          op.out.dtype()};
}

OpCost cost(const Quantise& op) {
  return {OpClass::elementwise, 4 * count(op.in), bytes(op.in, op.codes, op.norms), op.in.dtype()};
}

OpCost cost(const AddQuantised& op) {
  return {OpClass::elementwise, 2 * static_cast<double>(op.codes.size()) * count(op.out),
          bytes_of_all(op.codes) + bytes_of_all(op.norms) + (op.onto ? 2 : 1) * bytes(op.out),
          op.out.dtype()};
}

OpCost cost(const MatrixProduct& op) {
  const auto inner = static_cast<double>(op.a.shape()[op.transpose_a ? 0 : 1]);
  return {OpClass::linear, 2 * inner * count(op.out), bytes(op.a, op.b, op.out), op.out.dtype()};
}

/// Each column is projected on those before it twice, and divided by its norm.
OpCost cost(const Orthonormalise& op) {
  const auto columns = static_cast<double>(op.matrix.shape()[1]);
  return {OpClass::elementwise, 4 * count(op.matrix) * columns,
          2 * bytes(op.matrix, op.matrix) * columns, op.matrix.dtype()};
}

}  // namespace ringside
