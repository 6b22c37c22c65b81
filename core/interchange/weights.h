// Reading and writing of a model's weights under the names that other programs use
// (core/models/tensor_names.h).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/interchange/safetensors.h"
#include "core/models/initial_values.h"
#include "core/models/tensor_names.h"

namespace ringside {

/// Opens a safetensors file, the index of several such files, or a model file of llm.c. The [model]
/// is compared with the one in the metadata of a file that WeightsFile wrote, and with a
/// config.json of Hugging Face in the file's folder (core/interchange/stated_model.h). Throws Error
/// with both values of each key that differs; a vocabulary may be padded there. Names of wrappers
/// are left out of tensors' names. Throws Error that lists what does not fit the model: tensors
/// that are missing, that the model does not have, that have other extents, or that are not in
/// fp32, bf16 or fp16. A table of tokens may have more rows, up to the next multiple of 128; the
/// additional rows are left out. The file stays mapped as long as the result lives. Values are
/// converted to fp32 and then to the dtype of the tensor that receives them, which keeps the bits
/// if file and tensor have the same dtype. Values that are not finite in the tensor's dtype are
/// refused when they are read.
std::shared_ptr<const InitialValues> open_weights(const std::string& path, const Model& model,
                                                  const ModelConfig& config);

/// Writes a model's parameters and running statistics to a safetensors file, or to memory, with the
/// [model] as metadata. Hugging Face or torchvision can load the file if they have the same kind of
/// model. Tied tensors are written once.
class WeightsFile {
 public:
  /// `dtype` is the dtype of the values that add() receives; statistics are fp32. `model` must
  /// outlive this object. All functions throw Error if the file cannot be written.
  WeightsFile(std::filesystem::path path, const Model& model, const ModelConfig& config,
              DType dtype);
  /// Writes the bytes of such a file to `bytes`, which must outlive this object.
  WeightsFile(std::vector<std::byte>& bytes, const Model& model, const ModelConfig& config,
              DType dtype);

  /// Writes all parameters of one unit of the model: see SyncScheme::visit_parameters(). Blocks
  /// until `values` have been read from the device, and holds a copy of this one unit in the host's
  /// memory.
  void add(const Unit& unit, const Tensor& values);
  /// Writes the statistics as they are now, after `steps` steps of training. When finish() returns
  /// the file is complete under its final name.
  void finish(std::int64_t steps);

 private:
  const Model& model_;
  Names names_;
  DType dtype_;
  SafetensorsWriter writer_;
};

}  // namespace ringside
