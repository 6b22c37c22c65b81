// Element types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/num/bf16.h"
#include "core/num/fp16.h"

namespace ringside {

enum class DType : std::uint8_t { f32, i32, u8, bf16, f16, f64 };

constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::u8:
      return 1;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::f64:
      return 8;
    default:
      return 4;
  }
}

constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::f32:
      return "fp32";
    case DType::i32:
      return "int32";
    case DType::u8:
      return "uint8";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "fp16";
    case DType::f64:
      return "fp64";
  }
  return "unknown";
}

template <class T>
inline constexpr DType dtype_of = DType::u8;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<fp16> = DType::f16;
template <>
inline constexpr DType dtype_of<double> = DType::f64;

}  // namespace ringside
