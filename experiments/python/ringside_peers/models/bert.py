"""BERT."""

import torch
from torch import nn
from torch.nn import functional as F

from ringside_peers.models.parts import Named, attention


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
