"""Words in a fixed context."""

from torch import nn
from torch.nn import functional as F


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
