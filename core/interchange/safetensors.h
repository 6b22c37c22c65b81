// safetensors: the usual file format for weights of PyTorch models.
//
// A file has eight bytes with the length of the header, the header in JSON, then the tensors'
// bytes. https://huggingface.co/docs/safetensors
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/whole_file.h"
#include "core/interchange/stored.h"

namespace ringside {

struct ParsedSafetensors {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Parses a file without copying: the result's spans point into `bytes`. Throws Error that names
/// `path`, the tensor and what is wrong: a header that is too long or not JSON, a name that occurs
/// twice, a dtype that the format does not have, or offsets that do not match the shape, overlap,
/// leave gaps or do not end at the end of the file.
ParsedSafetensors parse_safetensors(const std::string& path, std::span<const std::byte> bytes);

/// Maps the file, or the files in the folder of a "*.index.json" that this index names. Throws
/// Error as parse_safetensors() does, or if the index and its files disagree.
StoredTensors open_safetensors(const std::string& path);

/// The files that open_safetensors() maps, and the index. Throws Error for an index that cannot be
/// read.
std::vector<std::string> safetensors_files(const std::string& path);

/// Writes a file that appears under its name only when finish() has made it complete, or the bytes
/// of such a file. Tensors may come in any order.
class SafetensorsWriter {
 public:
  struct Tensor {
    std::string name, dtype;
    std::vector<std::int64_t> extents;
    std::size_t element_bytes = 4;
  };

  using Metadata = std::map<std::string, std::string>;

  /// The bytes of a file before its tensors, for callers that write the file themselves. The
  /// tensors follow without gaps: those with larger elements first, otherwise in this order.
  static std::vector<std::byte> header(const std::vector<Tensor>& tensors,
                                       const Metadata& metadata);

  /// This and all other functions throw Error with the system's reason if the file cannot be
  /// written. `metadata` is added to the entries that readers for PyTorch expect.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<Tensor> tensors,
                    const Metadata& metadata = {});
  /// Resizes `bytes`, which must outlive the writer, and writes there instead of to a file.
  SafetensorsWriter(std::vector<std::byte>& bytes, std::vector<Tensor> tensors,
                    const Metadata& metadata = {});

  /// Writes all bytes of tensors[index], row-major.
  void write(std::size_t index, std::span<const std::byte> bytes);
  /// Gives a file its name. If this is never called, no file is left. Throws Error if a tensor
  /// has not been written.
  void finish();

 private:
  /// Takes the tensors, finds their offsets, and returns what stands before them.
  std::vector<std::byte> begin(std::vector<Tensor> tensors, const Metadata& metadata);
  void put(std::span<const std::byte> bytes, std::size_t offset);

  std::optional<WholeFile> file_;
  std::vector<std::byte>* memory_ = nullptr;  // in place of a file
  std::string name_;                          // for errors
  std::vector<Tensor> tensors_;
  std::vector<std::size_t> offsets_;  // of the tensors, in the file
  std::vector<bool> written_;
};

}  // namespace ringside
