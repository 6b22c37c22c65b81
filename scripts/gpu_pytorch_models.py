"""GPT, BERT and ResNet in PyTorch as `ringside` computes them. A model's forward takes a batch, and
gives the mean loss. `shape` has the names of [model] in experiment files."""

import torch
from torch import nn
from torch.nn import functional


def start_normal(model):
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        samples, positions, width = x.shape
        qkv = self.qkv(x).view(samples, positions, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(samples, positions, width))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal=True)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.contract(functional.gelu(self.expand(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, heads, width, context, vocabulary):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(GptBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        start_normal(self)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class BertBlock(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.attention = Attention(width, heads, causal=False)
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = self.norm1(x + self.dropout(self.attention(x)))
        y = self.contract(functional.gelu(self.expand(x)))
        return self.norm2(x + self.dropout(y))


class Bert(nn.Module):
    """With both heads of its pre-training; that of the words sees hidden positions alone, and has
    the embedding's table."""

    def __init__(self, layers, heads, width, context, positions, vocabulary, segments, masked,
                 dropout):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width)
        self.segments = nn.Embedding(segments, width)
        self.norm = nn.LayerNorm(width, 1e-12)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(BertBlock(width, heads, dropout) for _ in range(layers))
        self.pooler, self.follows = nn.Linear(width, width), nn.Linear(width, 2)
        self.transform, self.head_norm = nn.Linear(width, width), nn.LayerNorm(width, 1e-12)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        start_normal(self)

    def forward(self, tokens, segments, hidden, words, follows):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]] + self.segments(segments)
        x = self.dropout(self.norm(x))
        for block in self.blocks:
            x = block(x)
        y = x.gather(1, hidden.unsqueeze(2).expand(-1, -1, x.shape[2])).flatten(0, 1)
        y = self.head_norm(functional.gelu(self.transform(y)))
        of_words = functional.linear(y, self.tokens.weight, self.bias)
        of_pairs = self.follows(torch.tanh(self.pooler(x[:, 0])))
        return (functional.cross_entropy(of_words, words.flatten()) +
                functional.cross_entropy(of_pairs, follows))


class ConvNorm(nn.Sequential):
    def __init__(self, inner, outer, size, stride):
        super().__init__(nn.Conv2d(inner, outer, size, stride, size // 2, bias=False),
                         nn.BatchNorm2d(outer))


class Bottleneck(nn.Module):
    def __init__(self, channels, inner, stride):
        super().__init__()
        outer = 4 * inner
        self.first, self.second, self.third = (ConvNorm(channels, inner, 1, 1),
                                               ConvNorm(inner, inner, 3, stride),
                                               ConvNorm(inner, outer, 1, 1))
        self.around = ConvNorm(channels, outer, 1, stride) if channels != outer else nn.Identity()

    def forward(self, x):
        y = functional.relu(self.second(functional.relu(self.first(x))))
        return functional.relu(self.third(y) + self.around(x))


class ResNet(nn.Module):
    """Of bottlenecks; channels last."""

    def __init__(self, layers, image, channels, filters, classes):
        super().__init__()
        self.stem = ConvNorm(channels, filters, 7, 2)
        blocks, inner = [], filters
        for stage, count in enumerate({14: (1, 1, 1, 1), 50: (3, 4, 6, 3)}[layers]):
            for i in range(count):
                into = blocks[-1].third[1].num_features if blocks else filters
                blocks.append(Bottleneck(into, inner, 2 if stage and not i else 1))
            inner *= 2
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(2 * inner, classes)
        self.to(memory_format=torch.channels_last)

    def forward(self, images, targets):
        # As ours they come in fp32.
        x = functional.relu(self.stem(images.to(self.stem[0].weight.dtype)))
        x = self.blocks(functional.max_pool2d(x, 3, 2, 1))
        return functional.cross_entropy(self.head(x.mean((2, 3))), targets)
