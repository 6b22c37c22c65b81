#!/usr/bin/env python3
"""Training steps of a GPT or a ResNet-18 in PyTorch, on CPU threads: the other side of
against_pytorch.py, which starts it. Alone:  pytorch_steps.py --model gpt --rounds 3

Prints a line of JSON that says what it is, then for every line on the standard input (or --rounds
times) a line with the seconds of each step of a round, by the clock and of the processor.
"""
import argparse
import json
import os
import pathlib
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "experiments/python"))
from ringside_peers.models import Gpt, ResNet, loss_of, start_normal  # noqa: E402

torch.set_num_threads(args.threads)
torch.manual_seed(1)


def make_model():
    if args.model == "resnet18":  # the form for CIFAR: a stem of 3x3, no max pool
        return ResNet({"layers": 18, "stem": "cifar", "channels": 3, "filters": 64, "classes": 10})
    sizes = ("layers", "heads", "width", "context", "vocabulary")
    return start_normal(Gpt({name: getattr(args, name) for name in sizes}))


def gpt_batch():
    tokens = torch.randint(args.vocabulary, (args.batch or 8, args.context + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def image_batch():
    images = torch.randn(args.batch or 32, 3, 32, 32)
    if args.channels_last:
        images = images.contiguous(memory_format=torch.channels_last)
    return images, torch.randint(10, (images.shape[0], 1))


def main():
    gpt = args.model == "gpt"
    model = make_model()
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
            loss = loss_of([logits.float() for logits in compute(inputs)], targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        return time.perf_counter() - begin, time.process_time() - busy

    for number in range(args.warmup):
        step(number)
    done = {
        "torch": torch.__version__,
        "instructions": torch.backends.cpu.get_cpu_capability(),
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
