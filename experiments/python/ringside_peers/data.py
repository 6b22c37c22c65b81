"""Messages of the feed as tensors of PyTorch, and models with their initial values."""
import torch
from safetensors.torch import load
from torch.nn import functional as F

from ringside_peers import models
from ringside_peers.error import Error

NO_TARGET = -1
KINDS = {
    "gpt": models.Gpt,
    "llama": models.Llama,
    "bert": lambda c: models.Bert(c, models.BertSelf),
    "idefics3": models.Idefics3,
    "t5": models.T5,
    "mlp": models.Mlp,
    "resnet": models.ResNet,
    "vgg": models.Vgg,
    "alexnet": models.AlexNet,
    "inception": models.Inception,
}


def convert(kind, data):
    """Inputs and targets as models take them: images with their channels first, which are last in
    memory; tokens and targets in int64."""
    tensors = load(bytes(data))
    if kind == "start":
        return tensors
    inputs = tensors["inputs"]
    inputs = inputs.permute(0, 3, 1, 2) if inputs.is_floating_point() else inputs.long()
    return inputs, tensors["targets"].flatten().long()


def make_model(config, initial):
    """The plan's model with the values with which the run starts. GPT-2's files keep the matrices of
    linear layers the other way round, so they are turned; this is faster than to compute with them
    so."""
    if config["kind"] not in KINDS:
        raise Error(f"model.kind = '{config['kind']}' is not in {models.__name__}")
    if config["kind"] == "gpt":
        for name, value in initial.items():
            if ".h." in name and name.endswith(".weight") and value.dim() == 2:
                initial[name] = value.T.contiguous()
    model = KINDS[config["kind"]](config)
    model.load_state_dict(initial)  # throws if the two differ in any name or shape
    return model


def terms_of(logits, targets, samples, global_batch):
    """Of each term of the loss: its logits, its targets, and what it is divided by to become a mean
    over the global batch."""
    at = 0
    for term in logits:
        rows = term.shape[0]
        yield term, targets[at : at + rows], rows // samples * global_batch
        at += rows


def share_of_loss(logits, targets, samples, global_batch):
    """What these samples add to the loss of the global batch."""
    return sum(
        F.cross_entropy(term, part, reduction="sum", ignore_index=NO_TARGET) / mean_over
        for term, part, mean_over in terms_of(logits, targets, samples, global_batch)
    )


def share_of_evaluation(logits, targets, samples, global_batch):
    """The same, that of the first term alone, and the share of its rows whose largest logit is at the
    target."""
    terms = list(terms_of(logits, targets, samples, global_batch))
    losses = [
        F.cross_entropy(term, part, reduction="sum", ignore_index=NO_TARGET).item() / mean_over
        for term, part, mean_over in terms
    ]
    term, part, mean_over = terms[0]
    hits = (term.argmax(1) == part).sum().item()
    return {"loss": sum(losses), "first_term": losses[0], "accuracy": hits / mean_over}
