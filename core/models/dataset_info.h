// Description of a kind of data set, whose samples have the shape that a model asks for.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "core/data/dataset.h"
#include "core/data/file_list.h"
#include "core/models/model_config.h"

namespace ringside {

struct Datasets {
  std::unique_ptr<Dataset> training, held_out;  // held_out may be null
};

/// A row of the list of data sets.
struct DatasetInfo {
  std::string_view name;  // data.kind
  std::string_view summary;
  /// The files that the data set reads; none for data that the program makes itself. Throws Error
  /// for missing files.
  std::function<DataFiles(const DataConfig&)> files;
  /// Whether any new file in a folder of data.path becomes part of the data, whatever its name.
  bool any_file = false;
  /// Makes both parts. Throws Error for a task that the data cannot serve, and for files with wrong
  /// content.
  std::function<Datasets(const DataConfig&, const ModelConfig&, Task)> make;
};

}  // namespace ringside
