#!/usr/bin/env python3
"""Top-k of Ringside's CPU kernels beside PyTorch's topk and scatter, on one core in the same minutes.

    tests/bench/codes_against_pytorch.py --bench build/tests/kernels_bench --python VENV/bin/python

Both take the 1% of 2^24 fp32 values with the largest absolute values: Ringside by select_top_k, PyTorch
by abs, topk, a gather of the values, and a scatter that clears them for the error memory, which in
Ringside is add_elements. Printed are the times of rounds that take turns, and PyTorch's over Ringside's.
"""
import argparse
import json
import os
import statistics
import subprocess

PYTORCH = """
import time, torch
torch.set_num_threads(1)
values = torch.rand(1 << 24) - 0.5
best = 1e9
for _ in range(3):
    begin = time.perf_counter()
    _, indices = torch.topk(values.abs(), values.numel() // 100, sorted=False)
    sent = values[indices]
    values.scatter(0, indices, 0.0)
    best = min(best, time.perf_counter() - begin)
print(best)
"""


def ringside(bench):
    said = subprocess.run([bench, "1", "--benchmark_filter=select_top_k|add_elements", "--benchmark_format=json"],
                          check=True, capture_output=True, text=True).stdout
    return sum(one["real_time"] for one in json.loads(said[said.index("{"):])["benchmarks"]) * 1e-6


def pytorch(python):
    return float(subprocess.run([python, "-c", PYTORCH], check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True, help="the program kernels_bench")
    parser.add_argument("--python", required=True, help="the Python that has PyTorch")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    ratios = []
    for _ in range(args.rounds):
        own, other = ringside(args.bench), pytorch(args.python)
        ratios.append(other / own)
        print(f"ringside {own * 1e3:.1f} ms, PyTorch {other * 1e3:.1f} ms: {ratios[-1]:.2f}")
    print(f"PyTorch / ringside: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
