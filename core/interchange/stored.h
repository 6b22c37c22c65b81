// Tensors as they are stored in a file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/regular_file.h"
#include "core/tensor/dtype.h"

namespace ringside {

/// A whole file, mapped into memory, read-only. An empty file has no bytes.
class MappedFile {
 public:
  /// Maps a file of weights. Throws Error if the file cannot be read or is no regular file, or if
  /// it has the format of files that are often given by mistake.
  explicit MappedFile(const std::string& path);
  /// Maps any file. Throws Error with its setting if the system refuses.
  explicit MappedFile(RegularFile file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, file_.size()}; }
  /// Throws Error if the file was changed after it was opened: its bytes are then no longer valid.
  void check_unchanged() const { file_.check_unchanged(); }

 private:
  RegularFile file_;
  const std::byte* data_ = nullptr;
};

/// A tensor in a file: row-major, little-endian, not aligned. A tensor without extents has one
/// element.
struct StoredTensor {
  std::string dtype;  // as safetensors calls it: "F32", "BF16", "F16", ..
  std::vector<std::int64_t> extents;
  std::span<const std::byte> bytes;
  std::string file;
};

/// The tensors of a file, or of all files of an index.
struct StoredTensors {
  std::string path;
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;           // of the first file that has a key
  std::vector<std::shared_ptr<const MappedFile>> files;  // own the tensors' bytes

  /// Throws Error if a file was changed after it was opened.
  void check_unchanged() const {
    for (const auto& file : files) file->check_unchanged();
  }
};

/// Takes the names that wrappers of modules add out of the tensors' names: those of PyTorch's
/// DistributedDataParallel ("module."), compile ("_orig_mod."), FSDP ("_fsdp_wrapped_module.") and
/// checkpointing ("_checkpoint_wrapped_module."), in any order. Throws Error if two tensors would
/// have one name.
void remove_wrappers(StoredTensors& stored);

/// Maps a file of weights; the mapping ends with its last owner. Throws Error if the file cannot be
/// read.
std::shared_ptr<const MappedFile> map_weights(const std::string& path);

/// The dtype that has this name in safetensors, or nothing if no parameter may have that dtype.
std::optional<DType> parameter_dtype_of(std::string_view name);
/// The dtype's name in safetensors: "F32", "BF16" or "F16". Throws Error for other dtypes.
std::string_view stored_name_of(DType dtype);
/// Extents for messages: "4x16", or "scalar" if there are none.
std::string text_of(const std::vector<std::int64_t>& extents);

}  // namespace ringside
