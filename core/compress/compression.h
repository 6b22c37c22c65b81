// The options by which schemes compress what workers give each other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fields.h"
#include "core/base/named_enum.h"
#include "core/base/options.h"

namespace ringside {

/// The memory in front of a compressor: what it has lost of a gradient is added to the next one.
enum class ErrorMemory : std::uint8_t { by_compressor, none, residual };
inline constexpr std::string_view error_memory_names[] = {"auto", "none", "residual"};
constexpr EnumNames names_of(ErrorMemory) { return error_memory_names; }

/// CompressorInfo::options of all compressors that have some.
std::vector<Options> default_compressor_options();

inline constexpr std::string_view no_compressor = "none";

struct CompressionOptions {
  std::string compressor{no_compressor};  // the name of a row of compressors(), or no_compressor
  ErrorMemory memory = ErrorMemory::by_compressor;
  double ratio = 0.01;
  double dgc_momentum = 0.9;
  std::int64_t block = 256;
  std::int64_t matrix_approximation_rank = 1;
  bool warm_start = true;
  double min_compression_rate = 2;
  std::int64_t start_step = 0;
  /// Options that only one compressor has, in a struct next to it. Every scheme that compresses has
  /// those of all compressors, so that it need not know them.
  std::vector<Options> own_options = default_compressor_options();

  /// The struct of this type among `own_options`.
  template <HasFields Own>
  const Own& own() const {
    return own_of<Own>(own_options);
  }
};

inline bool compresses(const CompressionOptions& options) {
  return options.compressor != no_compressor;
}

/// The fields of a scheme's options, and those of its compression.
Fields with_compression(CompressionOptions& options, Fields fields);

}  // namespace ringside
