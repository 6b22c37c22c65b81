// What others call the parameters of a model, and how they keep them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/models/model.h"

namespace ringside {

/// One tensor of a file: elements [begin, begin + shape.count()) of a unit's range, or a statistic
/// of the unit. Element (i, j, ..) of ours, over `shape`, is element i strides[0] + j strides[1] +
/// .. of the file's.
struct NamedTensor {
  enum class Source : std::uint8_t {
    parameter,
    statistic,  // elements of it
    counter     // PyTorch's: how often a statistic has moved; it is of use to no one here
  };
  std::string name{};
  std::vector<std::int64_t> extents{};  // in the file
  Source source = Source::parameter;
  std::size_t unit = 0;
  std::size_t statistic = 0;  // index in the unit's, of sources but parameter
  std::int64_t begin = 0;
  Shape shape{};
  std::array<std::int64_t, Shape::max_rank> strides{};
  /// A row for each token: files may have more, up to the next multiple of 128.
  bool tokens = false;
};

/// All tensors of a model, and what else its files may have.
struct Names {
  std::vector<NamedTensor> tensors{};
  /// Files that leave this out at the beginning of every name are read too.
  std::string prefix{};
  /// Other names of tensors that are tied: {name, index in `tensors`}. Never written; where a file
  /// has one, the values must be the same.
  struct Tie {
    std::string name;
    std::size_t tensor;
  };
  std::vector<Tie> ties{};
  /// Endings of names that were others once.
  struct Renamed {
    std::string ending, once;
  };
  std::vector<Renamed> renamed{};
  /// Endings of names that old programs wrote and that are no parameters: masks, positions.
  std::vector<std::string> ignored{};
};

/// gpt, bert: as Hugging Face's GPT2LMHeadModel and BertForPreTraining; resnet, vgg: as
/// torchvision; mlp: our names. Throws Error for a kind, or a parameter, that has no name.
Names names_of(const Model& model, const ModelConfig& config);

/// gpt: as llm.c's model files have them (core/interchange/llmc.h).
Names llmc_names_of(const Model& model);

}  // namespace ringside
