"""GPT-2."""

import torch
from torch import nn
from torch.nn import functional as F

from ringside_peers.models.parts import attention


class Conv1D(nn.Module):
    """A linear layer as files of GPT-2 keep it: [in, out]."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out))
        self.bias = nn.Parameter(torch.empty(n_out))

    def forward(self, x):
        return x @ self.weight + self.bias


class GptAttention(nn.Module):
    def __init__(self, c, linear):
        super().__init__()
        self.heads = c["heads"]
        self.c_attn = linear(c["width"], 3 * c["width"])
        self.c_proj = linear(c["width"], c["width"])

    def forward(self, x):
        q, k, v = self.c_attn(x).chunk(3, -1)
        return self.c_proj(attention(q, k, v, self.heads, causal=True))


class GptMlp(nn.Module):
    def __init__(self, c, linear):
        super().__init__()
        self.c_fc = linear(c["width"], 4 * c["width"])
        self.c_proj = linear(4 * c["width"], c["width"])

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class GptBlock(nn.Module):
    def __init__(self, c, linear):
        super().__init__()
        self.ln_1 = nn.LayerNorm(c["width"])
        self.attn = GptAttention(c, linear)
        self.ln_2 = nn.LayerNorm(c["width"])
        self.mlp = GptMlp(c, linear)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """`linear`: the class of the blocks' linear layers; Conv1D for weights as in files of GPT-2."""

    def __init__(self, c, linear=nn.Linear):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(c["vocabulary"], c["width"]),
                "wpe": nn.Embedding(c["context"], c["width"]),
                "h": nn.ModuleList(GptBlock(c, linear) for _ in range(c["layers"])),
                "ln_f": nn.LayerNorm(c["width"]),
            }
        )
        if not c.get("tied", False):
            self.lm_head = nn.Linear(c["width"], c["vocabulary"], bias=False)

    def forward(self, tokens):
        t = self.transformer
        x = t.wte(tokens) + t.wpe.weight[: tokens.shape[1]]
        for block in t.h:
            x = block(x)
        head = self.lm_head if hasattr(self, "lm_head") else t.wte
        return [F.linear(t.ln_f(x), head.weight).flatten(0, 1)]
