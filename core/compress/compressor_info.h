// CompressorInfo: a kind of compressor, and the list of all kinds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/options.h"
#include "core/compress/compressor.h"

namespace ringside {

/// The settings with which a compressor loses nothing, such as "ratio=1"; none: it always does. A
/// scheme is then what it is without one, so they become its identities (lossless_identities()).
struct Lossless {
  std::vector<std::string> settings{};
  bool to_the_bit = true;  // otherwise up to rounding
};

/// A kind of compressor: a row of compressors(), made in its source.
struct CompressorInfo {
  std::string_view name;  // compressor = "topk"
  std::string_view summary;
  /// Whether the compressor has a memory of errors unless options say otherwise: one that is
  /// biased.
  bool remembers = false;
  /// Whether it remembers by itself, so that it cannot have a memory in front.
  bool has_own_memory = false;
  /// Whether `total` is an estimate of the sum; if not, it has another scale, as votes have.
  bool estimates_sum = true;
  /// Whether workers may divide the elements of a bucket among them, so that each takes the sum of
  /// its part alone: there is one round, take() leaves nothing behind in the compressor, and keep()
  /// does not look at `total`. If not, all workers need the sum.
  bool in_parts = false;
  /// Whether a message alone says what it stands for, whichever the worker and the step: a reader
  /// that takes it alone, as one of one worker, gets its values.
  bool stands_alone = false;
  Compressor::Move move = Compressor::Move::gather;
  DType summed_in = DType::f32;  // the dtype of messages that are summed
  /// The bytes of a worker's messages for a tensor of this shape, all rounds together.
  double (*bytes)(const CompressionOptions& options, const Shape& tensor) = nullptr;
  std::unique_ptr<Compressor> (*make)(CompressorContext context) = nullptr;
  Lossless lossless{};
  bool of_plugin = false;
  /// Options of its own, with their defaults, besides those of CompressionOptions. Their names must
  /// differ from those of all other options of schemes that compress.
  Options options{};
};

/// CompressorInfo::make for a class of compressors.
template <class Own>
std::unique_ptr<Compressor> make_compressor(CompressorContext context) {
  return std::make_unique<Own>(std::move(context));
}

const std::vector<CompressorInfo>& compressors();
/// Adds a compressor of a plug-in. Throws Error as RowList::add() does.
void add_compressor(CompressorInfo row);
/// Throws Error that tells the most similar name and all names if there is no such row.
const CompressorInfo& find_compressor(std::string_view name);

/// Whether a worker remembers its errors with these options.
bool remembers(const CompressionOptions& options);
/// The bytes that a worker sends to have tensors of these shapes summed over `workers` workers.
double compressed_bytes(const CompressionOptions& options, std::span<const Shape> tensors,
                        int workers);

}  // namespace ringside
