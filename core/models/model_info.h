// Description of a kind of model: its keys, defaults, presets and names in files.
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
  /// samples, dropout and other keys that concern training alone are not among them.
  std::vector<std::string_view> keys{};
  /// The keys that may differ from a preset's without making it another model, beside dropout,
  /// batch_norm_group and masked. For a kind without a table of positions, or with one whose length
  /// is a key, these are the lengths of samples.
  std::vector<std::string_view> sample_keys{};
  /// The values that 0 and "auto" stand for: the epsilon of norms over rows (0 for a kind without
  /// them), and the activation of the MLP (`published` for a kind without one). `complete`, if it
  /// is set, replaces sizes of 0; it is called with a width and heads of 1 or more.
  double epsilon = 0;
  ModelActivation activation = ModelActivation::published;
  void (*complete)(ModelConfig&) = nullptr;

  /// The default options that only this kind has; none if the keys of ModelConfig are enough.
  /// `largest` are the limits of their sizes, see check_sizes().
  Options options{};
  std::vector<LargestSize> largest{};

  std::vector<Preset> (*presets)() = [] { return std::vector<Preset>{}; };
  /// The names of its tensors in files of weights. Throws Error for a parameter without a name. If
  /// it is not set, files cannot hold a model of this kind.
  std::function<Names(const Model&, const ModelConfig&)> names{};
  /// The model_type of its config.json at Hugging Face, and the function that reads such a file
  /// into a [model] whose kind is set. Refuses a file whose model computes something otherwise than
  /// ours. Dropout and the length of samples are ignored. Empty for a kind without such files.
  std::string_view model_type{};
  void (*read)(const PublishedConfig& file) = nullptr;
};

}  // namespace ringside
