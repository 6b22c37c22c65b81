"""What several models need."""

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
