// Whether the tensors of a file are those of a model.
#pragma once

#include <vector>

#include "core/interchange/names.h"
#include "core/interchange/stored.h"

namespace ringside {

/// For each of names.tensors what it is in the file, null for counters that are not there. Throws
/// Error, one line that lists what is missing, what has other extents or a dtype that no parameter
/// has, what differs though it is tied, and what is unknown. The pointers are into `file`.
std::vector<const StoredTensor*> fit(const StoredTensors& file, const Model& model,
                                     const Names& names);

}  // namespace ringside
