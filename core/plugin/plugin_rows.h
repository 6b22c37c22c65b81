// PluginRows: what a plug-in adds to the lists of the program.
#pragma once

#include <utility>
#include <vector>

#include "core/compress/compressor_info.h"
#include "core/models/dataset_info.h"
#include "core/models/model_info.h"
#include "core/optim/optimizers.h"
#include "core/scheme/scheme_info.h"

namespace ringside {

/// Rows of a plug-in, by kind. Names and summaries are texts that live as long as the plug-in.
struct PluginRows {
  std::vector<SchemeInfo> schemes;
  std::vector<ModelInfo> models;
  std::vector<OptimizerInfo> optimizers;
  std::vector<DatasetInfo> datasets;
  std::vector<CompressorInfo> compressors;

  void add(SchemeInfo row) { schemes.push_back(std::move(row)); }
  void add(ModelInfo row) { models.push_back(std::move(row)); }
  void add(OptimizerInfo row) { optimizers.push_back(std::move(row)); }
  void add(DatasetInfo row) { datasets.push_back(std::move(row)); }
  void add(CompressorInfo row) { compressors.push_back(std::move(row)); }

  template <class... Rows>
  void add_all(Rows... rows) {
    (add(std::move(rows)), ...);
  }
};

}  // namespace ringside
