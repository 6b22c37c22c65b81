// TensorCodes: the base of compressors whose workers gather each other's codes of tensors.
#pragma once

#include "core/compress/compressor.h"

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

 private:
  template <class Visit>
  void for_each_code(const Tensor& message, const Visit& visit) const;
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

/// The number of elements that are sent of a tensor: ratio * (its elements), rounded down, at least
/// one.
std::int64_t sent_of(const CompressionOptions& options, const Shape& tensor);

}  // namespace ringside::compress
