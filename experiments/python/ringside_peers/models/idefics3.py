"""Idefics3: a vision encoder whose patches are read by a Llama."""

import torch
from torch import nn
from torch.nn import functional as F

from ringside_peers.models.llama import Llama, rotary_angles
from ringside_peers.models.parts import Named, attention


class VisionAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, self.heads = c["vision_width"], c["vision_heads"]
        self.q_proj, self.k_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.v_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        y = attention(self.q_proj(x), self.k_proj(x), self.v_proj(x), self.heads, causal=False)
        return self.out_proj(y)


class VisionMlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.fc1 = nn.Linear(c["vision_width"], c["vision_hidden"])
        self.fc2 = nn.Linear(c["vision_hidden"], c["vision_width"])

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh"))


class VisionLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.layer_norm1 = nn.LayerNorm(c["vision_width"], eps=1e-6)
        self.self_attn = VisionAttention(c)
        self.layer_norm2 = nn.LayerNorm(c["vision_width"], eps=1e-6)
        self.mlp = VisionMlp(c)

    def forward(self, x):
        x = x + self.self_attn(self.layer_norm1(x))
        return x + self.mlp(self.layer_norm2(x))


def pixel_shuffle(x, by):
    """[B, H, W, C] to [B, H / by * W / by, by * by * C]: neighbouring patches, one after the other."""
    rows = x.unflatten(1, (-1, by)).unflatten(3, (-1, by))  # [B, H / by, by, W / by, by, C]
    return rows.transpose(2, 3).flatten(3).flatten(1, 2)


class Idefics3(nn.Module):
    """A vision-language model: an image's visual tokens stand before the text. Inputs, int32: the bits
    of the images' fp32 values, channels last, then the tokens."""

    def __init__(self, c):
        super().__init__()
        self.c, width, patch = c, c["vision_width"], c["patch"]
        self.side = c["image"] // patch
        self.model = Named(
            vision_model=Named(
                embeddings=Named(
                    patch_embedding=nn.Conv2d(c["channels"], width, patch, patch),
                    position_embedding=nn.Embedding(self.side * self.side, width),
                ),
                encoder=Named(
                    layers=nn.ModuleList(VisionLayer(c) for _ in range(c["vision_layers"]))
                ),
                post_layernorm=nn.LayerNorm(width, eps=1e-6),
            ),
            connector=Named(
                modality_projection=Named(
                    proj=nn.Linear(c["shuffle"] ** 2 * width, c["width"], bias=False)
                )
            ),
            text_model=Llama({**c, "tied": True}).model,
        )
        if not c.get("tied", False):
            self.lm_head = nn.Linear(c["width"], c["vocabulary"], bias=False)

    def visual(self, images):
        """Visual tokens [B, tokens, width] of images [B, C, H, W]."""
        vision = self.model.vision_model
        x = vision.embeddings.patch_embedding(images.to(vision.post_layernorm.weight.dtype))
        x = x.flatten(2).transpose(1, 2) + vision.embeddings.position_embedding.weight
        for layer in vision.encoder.layers:
            x = layer(x)
        x = vision.post_layernorm(x).unflatten(1, (self.side, self.side))
        return self.model.connector.modality_projection.proj(pixel_shuffle(x, self.c["shuffle"]))

    def forward(self, inputs):
        size, context = self.c["image"], self.c["context"]
        bits, tokens = inputs.split([inputs.shape[1] - context, context], 1)
        images = bits.contiguous().view(torch.float32).unflatten(1, (size, size, -1))
        text, visual = self.model.text_model, self.visual(images.permute(0, 3, 1, 2))
        x = torch.cat([visual, text.embed_tokens(tokens)], 1)
        angles = rotary_angles(self.c, x.shape[1]).to(x.device)
        for layer in text.layers:
            x = layer(x, angles)
        head = self.lm_head if hasattr(self, "lm_head") else text.embed_tokens
        return [F.linear(text.norm(x[:, visual.shape[1] :]), head.weight).flatten(0, 1)]
