// The options by which schemes compress what workers give each other.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/fields.h"
#include "core/base/named_enum.h"

namespace ringside {

enum class Compression : std::uint8_t {
  none,
  fp16,
  bf16,
  int8,
  onebit,
  signsgd,
  topk,
  dgc,
  randomk,
  powersgd
};
inline constexpr std::string_view compression_names[] = {
    "none", "fp16", "bf16", "int8", "onebit", "signsgd", "topk", "dgc", "randomk", "powersgd"};
constexpr EnumNames names_of(Compression) { return compression_names; }

/// The memory in front of a compressor: what it has lost of a gradient is added to the next one.
enum class ErrorMemory : std::uint8_t { by_compressor, none, residual };
inline constexpr std::string_view error_memory_names[] = {"auto", "none", "residual"};
constexpr EnumNames names_of(ErrorMemory) { return error_memory_names; }

struct CompressionOptions {
  Compression compressor = Compression::none;
  ErrorMemory memory = ErrorMemory::by_compressor;
  double ratio = 0.01;
  double dgc_momentum = 0.9;
  std::int64_t block = 256;
  std::int64_t matrix_approximation_rank = 1;
  bool warm_start = true;
  double min_compression_rate = 2;
  std::int64_t start_step = 0;
};

/// The fields of a scheme's options, and those of its compression.
Fields with_compression(CompressionOptions& options, Fields fields);

}  // namespace ringside
