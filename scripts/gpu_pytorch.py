"""A model in PyTorch, trained as `ringside` trains it: the same shapes, optimizer and batch.

    gpu_pytorch.py gpt2-124m|resnet-50|bert-large [--prepare-s 120]

Prepares every variant (precision, eager or compiled) in the order in which they matter, writes a line of JSON with what there
is and the ceilings of the GPU, and then measures what it reads, a line each: {"variant": NAME,
"steps": N} is answered with {"variant", "ms": [of each step], "samples": of a step, "loss"}. Ends at
the end of its input.

Variants of bf16: "cast" keeps the parameters in bf16, "masters" has masters in fp32 beside them, as
ours, "autocast" keeps them in fp32. A variant that cannot be prepared, or not in time, is left out
and named in "left_out".
"""

import argparse
import dataclasses
import json
import pathlib
import sys
import time

import torch
from torch import nn

from gpu_models import MODELS

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "experiments/python"))
from ringside_peers.models import (  # noqa: E402
    Bert, BertSelfInOne, Gpt, ResNet, WithLoss, start_normal,
)


@dataclasses.dataclass
class Precision:
    dtype: torch.dtype  # that the parameters have
    tf32: bool = False
    autocast: bool = False
    masters: bool = False


PRECISIONS = {
    "bf16 cast": Precision(torch.bfloat16),
    "bf16 masters": Precision(torch.bfloat16, masters=True),
    "bf16 autocast": Precision(torch.float32, autocast=True),
    "tf32": Precision(torch.float32, tf32=True),
    "fp32": Precision(torch.float32),
}
# The variants to measure, those first that do the same work as Ringside. ResNet-50 and BERT leave out
# eager mode, and "bf16 cast", which is less work.
VARIANTS = {
    "gpt2-124m": [f"{precision} compiled" for precision in
                  ("bf16 masters", "tf32", "fp32", "bf16 cast", "bf16 autocast")] +
                 [f"{precision} eager" for precision in ("bf16 masters", "tf32", "fp32")],
    "resnet-50": ["bf16 masters compiled", "bf16 autocast compiled"],
    "bert-large": ["bf16 masters compiled", "bf16 autocast compiled"],
}
# Small shapes, to try this program out on a processor.
SMALL = {
    "gpt2-124m": (2, {"layers": 2, "heads": 2, "width": 32, "context": 32, "vocabulary": 64}),
    "resnet-50": (2, {"layers": 14, "image": 32, "filters": 4, "classes": 10}),
    "bert-large": (2, {"layers": 2, "heads": 2, "width": 32, "context": 32, "positions": 64,
                       "vocabulary": 64, "masked": 4}),
}


def adamw(lr, decay, beta2):
    return lambda parameters: torch.optim.AdamW(parameters, lr=lr, betas=(0.9, beta2),
                                                weight_decay=decay, fused=True)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-4, fused=True)


def gpt_batch(shape, batch, device):
    tokens = torch.randint(shape["vocabulary"], (batch, shape["context"] + 1), device=device)
    return tokens[:, :-1], tokens[:, 1:]


def bert_batch(shape, batch, device):
    context, masked = shape["context"], shape["masked"]
    number = lambda below, *extents: torch.randint(below, (batch, *extents), device=device)
    segments = (torch.arange(context, device=device) >= context // 2).long().repeat(batch, 1)
    hidden = torch.rand(batch, context - 1, device=device).topk(masked).indices.sort().values + 1
    return (torch.cat([number(shape["vocabulary"], context), segments, hidden], 1),
            torch.cat([number(shape["vocabulary"], masked), number(2, 1)], 1))


def resnet_batch(shape, batch, device):
    images = torch.randn(batch, shape["channels"], shape["image"], shape["image"], device=device)
    return (images.to(memory_format=torch.channels_last),
            torch.randint(shape["classes"], (batch, 1), device=device))


def gpt(shape):
    return start_normal(Gpt(shape))


def bert(shape):
    return start_normal(Bert(shape, BertSelfInOne))


def resnet(shape):
    return ResNet({"stem": "imagenet", **shape}).to(memory_format=torch.channels_last)


KINDS = {"gpt2-124m": (gpt, adamw(3e-4, 0.1, 0.95), gpt_batch),
         "resnet-50": (resnet, sgd, resnet_batch),
         "bert-large": (bert, adamw(5e-5, 0.01, 0.999), bert_batch)}


class Masters:
    """An optimizer that updates fp32 copies of the parameters."""

    def __init__(self, parameters, make):
        self.parameters = list(parameters)
        self.copies = [p.detach().float().clone() for p in self.parameters]
        for copy in self.copies:
            copy.grad = torch.empty_like(copy)
        self.optimizer = make(self.copies)

    @torch.no_grad()
    def step(self):
        torch._foreach_copy_([c.grad for c in self.copies], [p.grad for p in self.parameters])
        self.optimizer.step()
        torch._foreach_copy_(self.parameters, self.copies)

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None


class Trainer:
    """A model and its optimizer."""

    def __init__(self, make_model, make_optimizer, precision, device):
        self.autocast = precision.autocast
        with device:
            self.model = make_model()
        self.model.to(precision.dtype)
        for module in self.model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.float()  # the kernels of batch norm need fp32
        self.compiled = torch.compile(self.model)
        parameters = self.model.parameters()
        self.optimizer = (Masters(parameters, make_optimizer) if precision.masters else
                          make_optimizer(parameters))

    def step(self, compiled, batch):
        model = self.compiled if compiled else self.model
        with torch.autocast(batch[0].device.type, torch.bfloat16, enabled=self.autocast):
            loss = model(*batch)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()


class Clock:
    """Marks moments in the device's queue, and measures the milliseconds between them."""

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


class Work:
    """One model's trainers and batches, which are made when they are first used."""

    def __init__(self, name, small, device):
        self.device = device
        make, self.make_optimizer, self.make_batch = KINDS[name]
        self.shape, self.samples = dict(MODELS[name].shape), MODELS[name].batch
        if small:
            self.samples, changes = SMALL[name]
            self.shape.update(changes)
        self.make_model = lambda: WithLoss(make(self.shape))
        self.trainers, self.batches = {}, []

    def trainer(self, precision):
        key = (precision.dtype, precision.autocast, precision.masters)
        if key not in self.trainers:
            self.trainers[key] = Trainer(self.make_model, self.make_optimizer, precision,
                                         self.device)
        if not self.batches:
            self.batches = [self.make_batch(self.shape, self.samples, self.device)
                            for _ in range(4)]
        return self.trainers[key]


class Bench:
    def __init__(self, name, small, device):
        self.device, self.clock = device, Clock(device)
        self.name, self.work = name, Work(name, small, device)

    def run(self, variant, warm_up, steps):
        precision_name, mode = variant.rsplit(" ", 1)
        precision, work = PRECISIONS[precision_name], self.work
        torch.backends.cuda.matmul.allow_tf32 = precision.tf32
        trainer, marks, loss = work.trainer(precision), [], None
        for i in range(warm_up + steps):
            if i >= warm_up:
                marks.append(self.clock.mark())
            loss = trainer.step(mode == "compiled", work.batches[i % len(work.batches)])
        marks.append(self.clock.mark())
        answer = {"variant": variant, "ms": self.clock.between(marks), "samples": work.samples,
                  "loss": loss.item()}
        if self.clock.cuda:
            torch.cuda.empty_cache()  # so that the next variant has all of the memory
        return answer

    def prepare(self, seconds):
        """Returns the names of the variants that can be measured, and why the others cannot."""
        end, ready, left_out = time.monotonic() + seconds, [], {}
        for variant in VARIANTS[self.name]:
            if time.monotonic() > end:
                left_out[variant] = f"not prepared within {seconds:.0f} s"
                continue
            began = time.monotonic()
            try:
                self.run(variant, 1, 1)
                ready.append(variant)
            except Exception as error:  # whatever PyTorch's compiler throws
                left_out[variant] = f"{type(error).__name__}: {error}".strip().splitlines()[0]
            print(f"{variant}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
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
    parser.add_argument("model", choices=list(MODELS))
    parser.add_argument("--small", action="store_true", help="to try the program out")
    parser.add_argument("--prepare-s", type=float, default=120)
    parser.add_argument("--device", default="cuda")
    return parser.parse_args()


def main():
    options = arguments()
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True  # the fastest convolutions that it has
    bench = Bench(options.model, options.small, torch.device(options.device))
    ready, left_out = bench.prepare(options.prepare_s)
    ceilings = bench.ceilings(*((256, 1 << 16) if options.small else (8192, 1 << 29)))
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
