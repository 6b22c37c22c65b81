#include "core/interchange/name_rules.h"

namespace ringside::naming {
namespace {

constexpr Rule vision_rule_table[] = {
    {"patches", "convolution.weight", "model.vision_model.embeddings.patch_embedding.weight",
     Order::channels_first},
    {"patches", "convolution.bias", "model.vision_model.embeddings.patch_embedding.bias"},
    {"patches", "positions", "model.vision_model.embeddings.position_embedding.weight"},
    {"vision.*", "norm1.weight", "model.vision_model.encoder.layers.*.layer_norm1.weight"},
    {"vision.*", "norm1.bias", "model.vision_model.encoder.layers.*.layer_norm1.bias"},
    {"vision.*", "attention.qkv.weight",
     "model.vision_model.encoder.layers.*.self_attn.q_proj.weight", Order::same, 0, 3},
    {"vision.*", "attention.qkv.weight",
     "model.vision_model.encoder.layers.*.self_attn.k_proj.weight", Order::same, 1, 3},
    {"vision.*", "attention.qkv.weight",
     "model.vision_model.encoder.layers.*.self_attn.v_proj.weight", Order::same, 2, 3},
    {"vision.*", "attention.qkv.bias", "model.vision_model.encoder.layers.*.self_attn.q_proj.bias",
     Order::same, 0, 3},
    {"vision.*", "attention.qkv.bias", "model.vision_model.encoder.layers.*.self_attn.k_proj.bias",
     Order::same, 1, 3},
    {"vision.*", "attention.qkv.bias", "model.vision_model.encoder.layers.*.self_attn.v_proj.bias",
     Order::same, 2, 3},
    {"vision.*", "attention.out.weight",
     "model.vision_model.encoder.layers.*.self_attn.out_proj.weight"},
    {"vision.*", "attention.out.bias",
     "model.vision_model.encoder.layers.*.self_attn.out_proj.bias"},
    {"vision.*", "norm2.weight", "model.vision_model.encoder.layers.*.layer_norm2.weight"},
    {"vision.*", "norm2.bias", "model.vision_model.encoder.layers.*.layer_norm2.bias"},
    {"vision.*", "mlp.in.weight", "model.vision_model.encoder.layers.*.mlp.fc1.weight"},
    {"vision.*", "mlp.in.bias", "model.vision_model.encoder.layers.*.mlp.fc1.bias"},
    {"vision.*", "mlp.out.weight", "model.vision_model.encoder.layers.*.mlp.fc2.weight"},
    {"vision.*", "mlp.out.bias", "model.vision_model.encoder.layers.*.mlp.fc2.bias"},
    {"connector", "norm.weight", "model.vision_model.post_layernorm.weight"},
    {"connector", "norm.bias", "model.vision_model.post_layernorm.bias"},
    {"connector", "visual.weight", "model.connector.modality_projection.proj.weight",
     Order::joined_columns},
};

}  // namespace

std::span<const Rule> vision_rules() { return vision_rule_table; }

}  // namespace ringside::naming
