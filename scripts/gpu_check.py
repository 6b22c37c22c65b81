"""Builds and runs the checks of scripts/gpu-check; scripts/gpu_report.py judges their output."""

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
from gpu_models import MODELS

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMES = ROOT / "experiments/gpu/schemes.toml"
BUILD_MINUTES = 2
# The parts that --only and --skip name, and how many minutes each takes.
PARTS = {"tests": 1, "schemes": 2, "kernels": 0.5,
         **{name: model.minutes for name, model in MODELS.items()}}
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
    """Runs a comparison. Some of its runs may fail, since their rows say so. Throws Failed if the
    comparison wrote no summary."""
    try:
        job.run(name, [program(job, "ringside"), "compare", SCHEMES, "--results", job.work, "--set",
                       f"name={name}", *arguments], limit_s)
    except Failed:
        if not (job.work / name / "summary.json").exists():
            raise


def row(job, name, scheme="single", world=1):
    """The row of a comparison's run that has finished; None if no such run has."""
    rows = (job.work / name / "rows.jsonl").read_text().splitlines()
    return gpu_report.finished([json.loads(row) for row in rows], scheme, world)


def schemes(job):
    compare(job, "schemes", [], 150)
    shutil.copy(job.work / "schemes/summary.md", job.folder / "schemes.md")
    return [gpu_report.schemes(read(job.work / "schemes/summary.json")),
            gpu_report.curves("fsdp on 4 ranks of one GPU ends as ddp does",
                              row(job, "schemes", "fsdp", 4), row(job, "schemes", "ddp", 4))]


def beside_cpu(job, kind):
    """Compares the losses of one rank on the GPU with those on the CPU."""
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


def train(job, gpu, name, precision):
    """Trains once. Returns the row, which says whether the run failed, and the most of the GPU's
    memory that was used meanwhile."""
    steps, warm_up, changes = MODELS[name].runs[precision]
    output = job.work / f"{name}-{precision}.json"
    output.unlink(missing_ok=True)
    overrides = [f"train.steps={steps}", f"train.warmup={warm_up}", *changes]
    try:
        with gpu_driver.MemoryWatch(gpu) as watch:
            job.run(f"train-{name}-{precision}",
                    [program(job, "ringside"), "train", ROOT / "experiments/gpu" / MODELS[name].file,
                     "--scheme", "single", "--output", output,
                     *(x for o in overrides for x in ("--set", o))], 60)
        return read(output)["row"], watch.most
    except Failed as error:
        return {"status": "failed", "error": str(error)}, None


def throughput(job, gpu, torch, name, keep_s):
    """Results of train() by precision. Runs of Ringside and PyTorch take turns, for as many rounds
    as there is time; `keep_s` seconds are kept for later checks."""
    ours = {precision: [] for precision in MODELS[name].runs}
    longest, asking = 0.0, bool(torch and torch.of(name))
    for done in range(ROUNDS):
        began = time.monotonic()
        if done and job.left() - keep_s < 1.2 * longest:
            break
        for precision, (steps, warm_up, _) in MODELS[name].runs.items():
            ours[precision].append(train(job, gpu, name, precision))
            try:
                if asking:
                    torch.measure(name, precision, steps - warm_up, min(40, job.left()))
            except (Failed, OSError) as error:
                asking = False
                torch.left_out["what came after"] = str(error)
        longest = max(longest, time.monotonic() - began)
    return ours


def memory(ours):
    if not ours:
        raise Failed("no run was made")
    return [gpu_report.memory(precision, *runs[0]) for precision, runs in ours.items()]


def bench(job):
    file = job.work / "bench.json"
    file.unlink(missing_ok=True)
    job.run("bench", [program(job, "gpu_bench"), file], 60)
    return read(file)


def measured(job, gpu, torch, parts):
    """Runs the checks that need the GPU for themselves; returns the tables of the report."""
    about = torch.about if torch else None
    out = {"kernels": [], "ceilings": gpu_report.ceilings([], about), "speeds": {}}
    models = [name for name in MODELS if name in parts]

    def kernels():
        out["kernels"] = bench(job)
        out["ceilings"] = gpu_report.ceilings(out["kernels"], about)
        return gpu_report.bandwidth(out["kernels"], out["ceilings"]["copy"])

    def speeds(name):
        later = models[models.index(name) + 1:]
        ours.update(throughput(job, gpu, torch, name, 45 * len(later)))
        rows = {precision: [row for row, _ in runs] for precision, runs in ours.items()}
        lines = gpu_report.speeds(name, rows, torch.of(name) if torch else {}, out["ceilings"])
        out["speeds"][name] = lines
        return [gpu_report.throughput(name, lines), gpu_report.beside_pytorch(name, lines)]

    if "kernels" in parts:
        job.check("kernels bound by memory", kernels)
    for name in models:
        ours = {}
        job.check(f"throughput of {MODELS[name].title}", lambda: speeds(name))
        if name == "gpt2-124m":
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
    torch, found = None, {"kernels": [], "ceilings": {}, "speeds": {}}
    models = [name for name in MODELS if name in options.parts]
    try:
        if models and importlib.util.find_spec("torch"):  # it compiles while the first checks run
            prepare_s = min(30 + 90 * len(models), job.left() / 2)
            torch = PyTorch(job, models, prepare_s)
            prepared = time.monotonic() + prepare_s + 60
        job.check("build", lambda: gpu_build.build(job, options.bundle, gpu))
        if (job.build / "ringside").exists():
            if "tests" in options.parts:
                job.check("kernels against float64", lambda: conformance(job))
            if "schemes" in options.parts:
                job.check("schemes at worlds 1, 2, 4 on one GPU", lambda: schemes(job))
                for kind in ("gpt", "mlp"):
                    job.check(f"losses of {kind.upper()} as the CPU's",
                              lambda: beside_cpu(job, kind))
                job.check("ps of GPUs with servers on the CPU", lambda: servers_on_cpu(job))
            if torch:
                left = job.left() - 60 * len(models)
                torch.wait(max(1, min(prepared - time.monotonic(), left)))
            found = measured(job, gpu, torch, options.parts)
    finally:
        if torch:
            torch.close()
    return gpu_report.write({"environment": environment(job, options, gpu, torch),
                             "seconds": time.monotonic() - job.began, "checks": job.checks,
                             "left_out": torch.left_out if torch else {}, **found}, job.folder)


def parts_of(text):
    parts = text.split(",")
    for part in parts:
        if part not in PARTS:
            raise argparse.ArgumentTypeError(f"unknown part '{part}'; there are {', '.join(PARTS)}")
    return parts


def arguments():
    parser = argparse.ArgumentParser(
        prog="scripts/gpu-check", epilog="Parts, in minutes: the build %g, %s" % (
            BUILD_MINUTES, ", ".join(f"{part} {minutes:g}" for part, minutes in PARTS.items())))
    parser.add_argument("--bundle", type=pathlib.Path,
                        help="the bundle that scripts/bundle made, packed or not; by default "
                             "bundle/ or bundle.tar.xz, if it exists")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-gpu")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "results/gpu")
    parser.add_argument("--commit", help="the commit of the tree, if git does not know it")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--only", type=parts_of, metavar="PART,...",
                        help="run only these parts; results go to a folder of their own")
    choice.add_argument("--skip", type=parts_of, metavar="PART,...", help="run all parts but these")
    parser.add_argument("--minutes", type=float,
                        help="limit for the whole run; by default the sum over its parts")
    options = parser.parse_args()
    options.parts = [part for part in PARTS if part in (options.only or PARTS) and
                     part not in (options.skip or [])]
    if options.minutes is None:
        options.minutes = BUILD_MINUTES + sum(PARTS[part] for part in options.parts)
    return options


def folder_of(options, gpu):
    """The folder for results. A run of some parts replaces only results of the same parts."""
    folder = options.results / re.sub(r"[^a-z0-9]+", "-", gpu.name.lower()).strip("-")
    return folder if options.parts == list(PARTS) else folder / "+".join(options.parts)


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
    folder = folder_of(options, gpu)
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
