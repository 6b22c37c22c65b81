// The names and layouts that other programs use for the parameters of a model.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/models/model.h"

namespace ringside {

/// One tensor of a file, and the part of the model that it holds: elements [begin, begin +
/// shape.count()) of a unit's range, or a statistic of the unit. That part has extents `shape`;
/// its element (i, j, ..) is element i * strides[0] + j * strides[1] + .. of the file's tensor.
struct NamedTensor {
  enum class Source : std::uint8_t {
    parameter,
    statistic,  // elements of a running statistic
    counter     // how often PyTorch updated a statistic; written, but never read
  };
  std::string name{};
  std::vector<std::int64_t> extents{};  // in the file
  Source source = Source::parameter;
  std::size_t unit = 0;
  std::size_t statistic = 0;  // index in the unit's list; for statistics and counters
  std::int64_t begin = 0;
  Shape shape{};
  std::array<std::int64_t, Shape::max_rank> strides{};
  /// Whether the tensor has a row for each token. In files such a tensor may have additional rows,
  /// up to the next multiple of 128.
  bool tokens = false;
};

/// The names of all tensors of a model, and of other tensors that its files may have.
struct Names {
  std::vector<NamedTensor> tensors{};
  /// A prefix that files may leave out of the names of their tensors.
  std::string prefix{};
  /// A second name that files may have for tensors[tensor], because the model ties two layers to
  /// it. Ringside never writes this name. If a file has both, their values must be the same.
  struct Tie {
    std::string name;
    std::size_t tensor;
  };
  std::vector<Tie> ties{};
  /// A new ending of names, and `once`, the old ending that some files still have.
  struct Renamed {
    std::string ending, once;
  };
  std::vector<Renamed> renamed{};
  /// Endings of names that old programs wrote for tensors that are not parameters, such as masks
  /// and positions.
  std::vector<std::string> ignored{};
};

/// Names of the common files: gpt, llama, bert, idefics3 and t5 as in Hugging Face's
/// GPT2LMHeadModel, LlamaForCausalLM, BertForPreTraining, Idefics3ForConditionalGeneration and
/// T5ForConditionalGeneration, resnet, vgg, alexnet and inception as in torchvision, mlp under our
/// own names. Throws Error if there are no names for the kind of model or for one of its
/// parameters.
Names names_of(const Model& model, const ModelConfig& config);

/// Names of llm.c's model files, for gpt (core/interchange/llmc.h).
Names llmc_names_of(const Model& model);

}  // namespace ringside
