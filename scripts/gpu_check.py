"""Chooses the steps of scripts/gpu-check, runs them, and writes their report."""

import argparse
import datetime
import pathlib
import re
import shutil
import subprocess
import sys
import time

import gpu_build
import gpu_driver
import gpu_report
import gpu_steps
from gpu_job import Failed, Job, program, say
from gpu_models import MODELS
from gpu_throughput import Throughput

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD_MINUTES = 2
# The steps of each part by title, for a job and a GPU. "kernels" and the models come after them.
STEPS = {
    "tests": {"kernels against float64": gpu_steps.conformance},
    "schemes": {
        "schemes at worlds 1, 2, 4 on one GPU": lambda job, gpu: gpu_steps.schemes(job),
        "losses of GPT as the CPU's": lambda job, gpu: gpu_steps.beside_cpu(job, "gpt"),
        "losses of MLP as the CPU's": lambda job, gpu: gpu_steps.beside_cpu(job, "mlp"),
        "ps of GPUs with servers on the CPU": lambda job, gpu: gpu_steps.servers_on_cpu(job)},
    "pipelines": {"pipelines under every schedule": lambda job, gpu: gpu_steps.pipelines(job)},
    "several-gpus": {"several GPUs": gpu_steps.several_gpus,
                     "collectives between GPUs": gpu_steps.collectives_between_gpus},
    "comm": {"collectives of 2 ranks": lambda job, gpu: gpu_steps.collectives(job, [2], "comm")},
    "torch-schemes": {"schemes of PyTorch on GPUs": gpu_steps.torch_schemes},
    "offload": {"offload of GPT-2 1.5B": lambda job, gpu: gpu_steps.offload(job)},
    "calibration": {"calibration of the GPU": gpu_steps.calibration},
}
# The parts that --only and --skip name, and how many minutes each may take.
PARTS = {"tests": 1, "schemes": 2, "pipelines": 2, "several-gpus": 4, "comm": 1, "torch-schemes": 2, "offload": 3,
         "calibration": 5, "kernels": 0.5,
         **{name: model.minutes for name, model in MODELS.items()}}
GROUPS = {"untried": ["pipelines", "comm", "torch-schemes", "offload"]}  # without results in results/gpu so far


def commit():
    if not shutil.which("git"):
        return "not known"
    told = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude=*"],
                          capture_output=True, text=True)
    return told.stdout.strip() or "not known"


def environment(job, options, gpu, pytorch):
    count = f"{gpu.count} x " if gpu.count > 1 else ""
    out = {"gpu": f"{count}{gpu.name}, compute capability {gpu.capability[0]}.{gpu.capability[1]}, "
                  f"{gpu.memory / 1e9:.0f} GB", "driver": gpu.driver or "not known"}
    try:
        lines = job.run("doctor", [program(job, "ringside"), "doctor"], 30).splitlines()
        out["libraries"] = "; ".join(" ".join(line.split()) for line in lines
                                     if "cuBLASLt" in line or line.startswith("nccl"))
    except Failed as error:
        out["libraries"] = f"not known: {error}"
    out["pytorch"] = pytorch
    carried = gpu_build.versions(job.programs).get("commit") if options.programs else None
    out["commit"] = options.commit or carried or commit()
    out["date"] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return out


def programs_are_there(job, options, gpu):
    """Builds the programs or looks at those that were brought along."""
    if options.programs:
        job.check("programs", lambda: gpu_build.carried(job))
        return job.checks[-1].passed
    job.check("build", lambda: gpu_build.build(job, options.bundle, gpu))
    return (job.build / "ringside").exists()


def run(job, options, gpu):
    """Runs the parts; the report is written also if one of them does not come back well."""
    speed = Throughput(job, gpu, [name for name in MODELS if name in options.parts])
    kernels = []

    def bandwidth():
        kernels.extend(gpu_steps.bench(job))
        return gpu_report.bandwidth(kernels, gpu_report.ceilings(kernels)["copy"])

    try:
        speed.begin()  # PyTorch compiles while the first checks run
        if programs_are_there(job, options, gpu):
            for part in (part for part in STEPS if part in options.parts):
                for title, step in STEPS[part].items():
                    job.check(title, lambda step=step: step(job, gpu))
            if "kernels" in options.parts:
                job.check("kernels bound by memory", bandwidth)
            for name in speed.models:
                job.check(f"throughput of {MODELS[name].title}",
                          lambda name=name: speed.measure(name, gpu_report.ceilings(kernels)))
    finally:
        speed.close()
    return gpu_report.write({
        "environment": environment(job, options, gpu, speed.version),
        "seconds": time.monotonic() - job.began, "checks": job.checks, "left_out": speed.left_out,
        "kernels": kernels, "speeds": speed.lines,
        "ceilings": gpu_report.highest(gpu_report.ceilings(kernels), speed.torch_ceilings),
    }, job.folder)


def parts_of(text):
    parts = []
    for part in text.split(","):
        if part not in PARTS and part not in GROUPS:
            raise argparse.ArgumentTypeError(
                f"unknown part '{part}'; there are {', '.join([*PARTS, *GROUPS])}")
        parts += GROUPS.get(part, [part])
    return parts


def arguments():
    parser = argparse.ArgumentParser(
        prog="scripts/gpu-check", epilog="Parts, in minutes: the build %g, %s. %s" % (
            BUILD_MINUTES, ", ".join(f"{part} {minutes:g}" for part, minutes in PARTS.items()),
            "; ".join(f"{name}: {', '.join(parts)}" for name, parts in GROUPS.items())))
    parser.add_argument("--programs", type=pathlib.Path, metavar="FOLDER",
                        help="programs that were built elsewhere, which `scripts/bundle --programs` "
                             "made, packed or not; nothing is built then")
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
        options.minutes = (0 if options.programs else BUILD_MINUTES) + sum(
            PARTS[part] for part in options.parts)
    return options


def folder_of(options, gpu):
    """The folder for results. A run of some parts replaces only results of the same parts."""
    folder = options.results / re.sub(r"[^a-z0-9]+", "-", gpu.name.lower()).strip("-")
    return folder if options.parts == list(PARTS) else folder / "+".join(options.parts)


def check_machine(options):
    """Ends the process if it is not for this machine."""
    if options.programs:
        if not options.programs.exists():
            sys.exit(say_missing(f"--programs {options.programs}: no such file or folder; make it "
                                 "where the programs were built: scripts/bundle --programs"))
        return
    if not gpu_build.nvcc_here():
        sys.exit(say_missing("nvcc is missing; install the CUDA toolkit, 12.8 or newer, or bring "
                             "programs along (--programs)"))
    if not shutil.which("cmake") or not gpu_build.compiler():
        sys.exit(say_missing("cmake, or a g++ of version 12 or newer, is missing; install it, or "
                             "bring programs along (--programs)"))


def main():
    options = arguments()
    try:
        gpu = gpu_driver.look()
    except gpu_driver.NoGpu as error:
        sys.exit(say_missing(f"{error}; run this on a machine with a GPU of NVIDIA's"))
    check_machine(options)
    folder, build = folder_of(options, gpu).resolve(), options.build.resolve()
    programs = gpu_build.unpacked(options.programs, build) if options.programs else None
    job = Job(ROOT, build, folder, options.minutes, programs)
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
