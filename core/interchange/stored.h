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

/// A whole file of weights, mapped into memory, read-only. An empty file has no bytes.
class MappedFile {
 public:
  /// Throws Error for what cannot be read and for what is no regular file.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, file_.size()}; }
  /// Throws Error if somebody has changed the file, whose bytes cannot be read then.
  void check_unchanged() const { file_.check_unchanged(); }

 private:
  RegularFile file_;
  const std::byte* data_ = nullptr;
};

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

  /// Throws Error if somebody has changed a file.
  void check_unchanged() const {
    for (const auto& file : files) file->check_unchanged();
  }
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
