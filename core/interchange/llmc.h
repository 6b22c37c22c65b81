// Model files of llm.c: a header with the sizes of a GPT-2, then all arrays one after the other.
// https://github.com/karpathy/llm.c
#pragma once

#include <string>

#include "core/interchange/stored.h"
#include "core/models/tensor_names.h"

namespace ringside {

/// Whether the file begins with llm.c's magic number of models. Throws Error if it cannot be read.
bool is_llmc_model(const std::string& path);

/// Maps the file. Tensors have the names "wte", "wpe", "lnfw", "lnfb", and "ln1w.0".. for each
/// layer. The table of tokens has the file's padded rows. Weights are [out, in], as in Ringside.
/// Throws Error that names the file, the byte and what stands there if the magic number or version
/// is unknown, if sizes, epsilon or activation differ from `config`, or if the file is longer or
/// shorter than its sizes say.
StoredTensors open_llmc_model(const std::string& path, const ModelConfig& config);

/// The names that these tensors have. Throws Error for a model whose head has a table of its own.
Names llmc_names_of(const Model& model);

}  // namespace ringside
