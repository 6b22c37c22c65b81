// Idefics3: a vision-language model, the architecture of SmolVLM.
#pragma once

#include "core/models/model_info.h"

namespace ringside {

/// Keys of [model] that only this kind has.
struct Idefics3Options {
  std::int64_t patch = 4;
  std::int64_t shuffle = 2;
  std::int64_t vision_layers = 2;
  std::int64_t vision_heads = 4;
  std::int64_t vision_width = 64;
  std::int64_t vision_hidden = 256;
};

Fields fields_of(Idefics3Options& options);

/// A vision transformer, a connector and a decoder (Laurençon et al. 2024, "Building and better
/// understanding vision-language models"; Marafioti et al. 2025 for SmolVLM).
///
/// A sample is one image and `context` tokens (Task::caption_tokens). The decoder reads the image's
/// visual tokens first, then the text; a position sees itself and the positions before it. Logits
/// are those of the text's positions alone. Published runs also divide an image into tiles and
/// place its tokens within a template of text. Such preparation belongs to the data; the arithmetic
/// of a position is the same.
///
/// Units:
///   - "patches": a convolution over patches of `patch` x `patch` pixels without overlap, and a
///     learned position for each patch. Pixels that fill no patch are left out.
///   - "vision.0".. (`vision_layers`): pre-norm blocks as in SigLIP (Zhai et al. 2023) with
///     `vision_width`, `vision_heads` and `vision_hidden`, attention in both directions and norms
///     with epsilon 1e-6.
///   - "connector": the last norm of the vision transformer; a linear layer without bias that makes
///     one visual token of `shuffle` x `shuffle` neighbouring patches ("pixel shuffle", which puts
///     their elements one after the other); and the table of the text's tokens.
///   - "block.0".. (`layers`): the blocks of Llama (core/models/llama.h), over visual and text
///     tokens.
///   - "head": a norm and a linear layer to the vocabulary, which with `tied` has the connector's
///     table as its weight.
///
/// There is no dropout. Initial values are N(0, 0.02), and those of Llama in the decoder; biases
/// are 0. Throws Error for what make_llama() refuses, for sizes of vision below 1, for
/// `vision_heads` that do not divide `vision_width`, for a `patch` larger than the image, for a
/// `shuffle` that does not divide the patches of a side, and for more than 65536 patches.
Model make_idefics3(const ModelConfig& config, Device& device);
ModelInfo idefics3_info();

}  // namespace ringside
