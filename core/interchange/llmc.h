// Model files of llm.c: GPT-2 in 16 numbers a header and one array after the other.
// https://github.com/karpathy/llm.c
#pragma once

#include <string>

#include "core/interchange/stored.h"
#include "core/models/model.h"

namespace ringside {

/// Whether the file begins with llm.c's magic number of models. Throws Error if it cannot be read.
bool is_llmc_model(const std::string& path);

/// Maps the file: names "wte", "wpe", "lnfw", "lnfb", and "ln1w.0".. for each layer; the table of
/// tokens padded, all as their rows lie in memory ([out, in]). Throws Error that names the file,
/// the byte and what stands there for another magic number or version, for sizes other than the
/// config's, and for a file that is longer or shorter than they say.
StoredTensors open_llmc_model(const std::string& path, const ModelConfig& config);

}  // namespace ringside
