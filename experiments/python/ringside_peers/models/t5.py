"""T5."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from ringside_peers.models.parts import Named


def buckets_of(distances, c, both_sides):
    """The number of the bucket of each distance from a query to a key (negative: an earlier key)."""
    count, furthest = c.get("relative_buckets", 32), c.get("relative_distance", 128)
    first = torch.zeros_like(distances)
    if both_sides:
        count //= 2
        first = (distances > 0).long() * count
        away = distances.abs()
    else:
        away = (-distances).clamp(min=0)
    exact = count // 2
    grown = torch.log(away.clamp(min=1).float() / exact) / math.log(furthest / exact)
    far = (exact + (grown * (count - exact)).long()).clamp(max=count - 1)
    return first + torch.where(away < exact, away, far)


class T5Attention(nn.Module):
    """`positions`: of the sequence that attends to itself, if this module has the table of biases."""

    def __init__(self, c, causal=False, positions=0):
        super().__init__()
        self.c, self.causal, self.positions = c, causal, positions
        inner = c["heads"] * (c.get("head_width", 0) or c["width"] // c["heads"])
        self.q = nn.Linear(c["width"], inner, bias=False)
        self.k = nn.Linear(c["width"], inner, bias=False)
        self.v = nn.Linear(c["width"], inner, bias=False)
        self.o = nn.Linear(inner, c["width"], bias=False)
        if positions:
            buckets = c.get("relative_buckets", 32)
            self.relative_attention_bias = nn.Embedding(buckets, c["heads"])

    def bias(self):
        """[heads, positions, positions]"""
        places = torch.arange(self.positions, device=self.q.weight.device)
        buckets = buckets_of(places - places[:, None], self.c, not self.causal)
        return self.relative_attention_bias(buckets).permute(2, 0, 1)

    def forward(self, x, memory, bias=None):
        def split(y):
            return y.unflatten(-1, (self.c["heads"], -1)).transpose(1, 2)

        scores = split(self.q(x)) @ split(self.k(memory)).transpose(2, 3)
        if bias is not None:
            scores = scores + bias
        if self.causal:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(later, -torch.inf)
        p = scores.float().softmax(-1).to(x.dtype)  # in fp32, as in Hugging Face's program
        return self.o((p @ split(self.v(memory))).transpose(1, 2).flatten(2))


class T5Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        hidden = c.get("hidden", 0) or 4 * c["width"]
        self.wi = nn.Linear(c["width"], hidden, bias=False)
        self.wo = nn.Linear(hidden, c["width"], bias=False)

    def forward(self, x):
        return self.wo(F.relu(self.wi(x)))


class T5Block(nn.Module):
    def __init__(self, c, decoder, positions):
        super().__init__()

        def branch(**module):
            return Named(layer_norm=nn.RMSNorm(c["width"], eps=1e-6), **module)

        layers = [branch(SelfAttention=T5Attention(c, decoder, positions))]
        if decoder:
            layers.append(branch(EncDecAttention=T5Attention(c)))
        self.layer = nn.ModuleList([*layers, branch(DenseReluDense=T5Mlp(c))])

    def forward(self, x, bias, memory=None):
        for layer in self.layer:
            y = layer.layer_norm(x)
            if hasattr(layer, "SelfAttention"):
                y = layer.SelfAttention(y, y, bias)
            elif hasattr(layer, "EncDecAttention"):
                y = layer.EncDecAttention(y, memory)
            else:
                y = layer.DenseReluDense(y)
            x = x + y
        return x


class T5Stack(nn.Module):
    def __init__(self, c, decoder, positions):
        super().__init__()
        self.block = nn.ModuleList(
            T5Block(c, decoder, 0 if i else positions) for i in range(c["layers"])
        )
        self.final_layer_norm = nn.RMSNorm(c["width"], eps=1e-6)

    def forward(self, x, memory=None):
        bias = self.block[0].layer[0].SelfAttention.bias()
        for block in self.block:
            x = block(x, bias, memory)
        return self.final_layer_norm(x)


class T5(nn.Module):
    """Version 1.0, without dropout. Inputs: the tokens of the source, then those of the decoder."""

    def __init__(self, c):
        super().__init__()
        self.c = c
        self.shared = nn.Embedding(c["vocabulary"], c["width"])
        self.encoder = T5Stack(c, False, c["context"])
        self.decoder = T5Stack(c, True, c.get("target_context", 0) or c["context"])

    def forward(self, inputs):
        source, target = inputs[:, : self.c["context"]], inputs[:, self.c["context"] :]
        x = self.decoder(self.shared(target), self.encoder(self.shared(source)))
        return [F.linear(x * self.c["width"] ** -0.5, self.shared.weight).flatten(0, 1)]
