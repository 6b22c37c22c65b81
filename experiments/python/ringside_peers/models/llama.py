"""Llama."""

import torch
from torch import nn
from torch.nn import functional as F

from ringside_peers.models.parts import Named


def rotary_angles(c, positions):
    """The angles [positions, depth / 2] by which pairs of elements turn, as Llama 3 defines them."""
    depth = c["width"] // c["heads"]
    waves = 1 / (c.get("rope_base", 10000.0) ** (torch.arange(0, depth, 2).double() / depth))
    factor = c.get("rope_factor", 1.0)
    if factor > 1:
        length = 2 * torch.pi / waves
        smooth = ((8192 / length - 1) / 3).clamp(0, 1)
        waves = (1 - smooth) * waves / factor + smooth * waves
    return torch.outer(torch.arange(positions).double(), waves)


def turned(x, angles):
    """`x`: [..., positions, depth]; element i turns together with element i + depth / 2. Computed in
    fp32, as in Meta's own program."""
    cosines, sines = angles.cos().float(), angles.sin().float()
    first, second = x.float().chunk(2, -1)
    y = torch.cat([first * cosines - second * sines, second * cosines + first * sines], -1)
    return y.to(x.dtype)


class LlamaAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.heads = c, c["heads"]
        self.kv_heads = c.get("kv_heads", 0) or self.heads
        width, kv_width = c["width"], c["width"] // self.heads * self.kv_heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, kv_width, bias=False)
        self.v_proj = nn.Linear(width, kv_width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x, angles):
        def heads_of(y, heads):
            return y.unflatten(-1, (heads, -1)).transpose(1, 2)

        q = turned(heads_of(self.q_proj(x), self.heads), angles)
        k = turned(heads_of(self.k_proj(x), self.kv_heads), angles)
        v = heads_of(self.v_proj(x), self.kv_heads)
        shared = self.heads > self.kv_heads
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=shared)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class LlamaMlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        width = c["width"]
        hidden = c.get("hidden", 0) or (width * 8 // 3 + 255) // 256 * 256
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(c["width"], eps=1e-5)
        self.self_attn = LlamaAttention(c)
        self.post_attention_layernorm = nn.RMSNorm(c["width"], eps=1e-5)
        self.mlp = LlamaMlp(c)

    def forward(self, x, angles):
        x = x + self.self_attn(self.input_layernorm(x), angles)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.model = Named(
            embed_tokens=nn.Embedding(c["vocabulary"], c["width"]),
            layers=nn.ModuleList(LlamaLayer(c) for _ in range(c["layers"])),
            norm=nn.RMSNorm(c["width"], eps=1e-5),
        )
        if not c.get("tied", False):
            self.lm_head = nn.Linear(c["width"], c["vocabulary"], bias=False)

    def forward(self, tokens):
        angles = rotary_angles(self.c, tokens.shape[1])
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x, angles)
        head = self.lm_head if hasattr(self, "lm_head") else self.model.embed_tokens
        return [F.linear(self.model.norm(x), head.weight).flatten(0, 1)]
