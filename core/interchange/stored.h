// Tensors in a file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/files.h"
#include "core/tensor/dtype.h"

namespace ringside {

/// Row-major, little-endian, not aligned. Any number of extents; none: one element.
struct StoredTensor {
  std::string dtype;  // as safetensors calls it: "F32", "BF16", "F16", ..
  std::vector<std::int64_t> extents;
  std::span<const std::byte> bytes;
  std::string file;
};

/// What a file, or the files of an index, hold.
struct StoredTensors {
  std::string path;
  std::map<std::string, StoredTensor> tensors;
  std::vector<std::shared_ptr<const MappedFile>> files;  // which the tensors' bytes are of
};

/// For as long as somebody has it. Throws Error if it cannot be read.
std::shared_ptr<const MappedFile> map_weights(const std::string& path);

/// The dtype of that name in safetensors, for those that parameters may have.
std::optional<DType> parameter_dtype_of(std::string_view name);
/// Its name there: "F32", "BF16", "F16". Throws Error for others.
std::string_view stored_name_of(DType dtype);
/// "4x16"; "scalar" for no extents.
std::string text_of(const std::vector<std::int64_t>& extents);

}  // namespace ringside
