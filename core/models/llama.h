// Llama: a decoder-only transformer without biases.
#pragma once

#include "core/models/model_info.h"

namespace ringside {

/// Keys of [model] that only this kind and others with its blocks have.
struct LlamaOptions {
  std::int64_t kv_heads = 0;
  double rope_base = 10000;
  double rope_factor = 1;
};

Fields fields_of(LlamaOptions& options);

/// Pre-norm blocks as in Llama 2 and 3 (Touvron et al. 2023, Grattafiori et al. 2024): RMS norms
/// with `epsilon` (1e-5), rotary positions, `kv_heads` heads of keys and values (0: as many as
/// `heads`), and an MLP with SwiGLU and `hidden` hidden elements (0: 8/3 of the width, rounded up
/// to a multiple of 256, as in Llama 2 7B). Rotary positions have base `rope_base`, and their long
/// waves are stretched by `rope_factor`. There are no biases and no dropout. Units: "embedding",
/// "block.0".., "head" (norm and a linear layer to the vocabulary, which with `tied` has the
/// embedding's table as its weight). Rows of "attention.qkv" are those of queries, keys and values;
/// rows of "mlp.in" those of gates, then of the values that they multiply. Initial values are as
/// those of GPT (core/models/gpt.h). Throws Error for sizes below 1, for heads that do not divide
/// the width or have an odd width, for `kv_heads` that do not divide `heads`, and for a `rope_base`
/// or `rope_factor` below 1.
Model make_llama(const ModelConfig& config, Device& device);
ModelInfo llama_info();

/// For other models that have Llama's blocks. check_llama() throws Error as make_llama() does. A
/// block maps [B, T, width] to the same shape; each position sees those before it.
void check_llama(const ModelConfig& config);
std::unique_ptr<Unit> make_llama_block(std::string name, const ModelConfig& config, Device& device);

/// For other models that have Llama's blocks: the sizes behind 0 (ModelInfo::complete), the names
/// of tensors in Hugging Face's LlamaForCausalLM, and its config.json, where `epsilon` is that of a
/// file that says nothing.
void complete_llama(ModelConfig& config);
std::vector<naming::Rule> llama_rules(const ModelConfig& config);
void read_llama_blocks(const PublishedConfig& file, double epsilon);

}  // namespace ringside
