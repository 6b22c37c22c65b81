"""Ringside's models in PyTorch, for all programs that compare the two: tests/parity,
tests/bench/against_pytorch.py, scripts/gpu-check, and the schemes of this package.

A model is made of a dictionary in the words of [model] in experiment files. Its forward takes the
inputs of samples as Ringside's data sets give them (images: channels first) and returns the logits of
each term of the loss, [rows, classes]. Parameters have the names of Hugging Face (GPT-2, Llama, BERT,
Idefics3, T5) or torchvision (ResNet, VGG, AlexNet, Inception).
"""

import math

import torch
from torch import nn
from torch.nn import functional as F


def loss_of(logits, targets):
    """The sum of the means of the loss's terms. `targets`: [samples, targets of all terms]."""
    loss, at = 0.0, 0
    for term in logits:
        rows = term.shape[0] // targets.shape[0]
        loss = loss + F.cross_entropy(term, targets[:, at : at + rows].flatten())
        at += rows
    return loss


class WithLoss(nn.Module):
    """A model with its loss, so that a compiler sees both together."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, inputs, targets):
        return loss_of(self.model(inputs), targets)


def start_normal(model):
    """Sets the initial values of GPT, Llama, BERT and Idefics3, but for convolutions."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return model


def attention(q, k, v, heads, causal):
    def split(x):
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)

    y = F.scaled_dot_product_attention(split(q), split(k), split(v), is_causal=causal)
    return y.transpose(1, 2).flatten(2)


class Named(nn.Module):
    """A module that only holds other modules under names."""

    def __init__(this, /, **modules):  # `this`, because a module of BERT is called self
        super().__init__()
        for name, module in modules.items():
            setattr(this, name, module)


# ---- GPT


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


# ---- Llama


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


# ---- BERT


class BertEmbeddings(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.word_embeddings = nn.Embedding(c["vocabulary"], c["width"])
        self.position_embeddings = nn.Embedding(c.get("positions", 0) or c["context"], c["width"])
        self.token_type_embeddings = nn.Embedding(c["segments"], c["width"])
        self.LayerNorm = nn.LayerNorm(c["width"], eps=1e-12)
        self.dropout = nn.Dropout(c.get("dropout", 0.0))

    def forward(self, tokens, segments):
        x = self.word_embeddings(tokens) + self.position_embeddings.weight[: tokens.shape[1]]
        return self.dropout(self.LayerNorm(x + self.token_type_embeddings(segments)))


class BertSelf(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c["heads"]
        self.query = nn.Linear(c["width"], c["width"])
        self.key = nn.Linear(c["width"], c["width"])
        self.value = nn.Linear(c["width"], c["width"])

    def forward(self, x):
        return attention(self.query(x), self.key(x), self.value(x), self.heads, causal=False)


class BertSelfInOne(nn.Module):
    """The same with the three matrices in one, as in Ringside; this is faster."""

    def __init__(self, c):
        super().__init__()
        self.heads, self.qkv = c["heads"], nn.Linear(c["width"], 3 * c["width"])

    def forward(self, x):
        return attention(*self.qkv(x).chunk(3, -1), self.heads, causal=False)


class BertOutput(nn.Module):
    def __init__(self, n_in, c):
        super().__init__()
        self.dense = nn.Linear(n_in, c["width"])
        self.LayerNorm = nn.LayerNorm(c["width"], eps=1e-12)
        self.dropout = nn.Dropout(c.get("dropout", 0.0))

    def forward(self, y, x):
        return self.LayerNorm(self.dropout(self.dense(y)) + x)


class BertLayer(nn.Module):
    def __init__(self, c, attention_of):
        super().__init__()
        width = c["width"]
        self.attention = Named(self=attention_of(c), output=BertOutput(width, c))
        self.intermediate = Named(dense=nn.Linear(width, 4 * width))
        self.output = BertOutput(4 * width, c)

    def forward(self, x):
        x = self.attention.output(getattr(self.attention, "self")(x), x)
        return self.output(F.gelu(self.intermediate.dense(x)), x)


class Bert(nn.Module):
    """BERT with both heads for pre-training. The head for words sees hidden positions alone, and
    shares the embedding's table. Inputs: tokens, their segments, hidden positions."""

    def __init__(self, c, attention_of=BertSelf):
        super().__init__()
        self.c, width = c, c["width"]
        self.bert = Named(
            embeddings=BertEmbeddings(c),
            encoder=Named(
                layer=nn.ModuleList(BertLayer(c, attention_of) for _ in range(c["layers"]))
            ),
            pooler=Named(dense=nn.Linear(width, width)),
        )
        transform = Named(dense=nn.Linear(width, width), LayerNorm=nn.LayerNorm(width, eps=1e-12))
        self.cls = Named(predictions=Named(transform=transform), seq_relationship=nn.Linear(width, 2))
        self.cls.predictions.bias = nn.Parameter(torch.zeros(c["vocabulary"]))

    def forward(self, inputs):
        context = self.c["context"]
        tokens, segments, masked = inputs.split([context, context, self.c["masked"]], 1)
        x = self.bert.embeddings(tokens, segments)
        for layer in self.bert.encoder.layer:
            x = layer(x)
        asked = x.gather(1, masked[..., None].expand(-1, -1, x.shape[-1])).flatten(0, 1)
        predictions = self.cls.predictions
        asked = predictions.transform.LayerNorm(F.gelu(predictions.transform.dense(asked)))
        words = F.linear(asked, self.bert.embeddings.word_embeddings.weight, predictions.bias)
        return [words, self.cls.seq_relationship(torch.tanh(self.bert.pooler.dense(x[:, 0])))]


# ---- Idefics3


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


# ---- T5


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


# ---- images


class ResNetBlock(nn.Module):
    def __init__(self, n_in, inner, stride, bottleneck, groups=1, group_width=64):
        super().__init__()
        out = 4 * inner if bottleneck else inner
        width = inner * group_width // 64 * groups
        path = [(1, 1, width, 1), (3, stride, width, groups), (1, 1, out, 1)]
        if not bottleneck:
            path = [(3, stride, inner, 1), (3, 1, out, 1)]
        channels, self.length = n_in, len(path)
        for i, (size, by, to, parts) in enumerate(path, 1):
            convolution = nn.Conv2d(channels, to, size, by, size // 2, bias=False, groups=parts)
            setattr(self, f"conv{i}", convolution)
            setattr(self, f"bn{i}", nn.BatchNorm2d(to))
            channels = to
        self.downsample = None
        if stride != 1 or n_in != out:
            self.downsample = nn.Sequential(
                nn.Conv2d(n_in, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x):
        around = self.downsample(x) if self.downsample else x
        for i in range(1, self.length + 1):
            x = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x))
            x = F.relu(x + around if i == self.length else x, inplace=True)
        return x


class ResNet(nn.Module):
    BLOCKS = {10: (1, 1, 1, 1), 14: (1, 1, 1, 1), 18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}

    def __init__(self, c):
        super().__init__()
        bottleneck = c["layers"] in (14, 50)
        groups = (c.get("groups", 1), c.get("group_width", 64))
        self.pool = nn.MaxPool2d(3, 2, 1) if c["stem"] == "imagenet" else nn.Identity()
        size, stride = (7, 2) if c["stem"] == "imagenet" else (3, 1)
        channels = c["filters"]
        self.conv1 = nn.Conv2d(c["channels"], channels, size, stride, size // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        for stage, count in enumerate(self.BLOCKS[c["layers"]]):
            inner, layer = c["filters"] << stage, []
            for i in range(count):
                stride = 2 if stage and not i else 1
                layer.append(ResNetBlock(channels, inner, stride, bottleneck, *groups))
                channels = 4 * inner if bottleneck else inner
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layer))
        self.fc = nn.Linear(channels, c["classes"])

    def forward(self, images):
        x = images.to(self.conv1.weight.dtype)  # images come in fp32, as in Ringside
        x = self.pool(F.relu(self.bn1(self.conv1(x)), inplace=True))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return [self.fc(x.mean((2, 3)))]


class Vgg(nn.Module):
    def __init__(self, c):
        super().__init__()
        filters, layers, channels = c["filters"], [], c["channels"]
        for stage, count in enumerate({11: [1, 1, 2, 2, 2]}[c["layers"]]):
            for _ in range(count):
                out = filters << min(stage, 3)
                layers += [nn.Conv2d(channels, out, 3, 1, 1), nn.ReLU()]
                channels = out
            layers.append(nn.MaxPool2d(2))
        hidden, side, dropout = 8 * filters, c["image"] // 32, c.get("dropout", 0.0)
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(channels * side * side, hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(hidden, c["classes"]),
        )

    def forward(self, images):
        return [self.classifier(self.features(images).flatten(1))]


class AlexNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        filters, layers, channels = c["filters"], [], c["channels"]
        shapes = [(1, 11, 4, 2), (3, 5, 1, 2), (6, 3, 1, 1), (4, 3, 1, 1), (4, 3, 1, 1)]
        for i, (times, size, stride, padding) in enumerate(shapes):
            layers += [nn.Conv2d(channels, times * filters, size, stride, padding), nn.ReLU()]
            channels = times * filters
            if i in (0, 1, 4):
                layers.append(nn.MaxPool2d(3, 2))
        side = (c["image"] - 7) // 4 + 1
        for _ in range(3):
            side = (side - 3) // 2 + 1
        hidden, dropout = 64 * filters, c.get("dropout", 0.0)
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), nn.Linear(channels * side * side, hidden), nn.ReLU(),
            nn.Dropout(dropout), nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, c["classes"]),
        )

    def forward(self, images):
        return [self.classifier(self.features(images).flatten(1))]


class InceptionConv(nn.Module):
    def __init__(self, n_in, out, **kernel):
        super().__init__()
        self.conv = nn.Conv2d(n_in, out, bias=False, **kernel)
        self.bn = nn.BatchNorm2d(out, eps=0.001)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)), inplace=True)


class InceptionBlock(nn.Module):
    """Branches that are joined along the channels. A branch is a list of steps; a step is a pool, or
    a name with channels and a kernel, or a list of such, which see the same input."""

    def __init__(self, n_in, branches):
        super().__init__()
        self.branches, self.out = branches, 0
        for branch in branches:
            channels = n_in
            for step in branch:
                if callable(step):
                    continue
                steps = step if isinstance(step, list) else [step]
                for name, out, kernel in steps:
                    setattr(self, name, InceptionConv(channels, out, **kernel))
                channels = sum(out for _, out, _ in steps)
            self.out += channels

    def forward(self, x):
        results = []
        for branch in self.branches:
            y = x
            for step in branch:
                if callable(step):
                    y = step(y)
                elif isinstance(step, list):
                    y = torch.cat([getattr(self, name)(y) for name, _, _ in step], 1)
                else:
                    y = getattr(self, step[0])(y)
            results.append(y)
        return torch.cat(results, 1)


class Inception(nn.Module):
    """Inception-v3 without its auxiliary classifier. 24 layers: one block of each kind."""

    def __init__(self, c):
        super().__init__()

        def wide(published):
            return -(-published * c["filters"] // 32)

        one, three = {"kernel_size": 1}, {"kernel_size": 3, "padding": 1}
        halving = {"kernel_size": 3, "stride": 2}

        def long(rows, columns):
            return {"kernel_size": (rows, columns), "padding": (rows // 2, columns // 2)}

        def average(x):
            return F.avg_pool2d(x, 3, 1, 1)

        def largest(x):
            return F.max_pool2d(x, 3, 2)

        def chain(prefix, *steps):
            return [(f"{prefix}_{i}", wide(out), kernel) for i, (out, kernel) in enumerate(steps, 1)]

        def alone(name, out, kernel):
            return (name, wide(out), kernel)

        def a(pooled):
            return [
                [alone("branch1x1", 64, one)],
                chain("branch5x5", (48, one), (64, {"kernel_size": 5, "padding": 2})),
                chain("branch3x3dbl", (64, one), (96, three), (96, three)),
                [average, alone("branch_pool", pooled, one)],
            ]

        def b():
            return [
                [alone("branch3x3", 384, halving)],
                chain("branch3x3dbl", (64, one), (96, three), (96, halving)),
                [largest],
            ]

        def seven(n):
            return [
                [alone("branch1x1", 192, one)],
                chain("branch7x7", (n, one), (n, long(1, 7)), (192, long(7, 1))),
                chain("branch7x7dbl", (n, one), (n, long(7, 1)), (n, long(1, 7)), (n, long(7, 1)),
                      (192, long(1, 7))),
                [average, alone("branch_pool", 192, one)],
            ]

        def d():
            return [
                chain("branch3x3", (192, one), (320, halving)),
                chain("branch7x7x3", (192, one), (192, long(1, 7)), (192, long(7, 1)), (192, halving)),
                [largest],
            ]

        def ends(prefix):
            return [alone(prefix + "a", 384, long(1, 3)), alone(prefix + "b", 384, long(3, 1))]

        def e():
            return [
                [alone("branch1x1", 320, one)],
                [*chain("branch3x3", (384, one)), ends("branch3x3_2")],
                [*chain("branch3x3dbl", (448, one), (384, three)), ends("branch3x3dbl_3")],
                [average, alone("branch_pool", 192, one)],
            ]

        blocks = {"5b": a(32), "5c": a(64), "5d": a(64), "6a": b(), "6b": seven(128), "6c": seven(160),
                  "6d": seven(160), "6e": seven(192), "7a": d(), "7b": e(), "7c": e()}
        if c["layers"] == 24:
            blocks = {key: blocks[key] for key in ("5b", "6a", "6b", "7a", "7b")}
        self.Conv2d_1a_3x3 = InceptionConv(c["channels"], wide(32), **halving)
        self.Conv2d_2a_3x3 = InceptionConv(wide(32), wide(32), kernel_size=3)
        self.Conv2d_2b_3x3 = InceptionConv(wide(32), wide(64), **three)
        self.Conv2d_3b_1x1 = InceptionConv(wide(64), wide(80), **one)
        self.Conv2d_4a_3x3 = InceptionConv(wide(80), wide(192), kernel_size=3)
        channels, self.names = wide(192), []
        for key, branches in blocks.items():
            block = InceptionBlock(channels, branches)
            setattr(self, f"Mixed_{key}", block)
            self.names.append(f"Mixed_{key}")
            channels = block.out
        self.dropout = nn.Dropout(c.get("dropout", 0.0))
        self.fc = nn.Linear(channels, c["classes"])

    def forward(self, images):
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(images)))
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(F.max_pool2d(x, 3, 2)))
        x = F.max_pool2d(x, 3, 2)
        for name in self.names:
            x = getattr(self, name)(x)
        return [self.fc(self.dropout(x.mean((2, 3))))]


# ---- words in a fixed context


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        width = c["width"]
        size = max(4, width // c["context"])
        self.embedding = nn.Embedding(c["vocabulary"], size)
        self.hidden = nn.ModuleList(
            nn.Linear(width if i else size * c["context"], width) for i in range(c["layers"])
        )
        self.head = nn.Linear(width, c["vocabulary"])

    def forward(self, tokens):
        x = self.embedding(tokens).flatten(1)
        for layer in self.hidden:
            x = F.relu(layer(x))
        return [self.head(x)]
