// Weights of a model, in and out, by the names that others use (core/interchange/names.h).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "core/interchange/names.h"
#include "core/interchange/safetensors.h"
#include "core/models/initial_values.h"

namespace ringside {

/// Of a safetensors file, the index of several, or a model file of llm.c. Throws Error that lists
/// what does not fit the model: tensors that are missing, that nobody knows, of other extents or no
/// floating dtype. A table of tokens may have more rows, up to the next multiple of 128, which are
/// left out. The file is mapped as long as the result lives; fp32, bf16 and fp16 become what is
/// asked for by way of fp32, so what was written is read with the same bits. Values that are not
/// finite are refused when they are read.
std::shared_ptr<const InitialValues> open_weights(const std::string& path, const Model& model,
                                                  const ModelConfig& config);

/// Writes a model's parameters and running statistics to a safetensors file: what has the names of
/// Hugging Face or torchvision loads there. Tied tensors are written once.
class WeightsFile {
 public:
  /// `dtype` is that of the values that add() gets; statistics are fp32. Both references outlive
  /// it. Throws Error where the file cannot be written, here and below.
  WeightsFile(std::filesystem::path path, const Model& model, const ModelConfig& config,
              DType dtype);

  /// All parameters of a unit of the model: see SyncScheme::visit_parameters(). Blocks until they
  /// have been read; holds one unit in the host's memory.
  void add(const Unit& unit, const Tensor& values);
  /// Statistics as they are now, after that many steps of training. The file is there, whole, when
  /// this returns.
  void finish(std::int64_t steps);

 private:
  const Model& model_;
  Names names_;
  DType dtype_;
  SafetensorsWriter writer_;
};

}  // namespace ringside
