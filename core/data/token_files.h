// The files of a data set of tokens.
#pragma once

#include <string>
#include <vector>

#include "core/data/file_list.h"

namespace ringside {

/// `paths` are files, which are all for training whatever their names, or folders. A folder stands
/// for its *.bin files sorted by name. Those of them whose names have the part "val", as
/// fineweb_val_000000.bin and tiny_shakespeare_val.bin have and medieval.bin has not, are held out,
/// unless all have it. Throws Error if a folder has no such file, or if one is missing within a
/// numbered sequence of them.
DataFiles token_files(const std::vector<std::string>& paths);

}  // namespace ringside
