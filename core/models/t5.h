// T5: an encoder and a decoder.
#pragma once

#include "core/models/model_info.h"

namespace ringside {

/// Keys of [model] that only this kind has.
struct T5Options {
  std::int64_t head_width = 0;
  std::int64_t relative_buckets = 32;
  std::int64_t relative_distance = 128;
};

Fields fields_of(T5Options& options);

/// The encoder-decoder of Raffel et al. 2020 (version 1.0): pre-norm blocks with RMS norms
/// (`epsilon`, 1e-6) and linear layers without biases, an MLP with `activation` (relu), and
/// attention that does not scale its scores but, within a sequence, adds a learned bias for each
/// head and bucket of distances. One table serves both sequences of tokens and the logits, which
/// are computed from the decoder's output times width^-0.5.
///
/// `layers`: blocks of the encoder, and as many of the decoder. `context`: source tokens of a
/// sample; `target_context`: target tokens (0: as many). `head_width`: width of a head (0: `width`
/// / `heads`); `hidden`: hidden elements of the MLP (0: 4 times the width). `relative_buckets`,
/// `relative_distance`: see RelativeBiasOptions (core/nn/relative_bias.h). Dropout applies to
/// embeddings, to what each branch adds, to hidden elements and behind the last norms; not to
/// probabilities of attention. `tied` is not read.
///
/// Input: int32 [context + target_context], source tokens and then the decoder's tokens
/// (Task::target_tokens). Units: "embedding" (of both), "encoder.0".., "bridge" (the encoder's last
/// norm), "decoder.0".., "head" (norm and logits). The embedding returns the source's stream; the
/// bridge keeps the encoder's output for the decoder's blocks, and returns the target's stream. The
/// first block of each stack has the table of biases. Throws Error for sizes below 1, for heads
/// that do not divide the width if `head_width` is 0, for heads wider than 2^20 together, and for
/// buckets or distances that RelativeBias does not take.
Model make_t5(const ModelConfig& config, Device& device);
ModelInfo t5_info();

}  // namespace ringside
