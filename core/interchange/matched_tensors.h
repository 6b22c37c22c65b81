// A check that the tensors of a file are those of a model.
#pragma once

#include <vector>

#include "core/interchange/stored.h"
#include "core/models/tensor_names.h"

namespace ringside {

/// Whether a file's table with `stored` rows may be that of `rows` tokens.
bool is_padded(std::int64_t rows, std::int64_t stored);

/// Returns the stored tensor for each of names.tensors; null only for counters
/// (core/models/tensor_names.h) that the file lacks. The pointers point into `file`. Throws Error,
/// one line that lists missing and unknown tensors, tensors with other extents or with a dtype that
/// no parameter has, and tied tensors whose values differ.
std::vector<const StoredTensor*> match_tensors(const StoredTensors& file, const Model& model,
                                               const Names& names);

}  // namespace ringside
