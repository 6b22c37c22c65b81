// The [model] that a file states, to compare with the one of an experiment.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/interchange/stored.h"
#include "core/models/published_config.h"

namespace ringside {

/// A key of [model] whose value is another than the file's, and both values:
/// "num_attention_heads = 2 in FILE, heads = 4 here". If the kinds differ, no other key is
/// compared.
struct Disagreement {
  std::string key, text;
};
/// 0 and "auto" are the values that they stand for.
std::vector<Disagreement> disagreements(const StatedModel& stated, const ModelConfig& here);

/// Name and value of the metadata by which a file of weights states its [model].
std::pair<std::string, std::string> stating_metadata(const ModelConfig& model);
/// The [model] that such metadata state; none if the file has none. Throws Error that names the
/// file if stating_metadata() cannot have made the value.
std::optional<StatedModel> model_of_metadata(const StoredTensors& stored);

/// Whether Hugging Face has configurations for this kind of model, and the model_types of all kinds
/// with configurations.
bool has_hugging_face_config(std::string_view kind);
std::vector<std::string_view> hugging_face_types();

/// Reads a config.json of Hugging Face of such a model_type. A key that the file lacks has the
/// value that Hugging Face's class gives it. Throws Error that names the file, the key and its
/// value if the file's model computes something otherwise than ours. Keys that decide nothing about
/// a model's results are ignored, dropout and the length of samples among them. `setting` is the
/// key of the experiment that leads to the file, for errors.
StatedModel read_hugging_face_config(const std::filesystem::path& file, std::string_view setting);

}  // namespace ringside
