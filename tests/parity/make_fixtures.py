#!/usr/bin/env python3
"""Makes the fixtures of the parity tests: small models as PyTorch computes and trains them.

    python3 tests/parity/make_fixtures.py [NAME]   # wants torch, numpy and safetensors

A case is two files in fixtures/: NAME.weights.safetensors has the initial parameters by the names of
Hugging Face (GPT-2, Llama, BERT, Idefics3, T5) or torchvision (ResNet, VGG, AlexNet, Inception);
NAME.safetensors has inputs and targets, and for fp32 and bf16 the logits, the gradient of every
parameter, the losses of ten optimizer steps on the same batch, and the logits after them in evaluation.
Its metadata say which model and optimizer these are, in the words of Ringside's experiment files.

bf16 is what Ringside calls so: parameters, activations and gradients in bf16; the optimizer keeps fp32
masters, which begin as the rounded parameters; the loss is computed in fp32.
"""
import json
import math
import pathlib
import sys

import torch
from safetensors.torch import save_file
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "experiments/python"))
from ringside_peers.models import (  # noqa: E402
    T5, AlexNet, Bert, Conv1D, Gpt, Idefics3, Inception, InceptionConv, Llama, Mlp, ResNet, ResNetBlock,
    Vgg, loss_of,
)

FOLDER = pathlib.Path(__file__).parent / "fixtures"
STEPS = 10


KINDS = {"gpt": lambda c: Gpt(c, linear=Conv1D), "llama": Llama, "bert": Bert, "resnet": ResNet,
         "vgg": Vgg, "alexnet": AlexNet, "inception": Inception, "mlp": Mlp, "idefics3": Idefics3,
         "t5": T5}


# ---- the optimizers, on fp32 masters


def learning_rate(o, step):
    """What the README says of schedules: warm-up, then down to a share of the rate."""
    warmup = o.get("warmup_steps", 0)
    if step < warmup:
        return o["lr"] * (step + 1) / (warmup + 1)
    if o.get("schedule", "constant") == "constant":
        return o["lr"]
    last = o["final_lr_share"]
    progress = min(1.0, (step - warmup) / max(1, STEPS - 1 - warmup))
    return o["lr"] * (last + (1 - last) * 0.5 * (1 + math.cos(math.pi * progress)))


class Lamb:
    """Algorithm 2 of You et al. 2020 with phi the identity, in fp64. What does not decay does not
    adapt either."""

    def __init__(self, parameters, o):
        self.o, self.t = o, 0
        self.state = {p: [torch.zeros_like(p, dtype=torch.float64)] * 2 for p in parameters}

    def step(self, lr):
        self.t += 1
        b1, b2 = self.o["beta1"], self.o["beta2"]
        for p, (m, v) in self.state.items():
            g, x = p.grad.double(), p.double()
            m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
            self.state[p] = [m, v]
            decay = self.o["weight_decay"] if p.dim() > 1 else 0.0
            m, v = m / (1 - b1**self.t), v / (1 - b2**self.t)
            u = m / (v.sqrt() + self.o["epsilon"]) + decay * x
            ratio = float(x.norm() / u.norm()) if decay and x.norm() > 0 and u.norm() > 0 else 1.0
            p.copy_((x - lr * ratio * u).float())


def make_step(masters, o):
    """A function of the learning rate that updates the masters by their gradients."""
    if o["kind"] == "lamb":
        return Lamb(masters, o).step
    decay = o["weight_decay"]
    if o.get("decay", "all") == "matrices":
        groups = [
            {"params": [p for p in masters if p.dim() > 1], "weight_decay": decay},
            {"params": [p for p in masters if p.dim() < 2], "weight_decay": 0.0},
        ]
    else:
        groups = [{"params": masters, "weight_decay": decay}]
    if o["kind"] == "adamw":
        optimizer = torch.optim.AdamW(
            groups, lr=0.0, betas=(o["beta1"], o["beta2"]), eps=o["epsilon"], foreach=False
        )
    else:
        optimizer = torch.optim.SGD(
            groups, lr=0.0, momentum=o["momentum"], nesterov=o["nesterov"], foreach=False
        )

    def step(lr):
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()

    return step


# ---- what a case records


def flat(logits):
    return torch.cat([term.detach().flatten() for term in logits])


def run(model, o, inputs, targets, dtype):
    """The tensors of one precision; changes the model."""
    out, prefix = {}, {torch.float32: "fp32.", torch.bfloat16: "bf16."}[dtype]
    model = model.to(dtype).train()
    inputs = inputs.to(dtype) if inputs.is_floating_point() else inputs
    parameters = dict(model.named_parameters())
    masters = [p.detach().float().clone() for p in parameters.values()]
    update, losses = make_step(masters, o), []
    for step in range(STEPS):
        model.zero_grad()
        logits = model(inputs)
        loss = loss_of([term.float() for term in logits], targets)
        loss.backward()
        if step == 0:
            out[prefix + "logits"] = flat(logits)
            for name, p in parameters.items():
                out[prefix + "gradient." + name] = p.grad.clone()
        losses.append(loss.item())
        with torch.no_grad():
            for master, p in zip(masters, parameters.values()):
                master.grad = p.grad.float().clone()
            if o.get("clip_norm", 0) > 0:
                torch.nn.utils.clip_grad_norm_(masters, o["clip_norm"])
            update(learning_rate(o, step))
            for master, p in zip(masters, parameters.values()):
                p.copy_(master)
    out[prefix + "losses"] = torch.tensor(losses)
    with torch.no_grad():
        out[prefix + "final_logits"] = flat(model.eval()(inputs))
    return out


def initialise(model):
    """Values that leave no parameter without a say, and that bf16 has too: then fp32 says how much of
    what bf16 computes is rounding."""
    for module in model.modules():
        for name, p in module.named_parameters(recurse=False):
            if isinstance(module, (nn.LayerNorm, nn.RMSNorm, nn.BatchNorm2d)):
                nn.init.normal_(p, float(name == "weight"), 0.2)
            elif p.dim() == 1:
                nn.init.normal_(p, 0.0, 0.1)
            elif isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(p)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(p, 0.0, 0.5)
            else:
                nn.init.normal_(p, 0.0, 0.5 / math.sqrt(min(p.shape)))
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0.0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
        if isinstance(module, ResNetBlock):
            # What is added stays small: else rounding grows from block to block.
            nn.init.normal_(getattr(module, f"bn{module.length}").weight, 0.2, 0.05)
    for module in model.modules():
        if isinstance(module, InceptionConv):
            # Relu lets most values pass: else rounding grows from convolution to convolution.
            nn.init.normal_(module.bn.bias, 0.2, 0.2)
            nn.init.normal_(module.bn.weight, 0.3, 0.05)
    for p in model.parameters():
        p.copy_(p.bfloat16())


def data_of(c, samples):
    """Inputs as the model takes them, inputs as they are stored, targets."""
    if c["kind"] == "idefics3":
        images = torch.randn(samples, c["image"], c["image"], c["channels"])
        tokens = torch.randint(c["vocabulary"], (samples, c["context"]), dtype=torch.int32)
        inputs = torch.cat([images.view(torch.int32).flatten(1), tokens], 1)
        return inputs, inputs, torch.randint(c["vocabulary"], tokens.shape)
    if "image" in c:
        shape = (samples, c["channels"], c["image"], c["image"])
        stored = torch.randint(-32, 32, shape, dtype=torch.int8)
        return stored.float() / 16, stored.permute(0, 2, 3, 1), torch.randint(c["classes"], (samples, 1))
    tokens = torch.randint(c["vocabulary"], (samples, c["context"]))
    if c["kind"] in ("gpt", "llama"):
        return tokens, tokens, torch.randint(c["vocabulary"], tokens.shape)
    if c["kind"] == "mlp":
        return tokens, tokens, torch.randint(c["vocabulary"], (samples, 1))
    if c["kind"] == "t5":
        targets = torch.randint(c["vocabulary"], (samples, c["target_context"]))
        inputs = torch.cat([tokens, torch.zeros_like(targets[:, :1]), targets[:, :-1]], 1)
        return inputs, inputs, targets
    segments = (torch.arange(c["context"]) >= c["context"] // 2).long().expand(samples, -1)
    masked = torch.stack(
        [torch.randperm(c["context"])[: c["masked"]].sort().values for _ in range(samples)]
    )
    inputs = torch.cat([tokens, segments, masked], 1)
    words = torch.randint(c["vocabulary"], masked.shape)
    return inputs, inputs, torch.cat([words, torch.randint(2, (samples, 1))], 1)


def apart(out, what):
    """How far bf16 is from fp32, over the largest magnitude."""
    a, b = out["bf16." + what].float(), out["fp32." + what]
    return float((a - b).abs().max() / b.abs().max())


def make(name, c, o, samples):
    torch.manual_seed(sum(name.encode()))
    model = KINDS[c["kind"]](c)
    with torch.no_grad():
        initialise(model)
    start = {key: value.clone() for key, value in model.state_dict().items()}
    inputs, stored, targets = data_of(c, samples)
    out = {"inputs": stored if stored.dtype == torch.int8 else stored.int(), "targets": targets.int()}
    for dtype in (torch.float32, torch.bfloat16):
        model.load_state_dict(start)
        model.float()
        out |= run(model, o, inputs, targets, dtype)
    save_file(start, FOLDER / f"{name}.weights.safetensors", {"format": "pt"})
    out = {key: value.contiguous() for key, value in out.items()}
    about = {"model": json.dumps(c), "optimizer": json.dumps(o), "steps": str(STEPS)}
    save_file(out, FOLDER / f"{name}.safetensors", about)
    for file in FOLDER.glob(f"{name}.*"):
        file.chmod(0o644)
    gradients = [key[5:] for key in out if key.startswith("fp32.gradient.")]
    print(f"{name}: bf16 is apart from fp32 in logits by {apart(out, 'logits'):.4f}, in gradients by",
          f"{max((apart(out, key), key) for key in gradients)}")
    print([round(x, 4) for x in out["fp32.losses"].tolist()],
          [round(x, 4) for x in out["bf16.losses"].tolist()])


ADAMW = {"kind": "adamw", "lr": 3e-3, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8,
         "weight_decay": 0.1, "decay": "matrices", "clip_norm": 1.0, "schedule": "cosine",
         "warmup_steps": 2, "final_lr_share": 0.1}
LAMB = {"kind": "lamb", "lr": 1e-2, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-6,
        "weight_decay": 0.01, "decay": "matrices"}
SGD = {"kind": "sgd", "lr": 2e-4, "momentum": 0.9, "nesterov": True, "weight_decay": 5e-4}
TOKENS = {"layers": 2, "heads": 2, "width": 16, "context": 12, "vocabulary": 24}

CASES = [
    ("gpt", {"kind": "gpt", "tied": False, **TOKENS}, ADAMW, 3),
    ("gpt-tied", {"kind": "gpt", "tied": True, **TOKENS}, LAMB, 3),
    ("llama",
     {"kind": "llama", "tied": False, **TOKENS, "heads": 4, "kv_heads": 2, "hidden": 40,
      "rope_base": 500000.0, "rope_factor": 8.0}, ADAMW, 3),
    ("llama-tied", {"kind": "llama", "tied": True, **TOKENS, "hidden": 24},
     {**ADAMW, "lr": 1e-2, "decay": "all", "clip_norm": 0}, 3),
    ("bert", {"kind": "bert", "masked": 3, "segments": 2, **TOKENS}, ADAMW, 4),
    ("idefics3",
     {"kind": "idefics3", "tied": False, **TOKENS, "heads": 4, "kv_heads": 2, "hidden": 24,
      "rope_base": 273768.0, "context": 8, "image": 13, "channels": 3, "patch": 3, "shuffle": 2,
      "vision_layers": 2, "vision_heads": 2, "vision_width": 8, "vision_hidden": 12}, ADAMW, 3),
    ("t5",
     {"kind": "t5", **TOKENS, "target_context": 9, "heads": 3, "head_width": 6, "hidden": 40,
      "relative_buckets": 8, "relative_distance": 10}, ADAMW, 3),
    ("mlp", {"kind": "mlp", **TOKENS}, {**ADAMW, "lr": 1e-2, "decay": "all", "clip_norm": 0}, 8),
    ("resnet10-cifar",
     {"kind": "resnet", "layers": 10, "stem": "cifar", "image": 16, "channels": 3, "filters": 3,
      "classes": 5}, SGD, 8),
    ("resnet14-imagenet",
     {"kind": "resnet", "layers": 14, "stem": "imagenet", "image": 48, "channels": 1, "filters": 2,
      "classes": 5}, SGD, 8),
    ("resnext14-cifar",
     {"kind": "resnet", "layers": 14, "stem": "cifar", "image": 16, "channels": 3, "filters": 4,
      "groups": 2, "group_width": 48, "classes": 5}, {**SGD, "lr": SGD["lr"] / 2}, 8),
    ("vgg11",
     {"kind": "vgg", "layers": 11, "stem": "cifar", "image": 64, "channels": 1, "filters": 2,
      "classes": 5}, {**SGD, "lr": 5e-4}, 3),
    ("alexnet",
     {"kind": "alexnet", "image": 106, "channels": 1, "filters": 1, "classes": 3},
     {**SGD, "lr": 5e-4}, 2),
    ("inception24",
     {"kind": "inception", "layers": 24, "image": 107, "channels": 1, "filters": 1, "classes": 7},
     {**SGD, "lr": 2 * SGD["lr"]}, 4),
]

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    FOLDER.mkdir(exist_ok=True)
    for case in CASES:
        if case[0] in (sys.argv[1:] or [case[0]]):
            make(*case)
