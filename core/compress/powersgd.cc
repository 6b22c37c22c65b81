#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/compress/codes.h"

namespace ringside::compress {
namespace {

/// A tensor as a matrix [rows, columns], and the rank of what is sent of it.
struct Matrix {
  std::int64_t rows = 0, columns = 0, rank = 0;
};

/// The matrix of a tensor that is compressed; rank 0 for one that is not.
Matrix matrix_of(const CompressionOptions& options, const Shape& tensor) {
  if (tensor.rank() < 2) return {};
  const std::int64_t rows = tensor[0], columns = tensor.count() / rows;
  const std::int64_t rank = std::min({options.matrix_approximation_rank, rows, columns});
  const bool small = static_cast<double>(rank * (rows + columns)) * options.min_compression_rate >=
                     static_cast<double>(rows * columns);
  return {rows, columns, small && options.min_compression_rate > 0 ? 0 : rank};
}

/// Round 0: P = M Q of every matrix, and the other tensors as they are; P becomes orthonormal.
/// Round 1: Q = M^T P; the sum is P Q^T. Steps that are not compressed have round 1 alone.
class PowerSgd final : public Compressor {
 public:
  explicit PowerSgd(CompressorContext context) : Compressor(std::move(context)) {
    for (const Piece& piece : this->context().pieces) {
      const Matrix matrix = matrix_of(options(), piece.shape);
      const Part& part = parts_.emplace_back(
          Part{piece, matrix, left_, right_,
               matrix.rank > 0 ? matrix.rows * matrix.rank : piece.shape.count(),
               matrix.rank * matrix.columns});
      left_ += part.left_count;
      right_ += part.right_count;
    }
    p_ = device().tensor({left_}, MemoryKind::optimizer);
    q_ = device().tensor({right_}, MemoryKind::optimizer);
    draw(0);
  }

  Move move() const override { return Move::sum; }
  int rounds() const override { return 2; }
  Form form(int round) const override {
    if (!compresses()) return {round == 1 ? context().count() : 0};
    return {round == 0 ? left_ : right_};
  }

  void give(int round, const Tensor& values, const Tensor& message) override {
    if (!compresses()) return kernels().copy({.in = values, .out = message});
    if (round == 0 && !options().warm_start) draw(1 + compressed_before());
    for (const Part& part : parts_) {
      const Tensor own = part.piece.of(values);
      if (part.matrix.rank == 0) {
        if (round == 0) kernels().copy({.in = own, .out = part.left(message)});
      } else if (round == 0) {
        kernels().matrix_product(
            {.a = part.whole(own), .b = part.right(q_), .out = part.left(message)});
      } else {
        kernels().matrix_product({.a = part.whole(own),
                                  .b = part.left(p_),
                                  .out = part.right(message),
                                  .transpose_a = true});
      }
    }
  }

  void take(int round, std::span<const Tensor> messages, const Tensor& total) override {
    if (!compresses()) {
      if (round == 1) kernels().copy({.in = messages[0], .out = total});
      return;
    }
    for (const Part& part : parts_) {
      if (round == 0) {
        kernels().copy({.in = part.left(messages[0]), .out = part.left(p_)});
        if (part.matrix.rank > 0) kernels().orthonormalise({.matrix = part.left(p_)});
        continue;
      }
      const Tensor sum = part.piece.of(total);
      if (part.matrix.rank == 0) {
        kernels().copy({.in = part.left(p_), .out = sum});
        continue;
      }
      kernels().matrix_product({.a = part.left(p_),
                                .b = part.right(messages[0]),
                                .out = part.whole(sum),
                                .transpose_b = true});
      kernels().blend({.in = part.right(messages[0]), .out = part.right(q_), .in_scale = share()});
    }
  }

  /// A worker's error is its gradient without its share of the sum; tensors that are no matrices
  /// are sent whole.
  void keep(const Tensor&, const Tensor& total, const Tensor& values) override {
    for (const Part& part : parts_) {
      const Tensor own = part.piece.of(values);
      if (!compresses() || part.matrix.rank == 0)
        kernels().fill({.out = own});
      else
        kernels().blend(
            {.in = part.piece.of(total), .out = own, .in_scale = share(-1), .out_scale = 1});
    }
  }

  /// The Q of every matrix by the number of its tensor, if the next step begins with it.
  void visit_state(const CompressorStateVisitor& visit) override {
    for (const Part& part : parts_)
      if (part.matrix.rank > 0 && options().warm_start)
        visit({.name = fmt::format("powersgd_q/{}", part.piece.number),
               .values = part.right(q_),
               .elementwise = false,
               .common = true});
  }

 private:
  /// A tensor, and its places in the messages of both rounds.
  struct Part {
    Piece piece;
    Matrix matrix;
    std::int64_t left_begin, right_begin, left_count, right_count;

    Tensor whole(const Tensor& own) const { return own.reshaped({matrix.rows, matrix.columns}); }
    /// P [rows, rank], or the tensor itself.
    Tensor left(const Tensor& of) const {
      return matrix.rank == 0 ? of.range(left_begin, left_count)
                              : of.view(left_begin, {matrix.rows, matrix.rank});
    }
    /// Q [columns, rank]
    Tensor right(const Tensor& of) const {
      return of.view(right_begin, {matrix.columns, matrix.rank});
    }
  };

  bool compresses() const { return step() >= static_cast<std::uint64_t>(options().start_step); }

  /// The number of steps before this one that were compressed.
  std::uint64_t compressed_before() const {
    return step() - static_cast<std::uint64_t>(options().start_step);
  }

  /// Fills Q with normal numbers, the same on all workers.
  void draw(std::uint64_t number) {
    const std::uint64_t seed = context().seed + (number << 32);
    for (const Part& part : parts_)
      if (part.matrix.rank > 0)
        kernels().draw_normal({.out = part.right(q_), .seed = seed, .number = part.piece.number});
  }

  std::vector<Part> parts_;
  std::int64_t left_ = 0, right_ = 0;  // elements of the messages
  Tensor p_, q_;
};

}  // namespace

/// PowerSGD (Vogels et al., NeurIPS 2019, algorithm 1): of each matrix M, summed over workers, the
/// best that P Q^T of this rank says of it, by one step of a power iteration. Tensors that would
/// not become much smaller are sent as they are. Among N workers a worker sends 2 * (N - 1) / N * 4
/// * rank * (rows + columns) bytes for a matrix.
CompressorInfo powersgd_info() {
  return {.name = "powersgd",
          .summary = "matrices of low rank whose product is close to the gradient",
          .remembers = true,
          .move = Compressor::Move::sum,
          .bytes =
              [](const CompressionOptions& options, const Shape& tensor) {
                const auto [rows, columns, rank] = matrix_of(options, tensor);
                return 4.0 *
                       static_cast<double>(rank > 0 ? rank * (rows + columns) : tensor.count());
              },
          .make = make_compressor<PowerSgd>,
          // A warm start begins with the columns of the gradient before, which may have less rank.
          .lossless = {
              {"matrix_approximation_rank=1000000", "min_compression_rate=0", "warm_start=false"},
              false}};
}

}  // namespace ringside::compress
