// Description of one kind of model: what the program knows about it beside its arithmetic.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "core/device/device.h"
#include "core/models/model.h"
#include "core/models/tensor_names.h"

namespace ringside {

class PublishedConfig;

/// All [model] keys of a published model. `model.preset` selects it.
struct Preset {
  std::string_view name;
  std::string_view source;
  ModelConfig config;
  /// The exact number of parameters; a test counts them.
  std::int64_t parameters = 0;
  /// The number of parameters without the heads of the pre-training, if publications give this
  /// number; else 0.
  std::int64_t encoder = 0;
};

/// The largest allowed value of a size, by its key.
struct LargestSize {
  std::string_view name;
  std::int64_t size;
};

/// A row of models(), made in the source of the model.
struct ModelInfo {
  std::string_view name;  // model.kind
  std::string_view summary;
  /// Makes the model. Throws Error for an impossible shape (a width that the heads do not divide).
  std::function<Model(const ModelConfig&, Device&)> make;

  bool batch_norms = false;  // whether it has batch norms; if not, batch_norm_group must be 1
  bool attention = false;    // whether it has attention; if not, nothing of it can be recomputed

  /// The keys of [model] that decide what the model computes with given parameters. The length of
  /// samples, dropout and whatever else concerns training alone is not among them.
  std::vector<std::string_view> keys{};
  /// The keys that may differ from a preset's without making it another model, beside dropout,
  /// batch_norm_group and masked. Where there is no table of positions, or one of its own length,
  /// these are the lengths of samples.
  std::vector<std::string_view> sample_keys{};
  /// What 0 and "auto" stand for: epsilon of norms over rows and the activation of the MLP, with 0
  /// and `published` for a kind that has neither, and sizes, which `complete` replaces if it is
  /// set. It is called with a width and heads of 1 or more.
  double epsilon = 0;
  ModelActivation activation = ModelActivation::published;
  void (*complete)(ModelConfig&) = nullptr;

  /// The default options that this kind has for itself; none if the keys of ModelConfig are enough.
  /// `largest` are the limits of their sizes, see check_sizes().
  Options options{};
  std::vector<LargestSize> largest{};

  std::vector<Preset> (*presets)() = [] { return std::vector<Preset>{}; };
  /// The names of its tensors in files of weights. Throws Error for a parameter without a name. If
  /// it is not set, files cannot hold a model of this kind.
  std::function<Names(const Model&, const ModelConfig&)> names{};
  /// The model_type of its config.json at Hugging Face, and what reads such a file into [model],
  /// whose kind is set. What a model of Hugging Face computes otherwise than ours is refused.
  /// Dropout and the length of samples are ignored. Empty for a kind without such files.
  std::string_view model_type{};
  void (*read)(const PublishedConfig& file) = nullptr;
};

}  // namespace ringside
