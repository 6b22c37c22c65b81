#include "core/models/models.h"

#include <utility>

#include "core/base/error.h"
#include "core/base/row_list.h"
#include "core/models/alexnet.h"
#include "core/models/bert.h"
#include "core/models/gpt.h"
#include "core/models/idefics3.h"
#include "core/models/inception.h"
#include "core/models/llama.h"
#include "core/models/mlp.h"
#include "core/models/resnet.h"
#include "core/models/t5.h"
#include "core/models/vgg.h"

namespace ringside {
namespace {

/// Rows must not be made with a ModelConfig: it is made with the options of all rows.
RowList<ModelInfo>& model_list() {
  static RowList<ModelInfo> list(
      "model", {gpt_info(), llama_info(), bert_info(), idefics3_info(), t5_info(), mlp_info(),
                resnet_info(), vgg_info(), alexnet_info(), inception_info()});
  return list;
}

}  // namespace

const std::vector<ModelInfo>& models() { return model_list().rows(); }
void add_model(ModelInfo row) { model_list().add(std::move(row)); }
const ModelInfo& find_model(std::string_view kind) { return model_list().find(kind); }

std::vector<Options> default_own_options() {
  std::vector<Options> out;
  for (const ModelInfo& model : models())
    if (!model.options.fields().empty()) out.push_back(model.options);
  return out;
}

Model make_model(const ModelConfig& config, Device& device) {
  return find_model(config.kind).make(config, device);
}

Names names_of(const Model& model, const ModelConfig& config) {
  const ModelInfo& info = find_model(config.kind);
  if (!info.names)
    throw Error("model.kind = '{}': files of weights cannot hold a model of this kind",
                config.kind);
  return info.names(model, config);
}

}  // namespace ringside
