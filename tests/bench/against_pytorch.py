#!/usr/bin/env python3
"""Training steps of Ringside beside those of PyTorch, on the same core in the same minutes.

    tests/bench/against_pytorch.py --model gpt --python VENV/bin/python

Ringside's side is the trainer itself (`ringside train experiments/bench/...`), PyTorch's is
pytorch_steps.py in an environment made by

    python3 -m venv VENV && VENV/bin/pip install torch

The last lines say which instructions each side ran on. --avx2 holds both to AVX2 where the machine
has AVX-512 too; Ringside's own kernels have to be compiled for it:

    cmake --preset release -B build-avx2 -DRINGSIDE_MARCH=x86-64-v3 && ninja -C build-avx2 ringside
    tests/bench/against_pytorch.py --model resnet18 --avx2 --ringside build-avx2/ringside ...

A round is one turn for each: all others wait for their input meanwhile. Of a turn counts the median
of its steps (wall) and the processor time of all of them (cpu), which a machine that others use
disturbs less. Printed is PyTorch's time over Ringside's, round by round and as the median, for
every way of running PyTorch; the last line is about the fastest of them.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = {"gpt": "gpt-cpu.toml", "resnet18": "resnet18-cpu.toml"}
WAYS = {
    "gpt": {
        "eager": [],
        "eager, foreach": ["--optimizer", "foreach"],
        "eager, loop": ["--optimizer", "loop"],
        "compiled": ["--compile"],
    },
    "resnet18": {
        "nchw": [],
        "nhwc": ["--channels-last"],
        "nhwc, loop": ["--channels-last", "--optimizer", "loop"],
        "nhwc, compiled": ["--channels-last", "--compile"],
    },
}
AVX2 = {  # what each of the libraries reads
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "DNNL_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
}


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=sorted(FILES), default="gpt")
    parser.add_argument("--python", required=True, help="the Python that has PyTorch")
    parser.add_argument("--ringside", default=str(ROOT / "build" / "ringside"))
    parser.add_argument("--ways", help="of PyTorch, separated by ';' (default: all)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="of a turn")
    parser.add_argument("--core", type=int, default=0, help="that all run on")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--avx2", action="store_true", help="hold both sides to AVX2")
    parser.add_argument("--set", action="append", default=[], help="for Ringside: TABLE.KEY=VALUE")
    return parser.parse_args()


class PyTorch:
    """A process that computes a turn when it is told to."""

    def __init__(self, args, way):
        script = pathlib.Path(__file__).with_name("pytorch_steps.py")
        command = [args.python, "-B", str(script), "--model", args.model]
        command += ["--steps", str(args.steps), "--dtype", args.precision]
        self.process = subprocess.Popen(
            command + WAYS[args.model][way],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.what = json.loads(self.process.stdout.readline())

    def turn(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        steps = json.loads(self.process.stdout.readline())
        return statistics.median(steps["wall"]), statistics.mean(steps["cpu"])

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Ringside:
    warmup = 2

    def __init__(self, args, folder):
        self.args, self.row = args, pathlib.Path(folder) / "row.json"

    def run(self, steps):
        """The row of a run, and the processor seconds of its processes."""
        command = [self.args.ringside, "train", str(ROOT / "experiments/bench" / FILES[self.args.model])]
        command += ["--scheme", "single", "--output", str(self.row)]
        for value in (
            f"train.steps={steps}",
            f"train.warmup={self.warmup}",
            f"train.precision={self.args.precision}",
            *self.args.set,
        ):
            command += ["--set", value]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        if status != 0:
            raise SystemExit(f"{' '.join(command)}: failed")
        with open(self.row, encoding="utf-8") as file:
            return json.load(file)["row"], usage.ru_utime + usage.ru_stime

    def turn(self):
        # What a run costs beside the steps that count is the cost of one that has hardly any.
        _, start = self.run(self.warmup + 1)
        self.what, whole = self.run(self.warmup + 1 + self.args.steps)
        return self.what["step_ms"]["median"] / 1e3, (whole - start) / self.args.steps


def instructions(ringside):
    """The text of `ringside doctor` about its kernels."""
    doctor = subprocess.run([ringside, "doctor"], check=True, capture_output=True, text=True)
    marker = "kernels: "
    return next(line.split(marker)[1] for line in doctor.stdout.splitlines() if marker in line)


def spread(values):
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def main():
    args = options()
    ways = [way.strip() for way in args.ways.split(";")] if args.ways else list(WAYS[args.model])
    os.sched_setaffinity(0, {args.core})  # ours, and so that of all that we start
    if args.avx2:
        os.environ.update(AVX2)
    own_instructions = instructions(args.ringside)
    if args.avx2 and "64 bytes" in own_instructions:
        raise SystemExit(f"{args.ringside} was not compiled for AVX2 ({own_instructions}): see --help")
    times = {}
    with tempfile.TemporaryDirectory() as folder:
        sides = {"ringside": Ringside(args, folder)}
        sides.update((way, PyTorch(args, way)) for way in ways)
        for number in range(args.rounds):
            for name, side in sides.items():
                times.setdefault(name, []).append(side.turn())
            wall, cpu = (
                ", ".join(f"{way} {times[way][-1][i] / times['ringside'][-1][i]:.3f}" for way in ways)
                for i in (0, 1)
            )
            print(f"round {number + 1}: wall {wall}; cpu {cpu}", flush=True)
        what = sides[ways[0]].what
        ours = sides["ringside"].what["parameters"]
        if ours != what["parameters"]:
            raise SystemExit(f"Ringside has {ours} parameters, PyTorch {what['parameters']}")
        for way in ways:
            sides[way].end()

    samples, unit = what["samples_per_step"], "tokens/s" if args.model == "gpt" else "images/s"
    print(f"{args.model}, {args.precision}, {ours} parameters, {samples} samples a step, one thread,")
    print(f"PyTorch {what['torch']}; ratios are PyTorch's time over Ringside's, median (range)")
    print(f"instructions: Ringside {own_instructions}; PyTorch {what['instructions']}")
    for name, turns in times.items():
        of_wall, of_cpu = ([turn[i] for turn in turns] for i in (0, 1))
        rate = samples * what["tokens_per_sample"] / statistics.median(of_wall)
        line = f"  {name:16} {rate:8.1f} {unit}, {1e3 * statistics.median(of_wall):7.1f} ms a step"
        line += f", {1e3 * statistics.median(of_cpu):7.1f} ms of processor"
        if name != "ringside":
            pairs = list(zip(turns, times["ringside"]))
            line += f"; wall {spread([a[0] / b[0] for a, b in pairs])}"
            line += f", cpu {spread([a[1] / b[1] for a, b in pairs])}"
        print(line)
    fastest = [min(ways, key=lambda way: statistics.median(turn[i] for turn in times[way])) for i in (0, 1)]
    ratios = [
        statistics.median(a[i] / b[i] for a, b in zip(times[fastest[i]], times["ringside"]))
        for i in (0, 1)
    ]
    print(f"against the fastest: {ratios[0]:.3f} by the clock ({fastest[0]}), ", end="")
    print(f"{ratios[1]:.3f} by processor time ({fastest[1]})")


main()
