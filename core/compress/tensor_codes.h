// TensorCodes, DenseCodes: the bases of compressors whose workers gather each other's codes of
// tensors.
#pragma once

#include <span>
#include <vector>

#include "core/compress/compressor_info.h"

namespace ringside::compress {

/// A compressor whose worker sends a code of each tensor, which all workers decode. A kind says how
/// a tensor becomes a code, and adds what a code stands for to a tensor.
class TensorCodes : public Compressor {
 public:
  explicit TensorCodes(CompressorContext context) : Compressor(std::move(context)) {}

  Move move() const final { return Move::gather; }
  Form form(int round) const final;
  void give(int round, const Tensor& values, const Tensor& message) final;
  void take(int round, std::span<const Tensor> messages, const Tensor& total) override;
  void keep(const Tensor& own, const Tensor& total, const Tensor& values) final;

 protected:
  virtual std::int64_t bytes(const Piece& piece) const = 0;
  /// `code` has bytes(piece) bytes, and begins at a multiple of 4.
  virtual void encode(const Piece& piece, const Tensor& values, const Tensor& code) = 0;
  /// out += scale * (what the code stands for)
  virtual void add(const Piece& piece, const Tensor& code, float scale, const Tensor& out) = 0;

  /// Calls visit(piece, the first byte of its code in a message) for all pieces.
  template <class Visit>
  void for_each_code(const Visit& visit) const;
};

/// A compressor whose codes say something of every element. All workers' codes of a tensor are
/// added up in one pass over the sum, which several passes, of one code each, would read and write
/// every time.
class DenseCodes : public TensorCodes {
 public:
  using TensorCodes::TensorCodes;

  void take(int round, std::span<const Tensor> messages, const Tensor& total) override;

 protected:
  /// For each code in turn: out += scale * (what it stands for). If not `onto`, sums begin with 0.
  virtual void add_all(const Piece& piece, std::span<const Tensor> codes, float scale,
                       const Tensor& out, bool onto) = 0;

 private:
  void add(const Piece& piece, const Tensor& code, float scale, const Tensor& out) final {
    add_all(piece, std::span(&code, 1), scale, out, true);
  }
};

/// The info of a compressor of class Codes, with a memory of errors unless options say otherwise.
/// The bytes of a tensor's code are Codes::bytes_of(options, shape), the same in all steps.
template <class Codes>
CompressorInfo codes_info(std::string_view name, std::string_view summary, Lossless lossless = {}) {
  return {.name = name,
          .summary = summary,
          .remembers = true,
          .in_parts = true,
          .stands_alone = true,
          .bytes =
              [](const CompressionOptions& options, const Shape& tensor) {
                return static_cast<double>(Codes::bytes_of(options, tensor));
              },
          .make = make_compressor<Codes>,
          .lossless = std::move(lossless)};
}

/// Bytes [begin, begin + shape.count() * size of the dtype) of a tensor of bytes, as a tensor.
Tensor within(const Tensor& bytes, std::int64_t begin, Shape shape, DType dtype);

/// within() of every code: `begin` bytes behind its own beginning.
std::vector<Tensor> within_all(std::span<const Tensor> codes, std::int64_t begin,
                               const Shape& shape, DType dtype);

/// The number of elements that are sent of a tensor: ratio * (its elements), rounded down, at least
/// one.
std::int64_t sent_of(const CompressionOptions& options, const Shape& tensor);

}  // namespace ringside::compress
