#!/usr/bin/env python3
"""Training steps of a GPT or a ResNet-18 in PyTorch, on CPU threads: the other side of
against_pytorch.py, which starts it. Alone:  pytorch_steps.py --model gpt --rounds 3

Prints a line of JSON that says what it is, then for every line on the standard input (or --rounds
times) a line with the seconds of each step of a round, by the clock and of the processor.
"""
import argparse
import json
import os
import sys
import time


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=["gpt", "resnet18"], default="gpt")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5, help="of a round")
    parser.add_argument("--warmup", type=int, default=3, help="steps before the first round")
    parser.add_argument("--rounds", type=int, default=0, help="0: one for each line of input")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--optimizer", choices=["fused", "foreach", "loop"], default="fused")
    parser.add_argument("--channels-last", action="store_true", help="of images (resnet18)")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32", help="bf16: autocast")
    parser.add_argument("--batch", type=int, default=0, help="0: 8 samples, or 32 images")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=256)
    return parser.parse_args()


args = options()
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # read when the libraries are loaded
    os.environ[name] = str(args.threads)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(args.threads)
torch.manual_seed(1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        width = args.width
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        samples, positions, width = x.shape
        q, k, v = (
            part.view(samples, positions, args.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(samples, positions, width))
        return x + self.contract(F.gelu(self.expand(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """The head has a matrix of its own and no bias, as in core/models/gpt.cc."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(args.vocabulary, args.width)
        self.positions = nn.Embedding(args.context, args.width)
        self.blocks = nn.ModuleList(Block() for _ in range(args.layers))
        self.norm = nn.LayerNorm(args.width)
        self.head = nn.Linear(args.width, args.vocabulary, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).flatten(0, 1)


class BasicBlock(nn.Module):
    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.shortcut = None
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x):
        kept = x if self.shortcut is None else self.shortcut(x)
        x = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(x)) + kept, inplace=True)


class ResNet18(nn.Module):
    """The form for CIFAR (He et al. 2016, section 4.2's stem): 3x3 stem, no max pool, 10 classes."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64)
        blocks, last = [], 64
        for stage, channels in enumerate((64, 128, 256, 512)):
            for i in range(2):
                blocks.append(BasicBlock(last, channels, 2 if stage > 0 and i == 0 else 1))
                last = channels
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(512, 10)

    def forward(self, x):
        x = self.blocks(F.relu(self.norm(self.stem(x)), inplace=True))
        return self.head(x.mean((2, 3)))


def gpt_batch():
    tokens = torch.randint(args.vocabulary, (args.batch or 8, args.context + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].flatten()


def image_batch():
    images = torch.randn(args.batch or 32, 3, 32, 32)
    if args.channels_last:
        images = images.contiguous(memory_format=torch.channels_last)
    return images, torch.randint(10, (images.shape[0],))


def main():
    gpt = args.model == "gpt"
    model = Gpt() if gpt else ResNet18()
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    kind = {"fused": args.optimizer == "fused", "foreach": args.optimizer == "foreach"}
    if gpt:
        optimizer = torch.optim.AdamW(
            model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, **kind
        )
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, **kind)
    compute = torch.compile(model) if args.compile else model
    batches = [gpt_batch() if gpt else image_batch() for _ in range(4)]

    def step(number):
        begin, busy = time.perf_counter(), time.process_time()
        inputs, targets = batches[number % len(batches)]
        with torch.autocast("cpu", torch.bfloat16, enabled=args.dtype == "bf16"):
            loss = F.cross_entropy(compute(inputs).float(), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        return time.perf_counter() - begin, time.process_time() - busy

    for number in range(args.warmup):
        step(number)
    done = {
        "torch": torch.__version__,
        "parameters": parameters,
        "samples_per_step": batches[0][0].shape[0],
        "tokens_per_sample": args.context if gpt else 1,
    }
    print(json.dumps(done), flush=True)
    left = args.rounds
    while left > 0 if args.rounds else sys.stdin.readline():
        left -= 1
        wall, cpu = zip(*(step(number) for number in range(args.steps)))
        print(json.dumps({"wall": wall, "cpu": cpu}), flush=True)


main()
