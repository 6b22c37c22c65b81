#!/usr/bin/env python3
"""Makes the fixtures of the parity tests: small models as PyTorch computes and trains them.

    python3 tests/parity/make_fixtures.py          # wants torch, numpy and safetensors

A case is two files in fixtures/: NAME.weights.safetensors has the initial parameters by the names of
Hugging Face (GPT-2, BERT) or torchvision (ResNet, VGG); NAME.safetensors has inputs and targets, and
for fp32 and bf16 the logits, the gradient of every parameter, the losses of ten optimizer steps on the
same batch, and the logits after them in evaluation. Its metadata say which model and optimizer these
are, in the words of Ringside's experiment files.

bf16 is what Ringside calls so: parameters, activations and gradients in bf16; the optimizer keeps fp32
masters, which begin as the rounded parameters; the loss is computed in fp32.
"""
import json
import math
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

FOLDER = pathlib.Path(__file__).parent / "fixtures"
STEPS = 10


# ---- the models


class Conv1D(nn.Module):
    """A linear layer as GPT-2 keeps it: [in, out]."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out))
        self.bias = nn.Parameter(torch.empty(n_out))

    def forward(self, x):
        return x @ self.weight + self.bias


def attention(q, k, v, heads, causal):
    def split(x):
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)

    y = F.scaled_dot_product_attention(split(q), split(k), split(v), is_causal=causal)
    return y.transpose(1, 2).flatten(2)


class GptAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c["heads"]
        self.c_attn = Conv1D(c["width"], 3 * c["width"])
        self.c_proj = Conv1D(c["width"], c["width"])

    def forward(self, x):
        q, k, v = self.c_attn(x).chunk(3, -1)
        return self.c_proj(attention(q, k, v, self.heads, causal=True))


class GptMlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c_fc = Conv1D(c["width"], 4 * c["width"])
        self.c_proj = Conv1D(4 * c["width"], c["width"])

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class GptBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln_1 = nn.LayerNorm(c["width"])
        self.attn = GptAttention(c)
        self.ln_2 = nn.LayerNorm(c["width"])
        self.mlp = GptMlp(c)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(c["vocabulary"], c["width"]),
                "wpe": nn.Embedding(c["context"], c["width"]),
                "h": nn.ModuleList(GptBlock(c) for _ in range(c["layers"])),
                "ln_f": nn.LayerNorm(c["width"]),
            }
        )
        if not c["tied"]:
            self.lm_head = nn.Linear(c["width"], c["vocabulary"], bias=False)

    def forward(self, tokens):
        t = self.transformer
        x = t.wte(tokens) + t.wpe(torch.arange(tokens.shape[1]))
        for block in t.h:
            x = block(x)
        head = self.lm_head if hasattr(self, "lm_head") else t.wte
        return [F.linear(t.ln_f(x), head.weight).flatten(0, 1)]


class BertEmbeddings(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.word_embeddings = nn.Embedding(c["vocabulary"], c["width"])
        self.position_embeddings = nn.Embedding(c["context"], c["width"])
        self.token_type_embeddings = nn.Embedding(c["segments"], c["width"])
        self.LayerNorm = nn.LayerNorm(c["width"], eps=1e-12)

    def forward(self, tokens, segments):
        x = self.word_embeddings(tokens) + self.position_embeddings.weight[: tokens.shape[1]]
        return self.LayerNorm(x + self.token_type_embeddings(segments))


class BertSelf(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c["heads"]
        self.query = nn.Linear(c["width"], c["width"])
        self.key = nn.Linear(c["width"], c["width"])
        self.value = nn.Linear(c["width"], c["width"])

    def forward(self, x):
        return attention(self.query(x), self.key(x), self.value(x), self.heads, causal=False)


class BertOutput(nn.Module):
    def __init__(self, n_in, width):
        super().__init__()
        self.dense = nn.Linear(n_in, width)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, y, x):
        return self.LayerNorm(self.dense(y) + x)


class Named(nn.Module):
    """Modules under names, and nothing more."""

    def __init__(this, /, **modules):  # one of BERT's is called self
        super().__init__()
        for name, module in modules.items():
            setattr(this, name, module)


class BertLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        width = c["width"]
        self.attention = Named(self=BertSelf(c), output=BertOutput(width, width))
        self.intermediate = Named(dense=nn.Linear(width, 4 * width))
        self.output = BertOutput(4 * width, width)

    def forward(self, x):
        x = self.attention.output(getattr(self.attention, "self")(x), x)
        return self.output(F.gelu(self.intermediate.dense(x)), x)


class Bert(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, width = c, c["width"]
        self.bert = Named(
            embeddings=BertEmbeddings(c),
            encoder=Named(layer=nn.ModuleList(BertLayer(c) for _ in range(c["layers"]))),
            pooler=Named(dense=nn.Linear(width, width)),
        )
        transform = Named(dense=nn.Linear(width, width), LayerNorm=nn.LayerNorm(width, eps=1e-12))
        self.cls = Named(predictions=Named(transform=transform), seq_relationship=nn.Linear(width, 2))
        self.cls.predictions.bias = nn.Parameter(torch.empty(c["vocabulary"]))

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


class ResNetBlock(nn.Module):
    def __init__(self, n_in, inner, stride, bottleneck):
        super().__init__()
        out = 4 * inner if bottleneck else inner
        path = [(1, 1, inner), (3, stride, inner), (1, 1, out)]
        if not bottleneck:
            path = [(3, stride, inner), (3, 1, out)]
        channels, self.length = n_in, len(path)
        for i, (size, by, to) in enumerate(path, 1):
            setattr(self, f"conv{i}", nn.Conv2d(channels, to, size, by, size // 2, bias=False))
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
            x = F.relu(x + around if i == self.length else x)
        return x


class ResNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        bottleneck = c["layers"] == 14
        blocks = [1, 1, 1, 1]
        self.pool = nn.MaxPool2d(3, 2, 1) if c["stem"] == "imagenet" else nn.Identity()
        size, stride = (7, 2) if c["stem"] == "imagenet" else (3, 1)
        channels = c["filters"]
        self.conv1 = nn.Conv2d(c["channels"], channels, size, stride, size // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        for stage, count in enumerate(blocks):
            inner, layer = c["filters"] << stage, []
            for i in range(count):
                layer.append(ResNetBlock(channels, inner, 2 if stage and not i else 1, bottleneck))
                channels = 4 * inner if bottleneck else inner
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layer))
        self.fc = nn.Linear(channels, c["classes"])

    def forward(self, images):
        x = self.pool(F.relu(self.bn1(self.conv1(images))))
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
        hidden, side = 8 * filters, c["image"] // 32
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(channels * side * side, hidden), nn.ReLU(), nn.Dropout(0.0),
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(0.0),
            nn.Linear(hidden, c["classes"]),
        )

    def forward(self, images):
        return [self.classifier(self.features(images).flatten(1))]


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


KINDS = {"gpt": Gpt, "bert": Bert, "resnet": ResNet, "vgg": Vgg, "mlp": Mlp}


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


def loss_of(logits, targets):
    """The mean of each term of the loss, added up. `targets`: [samples, targets of all terms]."""
    loss, at = 0.0, 0
    for term in logits:
        rows = term.shape[0] // targets.shape[0]
        loss = loss + F.cross_entropy(term.float(), targets[:, at : at + rows].flatten())
        at += rows
    return loss


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
        loss = loss_of(logits, targets)
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
            if isinstance(module, (nn.LayerNorm, nn.BatchNorm2d)):
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
    for p in model.parameters():
        p.copy_(p.bfloat16())


def data_of(c, samples):
    """Inputs as the model takes them, inputs as they are stored, targets."""
    if "image" in c:
        shape = (samples, c["channels"], c["image"], c["image"])
        stored = torch.randint(-32, 32, shape, dtype=torch.int8)
        return stored.float() / 16, stored.permute(0, 2, 3, 1), torch.randint(c["classes"], (samples, 1))
    tokens = torch.randint(c["vocabulary"], (samples, c["context"]))
    if c["kind"] == "gpt":
        return tokens, tokens, torch.randint(c["vocabulary"], tokens.shape)
    if c["kind"] == "mlp":
        return tokens, tokens, torch.randint(c["vocabulary"], (samples, 1))
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
    ("bert", {"kind": "bert", "masked": 3, "segments": 2, **TOKENS}, ADAMW, 4),
    ("mlp", {"kind": "mlp", **TOKENS}, {**ADAMW, "lr": 1e-2, "decay": "all", "clip_norm": 0}, 8),
    ("resnet10-cifar",
     {"kind": "resnet", "layers": 10, "stem": "cifar", "image": 16, "channels": 3, "filters": 3,
      "classes": 5}, SGD, 8),
    ("resnet14-imagenet",
     {"kind": "resnet", "layers": 14, "stem": "imagenet", "image": 48, "channels": 1, "filters": 2,
      "classes": 5}, SGD, 8),
    ("vgg11",
     {"kind": "vgg", "layers": 11, "stem": "cifar", "image": 64, "channels": 1, "filters": 2,
      "classes": 5}, {**SGD, "lr": 5e-4}, 3),
]

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    FOLDER.mkdir(exist_ok=True)
    for case in CASES:
        make(*case)
