// The bytes of files, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/support/complaint.h"

namespace ringside::testing {

/// A safetensors file with this header, followed by `data`.
inline std::string safetensors(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out + header + data;
}

inline nlohmann::json entry(const std::string& dtype, const std::vector<std::int64_t>& shape,
                            std::size_t begin, std::size_t end) {
  return {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {begin, end}}};
}

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

inline ::testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << text << "' does not contain '" << part << "'";
}

}  // namespace ringside::testing
