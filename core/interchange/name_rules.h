// Rules that map the parameters of units to their names in files.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ringside::naming {

/// How a file stores a parameter, which in Ringside is row-major.
enum class Order : std::uint8_t {
  same,
  transposed,      // [in, out] in the file, [out, in] in Ringside
  channels_first,  // [K, C, R, S] in the file, [K, R, S, C] in Ringside
  joined_columns,  // [K, R * S * C] in the file, [K, R, S, C] in Ringside
  tokens           // as `same`, but the file may have more rows
};

/// The name in the file for a unit's parameter. A '*' in `unit` stands for a number, which replaces
/// the '*' in `name`. If files divide the rows of a parameter among several tensors, this rule
/// names the tensor with `count` of its `parts` equal parts, from number `part` on.
struct Rule {
  std::string_view unit, parameter, name;
  Order order = Order::same;
  std::int64_t part = 0, parts = 1, count = 1;
};

/// The units "patches", "vision.*" and "connector" (core/models/idefics3.h), as in Hugging Face's
/// Idefics3ForConditionalGeneration.
std::span<const Rule> vision_rules();

/// All units of core/models/t5.h, as in Hugging Face's T5ForConditionalGeneration.
std::span<const Rule> t5_rules();

}  // namespace ringside::naming
