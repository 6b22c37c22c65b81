#include <algorithm>

#include "core/compress/codes.h"

namespace ringside::compress {

Tensor within(const Tensor& bytes, std::int64_t begin, Shape shape, DType dtype) {
  return {bytes.buffer(), bytes.byte_offset() + static_cast<std::size_t>(begin), shape, dtype};
}

std::vector<Tensor> within_all(std::span<const Tensor> codes, std::int64_t begin,
                               const Shape& shape, DType dtype) {
  std::vector<Tensor> out;
  out.reserve(codes.size());
  for (const Tensor& code : codes) out.push_back(within(code, begin, shape, dtype));
  return out;
}

std::int64_t sent_of(const CompressionOptions& options, const Shape& tensor) {
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(options.ratio * static_cast<double>(tensor.count())));
}

/// Codes follow each other, each from a multiple of 4 bytes on.
template <class Visit>
void TensorCodes::for_each_code(const Visit& visit) const {
  std::int64_t begin = 0;
  for (const Piece& piece : context().pieces) {
    visit(piece, begin);
    begin += (bytes(piece) + 3) / 4 * 4;
  }
}

Compressor::Form TensorCodes::form(int) const {
  std::int64_t all = 0;
  for (const Piece& piece : context().pieces) all += (bytes(piece) + 3) / 4 * 4;
  return {all, DType::u8};
}

void TensorCodes::give(int, const Tensor& values, const Tensor& message) {
  for_each_code([&](const Piece& piece, std::int64_t begin) {
    encode(piece, piece.of(values), message.range(begin, bytes(piece)));
  });
}

void TensorCodes::take(int, std::span<const Tensor> messages, const Tensor& total) {
  kernels().fill({.out = total});
  for (const Tensor& message : messages)
    for_each_code([&](const Piece& piece, std::int64_t begin) {
      add(piece, message.range(begin, bytes(piece)), 1, piece.of(total));
    });
}

void TensorCodes::keep(const Tensor& own, const Tensor&, const Tensor& values) {
  for_each_code([&](const Piece& piece, std::int64_t begin) {
    add(piece, own.range(begin, bytes(piece)), -1, piece.of(values));
  });
}

void DenseCodes::take(int, std::span<const Tensor> messages, const Tensor& total) {
  for_each_code([&](const Piece& piece, std::int64_t begin) {
    const auto codes = within_all(messages, begin, {bytes(piece)}, DType::u8);
    add_all(piece, codes, 1, piece.of(total), false);
  });
}

}  // namespace ringside::compress
