#include "core/interchange/name_rules.h"

namespace ringside::naming {
namespace {

constexpr Rule t5_rule_table[] = {
    {"embedding", "table.tokens", "shared.weight", Order::tokens},
    {"encoder.*", "norm1.weight", "encoder.block.*.layer.0.layer_norm.weight"},
    {"encoder.*", "attention.q.weight", "encoder.block.*.layer.0.SelfAttention.q.weight"},
    {"encoder.*", "attention.kv.weight", "encoder.block.*.layer.0.SelfAttention.k.weight",
     Order::same, 0, 2},
    {"encoder.*", "attention.kv.weight", "encoder.block.*.layer.0.SelfAttention.v.weight",
     Order::same, 1, 2},
    {"encoder.*", "attention.out.weight", "encoder.block.*.layer.0.SelfAttention.o.weight"},
    {"encoder.*", "attention.bias.buckets",
     "encoder.block.*.layer.0.SelfAttention.relative_attention_bias.weight"},
    {"encoder.*", "norm2.weight", "encoder.block.*.layer.1.layer_norm.weight"},
    {"encoder.*", "mlp.in.weight", "encoder.block.*.layer.1.DenseReluDense.wi.weight"},
    {"encoder.*", "mlp.out.weight", "encoder.block.*.layer.1.DenseReluDense.wo.weight"},
    {"bridge", "norm.weight", "encoder.final_layer_norm.weight"},
    {"decoder.*", "norm1.weight", "decoder.block.*.layer.0.layer_norm.weight"},
    {"decoder.*", "attention.q.weight", "decoder.block.*.layer.0.SelfAttention.q.weight"},
    {"decoder.*", "attention.kv.weight", "decoder.block.*.layer.0.SelfAttention.k.weight",
     Order::same, 0, 2},
    {"decoder.*", "attention.kv.weight", "decoder.block.*.layer.0.SelfAttention.v.weight",
     Order::same, 1, 2},
    {"decoder.*", "attention.out.weight", "decoder.block.*.layer.0.SelfAttention.o.weight"},
    {"decoder.*", "attention.bias.buckets",
     "decoder.block.*.layer.0.SelfAttention.relative_attention_bias.weight"},
    {"decoder.*", "norm2.weight", "decoder.block.*.layer.1.layer_norm.weight"},
    {"decoder.*", "cross.q.weight", "decoder.block.*.layer.1.EncDecAttention.q.weight"},
    {"decoder.*", "cross.kv.weight", "decoder.block.*.layer.1.EncDecAttention.k.weight",
     Order::same, 0, 2},
    {"decoder.*", "cross.kv.weight", "decoder.block.*.layer.1.EncDecAttention.v.weight",
     Order::same, 1, 2},
    {"decoder.*", "cross.out.weight", "decoder.block.*.layer.1.EncDecAttention.o.weight"},
    {"decoder.*", "norm3.weight", "decoder.block.*.layer.2.layer_norm.weight"},
    {"decoder.*", "mlp.in.weight", "decoder.block.*.layer.2.DenseReluDense.wi.weight"},
    {"decoder.*", "mlp.out.weight", "decoder.block.*.layer.2.DenseReluDense.wo.weight"},
    {"head", "norm.weight", "decoder.final_layer_norm.weight"},
};

}  // namespace

std::span<const Rule> t5_rules() { return t5_rule_table; }

}  // namespace ringside::naming
