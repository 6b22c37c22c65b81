"""GPT-2 in PyTorch, trained as `ringside` trains it: the same shapes, optimizer and batch.

    gpu_pytorch.py [--layers 12 ... --batch 32] [--prepare-s 120]

Prepares every variant (precision, eager or compiled), writes a line of JSON with what there is and
the ceilings of the GPU, and then measures what it reads, a line each: {"variant": NAME, "steps": N}
is answered with {"variant", "ms": [of each step], "loss"}. Ends at the end of its input.

Variants of bf16: "cast" keeps the parameters in bf16, "autocast" in fp32. A variant that
cannot be prepared, or not in time, is left out and named in "left_out".
"""

import argparse
import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        samples, positions, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(samples, positions, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(samples, positions, width))
        return x + self.contract(functional.gelu(self.expand(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape.width, shape.heads) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Trainer:
    """A model and its optimizer; `dtype` is that of the parameters."""

    def __init__(self, shape, dtype, device):
        self.model = Gpt(shape).to(device, dtype)
        self.compiled = torch.compile(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, betas=(0.9, 0.95),
                                           weight_decay=0.1, fused=True)

    def step(self, compiled, autocast, batch):
        model = self.compiled if compiled else self.model
        with torch.autocast(batch.device.type, torch.bfloat16, enabled=autocast):
            loss = model(batch[:, :-1], batch[:, 1:])
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss


VARIANTS = {  # name: (dtype of the parameters, TF32, autocast)
    "bf16 cast": (torch.bfloat16, False, False),
    "bf16 autocast": (torch.float32, False, True),
    "tf32": (torch.float32, True, False),
    "fp32": (torch.float32, False, False),
}


class Clock:
    """Milliseconds between moments of the device's queue."""

    def __init__(self, device):
        self.cuda = device.type == "cuda"

    def mark(self):
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, marks):
        if not self.cuda:
            return [1e3 * (b - a) for a, b in zip(marks, marks[1:])]
        torch.cuda.synchronize()
        return [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]


class Bench:
    def __init__(self, shape, device):
        self.device, self.clock = device, Clock(device)
        self.trainers = {dtype: Trainer(shape, dtype, device)
                         for dtype in (torch.bfloat16, torch.float32)}
        self.batches = torch.randint(shape.vocabulary, (4, shape.batch, shape.context + 1),
                                     device=device)

    def run(self, variant, warm_up, steps):
        name, mode = variant.rsplit(" ", 1)
        dtype, tf32, autocast = VARIANTS[name]
        torch.backends.cuda.matmul.allow_tf32 = tf32
        trainer, marks, loss = self.trainers[dtype], [], None
        for i in range(warm_up + steps):
            if i >= warm_up:
                marks.append(self.clock.mark())
            loss = trainer.step(mode == "compiled", autocast, self.batches[i % len(self.batches)])
        marks.append(self.clock.mark())
        answer = {"variant": variant, "ms": self.clock.between(marks), "loss": loss.item()}
        if self.clock.cuda:
            torch.cuda.empty_cache()  # who is measured next has the memory to itself
        return answer

    def prepare(self, seconds):
        """Names of the variants that can be measured, and why the others cannot."""
        end, ready, left_out = time.monotonic() + seconds, [], {}
        for mode in ("compiled", "eager"):
            for name in VARIANTS:
                variant = f"{name} {mode}"
                if time.monotonic() > end:
                    left_out[variant] = f"not prepared within {seconds:.0f} s"
                    continue
                try:
                    self.run(variant, 1, 1)
                    ready.append(variant)
                except Exception as error:  # whatever PyTorch's compiler throws
                    left_out[variant] = str(error).strip().splitlines()[0]
        return ready, left_out

    def rate(self, work, repeats, run):
        for _ in range(3):
            run()
        marks = [self.clock.mark()]
        for _ in range(repeats):
            run()
            marks.append(self.clock.mark())
        return work / (1e-3 * sorted(self.clock.between(marks))[repeats // 2])

    def ceilings(self, side, elements):
        """Operations/s of products, bytes/s of a copy (read and written)."""
        out = {}
        for name, dtype, tf32 in (("bf16", torch.bfloat16, False), ("tf32", torch.float32, True),
                                  ("fp32", torch.float32, False)):
            torch.backends.cuda.matmul.allow_tf32 = tf32
            a, b = (torch.randn(side, side, device=self.device, dtype=dtype) for _ in range(2))
            out[name] = self.rate(2 * side**3, 10, lambda: torch.mm(a, b))
        source = torch.randn(elements, device=self.device)
        target = torch.empty_like(source)
        out["copy"] = self.rate(8 * elements, 20, lambda: target.copy_(source))
        return out


def arguments():
    parser = argparse.ArgumentParser()
    for name, default in (("layers", 12), ("heads", 12), ("width", 768), ("context", 1024),
                          ("vocabulary", 50304), ("batch", 32), ("side", 8192),
                          ("copy", 1 << 29)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--prepare-s", type=float, default=120)
    parser.add_argument("--device", default="cuda")
    return parser.parse_args()


def main():
    options = arguments()
    torch.manual_seed(1)
    bench = Bench(options, torch.device(options.device))
    ready, left_out = bench.prepare(options.prepare_s)
    ceilings = bench.ceilings(options.side, options.copy)
    if bench.clock.cuda:
        torch.cuda.empty_cache()
    print(json.dumps({"version": torch.__version__, "variants": ready, "left_out": left_out,
                      "ceilings": ceilings}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = bench.run(asked["variant"], 3, asked["steps"])
        except RuntimeError as error:
            answer = {"variant": asked["variant"], "error": str(error).strip().splitlines()[0]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
