"""Builds and runs what scripts/gpu-check is about; scripts/gpu_report.py judges what it wrote."""

import argparse
import datetime
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

import gpu_build
import gpu_driver
import gpu_report
from gpu_beside import PyTorch
from gpu_job import Failed, Job, program, read, say

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "experiments/gpu/gpt2-124m.toml"
SCHEMES = ROOT / "experiments/gpu/schemes.toml"
# Name, steps and warm-up of a run, overrides: a few seconds of steps each.
PRECISIONS = {"bf16": (40, 10, ["train.precision=bf16"]), "tf32": (20, 5, ["device.tf32=true"]),
              "fp32": (8, 2, [])}
ROUNDS = 3


def conformance(job):
    report = job.work / "gpu_test.json"
    try:
        job.run("kernels", [program(job, "gpu_test"), f"--gtest_output=json:{report}",
                            "--gtest_brief=1"], 90)
    except Failed:
        if not report.exists():
            raise
    return gpu_report.conformance(read(report))


def compare(job, name, arguments, limit_s):
    """Runs a comparison; fine also where some of its runs failed: the rows say which."""
    try:
        job.run(name, [program(job, "ringside"), "compare", SCHEMES, "--results", job.work, "--set",
                       f"name={name}", *arguments], limit_s)
    except Failed:
        if not (job.work / name / "summary.json").exists():
            raise


def row(job, name, scheme="single", world=1):
    """Of a run of a comparison that has finished; None if there is none."""
    rows = (job.work / name / "rows.jsonl").read_text().splitlines()
    return gpu_report.finished([json.loads(row) for row in rows], scheme, world)


def schemes(job):
    compare(job, "schemes", [], 150)
    shutil.copy(job.work / "schemes/summary.md", job.folder / "schemes.md")
    return [gpu_report.schemes(read(job.work / "schemes/summary.json")),
            gpu_report.curves("fsdp on 4 ranks of one GPU ends as ddp does",
                              row(job, "schemes", "fsdp", 4), row(job, "schemes", "ddp", 4))]


def beside_cpu(job, kind):
    """The losses of one rank here and on the CPU."""
    one = ["--schemes=single", "--worlds=1", "--set", f"model.kind={kind}"]
    compare(job, f"{kind}-cuda", one, 40)
    compare(job, f"{kind}-cpu", one + ["--set", "device.kind=cpu", "--set", "device.threads=4"], 40)
    return gpu_report.curves(f"losses of {kind.upper()} as the CPU's", row(job, f"{kind}-cuda"),
                             row(job, f"{kind}-cpu"))


def servers_on_cpu(job):
    compare(job, "servers-on-cpu", ["--schemes=single,ps", "--worlds=2", "--set",
                                    "scheme.ps.server_device=cpu"], 45)
    check = gpu_report.schemes(read(job.work / "servers-on-cpu/summary.json"), worlds=())
    check.name = "ps of GPUs with servers on the CPU"
    return check


def train(job, gpu, precision):
    """A row, and the most of the GPU's memory that was used meanwhile; the row says itself whether
    it failed."""
    steps, warm_up, changes = PRECISIONS[precision]
    output = job.work / f"{precision}.json"
    output.unlink(missing_ok=True)
    overrides = [f"train.steps={steps}", f"train.warmup={warm_up}", *changes]
    try:
        with gpu_driver.MemoryWatch(gpu) as watch:
            job.run(f"train-{precision}",
                    [program(job, "ringside"), "train", MODEL, "--scheme", "single", "--output",
                     output, *(x for o in overrides for x in ("--set", o))], 60)
        return read(output)["row"], watch.most
    except Failed as error:
        return {"status": "failed", "error": str(error)}, None


def throughput(job, gpu, torch):
    """What train() gives, by precision: rounds of ours and PyTorch's in turn, as many as there is
    time for."""
    ours = {precision: [] for precision in PRECISIONS}
    longest, asking = 0.0, bool(torch and torch.speeds)
    for done in range(ROUNDS):
        began = time.monotonic()
        if done and job.left() < 1.2 * longest:
            break
        for precision, (steps, warm_up, _) in PRECISIONS.items():
            ours[precision].append(train(job, gpu, precision))
            try:
                if asking:
                    torch.measure(precision, steps - warm_up, min(40, job.left()))
            except (Failed, OSError) as error:
                asking = False
                torch.left_out["what came after"] = str(error)
        longest = max(longest, time.monotonic() - began)
    return ours


def memory(ours):
    if not ours:
        raise Failed("there was no run")
    return [gpu_report.memory(precision, *runs[0]) for precision, runs in ours.items()]


def bench(job):
    file = job.work / "bench.json"
    file.unlink(missing_ok=True)
    job.run("bench", [program(job, "gpu_bench"), file], 60)
    return read(file)


def measured(job, gpu, torch):
    """Everything that wants the GPU for itself; the report's tables."""
    out = {"kernels": [], "ceilings": {}, "speeds": []}
    ours = {}

    def kernels():
        out["kernels"] = bench(job)
        out["ceilings"] = gpu_report.ceilings(out["kernels"], torch.about if torch else None)
        return gpu_report.bandwidth(out["kernels"], out["ceilings"]["copy"])

    def speeds():
        ours.update(throughput(job, gpu, torch))
        rows = {precision: [row for row, _ in runs] for precision, runs in ours.items()}
        out["speeds"] = gpu_report.speeds(rows, torch.speeds if torch else {}, out["ceilings"])
        return [gpu_report.throughput(out["speeds"]), gpu_report.beside_pytorch(out["speeds"])]

    job.check("kernels bound by memory", kernels)
    job.check("throughput of GPT-2 124M", speeds)
    job.check("memory", lambda: memory(ours))
    return out


def commit():
    if not shutil.which("git"):
        return "not known"
    told = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude=*"],
                          capture_output=True, text=True)
    return told.stdout.strip() or "not known"


def environment(job, options, gpu, torch):
    out = {"gpu": f"{gpu.name}, compute capability {gpu.capability[0]}.{gpu.capability[1]}, "
                  f"{gpu.memory / 1e9:.0f} GB", "driver": gpu.driver or "not known"}
    try:
        job.run("doctor", [program(job, "ringside"), "doctor"], 30)
        lines = (job.logs / "doctor.log").read_text().splitlines()
        out["libraries"] = "; ".join(" ".join(line.split()) for line in lines
                                     if "cuBLASLt" in line or line.startswith("nccl"))
    except Failed as error:
        out["libraries"] = f"not known: {error}"
    out["pytorch"] = (torch.about.get("version") or torch.why) if torch else "not installed"
    out["commit"] = options.commit or commit()
    out["date"] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return out


def run(job, options, gpu):
    torch, found = None, {"kernels": [], "ceilings": {}, "speeds": []}
    job.check("build", lambda: gpu_build.build(job, options.bundle, gpu))
    try:
        if (job.build / "ringside").exists():
            if importlib.util.find_spec("torch"):
                torch = PyTorch(job, prepare_s=min(100, job.left() / 3))
            job.check("kernels against float64", lambda: conformance(job))
            job.check("schemes at worlds 1, 2, 4 on one GPU", lambda: schemes(job))
            for kind in ("gpt", "mlp"):
                job.check(f"losses of {kind.upper()} as the CPU's", lambda: beside_cpu(job, kind))
            job.check("ps of GPUs with servers on the CPU", lambda: servers_on_cpu(job))
            if torch:
                torch.wait(max(1, min(120, job.left() - 120)))
            found = measured(job, gpu, torch)
    finally:
        if torch:
            torch.close()
    return gpu_report.write({"environment": environment(job, options, gpu, torch),
                             "seconds": time.monotonic() - job.began, "checks": job.checks,
                             "left_out": torch.left_out if torch else {}, **found}, job.folder)


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/gpu-check")
    parser.add_argument("--bundle", type=pathlib.Path,
                        help="what scripts/bundle made, packed or not; by default bundle/ or "
                             "bundle.tar.xz, if it is there")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-gpu")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "results/gpu")
    parser.add_argument("--commit", help="of the tree, where git does not know it")
    parser.add_argument("--minutes", type=float, default=8, help="for all of it")
    return parser.parse_args()


def main():
    options = arguments()
    try:
        gpu = gpu_driver.look()
    except gpu_driver.NoGpu as error:
        sys.exit(say_missing(f"{error}; run this on a machine with a GPU of NVIDIA's"))
    if not gpu_build.nvcc_here():
        sys.exit(say_missing("nvcc is missing; install the CUDA toolkit, 12.8 or newer"))
    if not shutil.which("cmake") or not gpu_build.compiler():
        sys.exit(say_missing("cmake, or a g++ of version 12 or newer, is missing; install it"))
    folder = options.results / re.sub(r"[^a-z0-9]+", "-", gpu.name.lower()).strip("-")
    job = Job(ROOT, options.build.resolve(), folder, options.minutes)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(job.work, ignore_errors=True)
    job.logs.mkdir(parents=True)
    job.work.mkdir(parents=True)
    good = run(job, options, gpu)
    say("\n" + (folder / "summary.md").read_text() + f"\nResults: {folder}")
    sys.exit(0 if good else 1)


def say_missing(line):
    print(f"scripts/gpu-check: {line}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
