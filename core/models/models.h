// Kinds of models that this build contains.
#pragma once

#include <string_view>
#include <vector>

#include "core/models/model_info.h"

namespace ringside {

const std::vector<ModelInfo>& models();
/// Adds a kind of model of a plug-in. Throws Error as RowList::add() does.
void add_model(ModelInfo row);

/// Throws Error that tells the most similar name and all names if there is none.
const ModelInfo& find_model(std::string_view kind);

/// Makes a model of config.kind. Throws Error as find_model() and ModelInfo::make do.
Model make_model(const ModelConfig& config, Device& device);

/// Names of the common files: those of Hugging Face's and torchvision's classes, or our own. Throws
/// Error if there are no names for the kind of model or for one of its parameters.
Names names_of(const Model& model, const ModelConfig& config);

}  // namespace ringside
