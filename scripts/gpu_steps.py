"""The steps of scripts/gpu-check but for throughput: each runs programs and returns its checks, which
scripts/gpu_report.py makes of their output."""

import json
import os
import shutil
import sys

import gpu_beside
import gpu_report
from gpu_job import Failed, Program, program, read
from gpu_report import Check

COLLECTIVES = "all_reduce,reduce_scatter,all_gather,broadcast,all_to_all"


def conformance(job, gpu):
    """gpu_test in as many processes as cores and memory allow: what takes its time are plans of
    cuDNN, each compiled on one core."""
    shards = max(1, min(8, (os.cpu_count() or 1) // 2, gpu.memory // (4 << 30)))
    reports = [job.work / f"gpu_test-{shard}.json" for shard in range(shards)]
    try:
        job.run_beside([
            Program(f"kernels-{shard}" if shard else "kernels",
                    [program(job, "gpu_test"), f"--gtest_output=json:{report}"],
                    {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(shard)})
            for shard, report in enumerate(reports)], 90, gpu_report.tests_so_far)
    except Failed:
        if not all(report.exists() for report in reports):
            raise
    return gpu_report.conformance([read(report) for report in reports])


def compare(job, file, name, arguments, limit_s):
    """Runs a comparison and returns its summary. Some of its runs may fail, since their rows say so.
    Throws Failed if the comparison wrote no summary."""
    summary = job.work / name / "summary.json"
    try:
        job.run(name, [program(job, "ringside"), "compare", job.root / "experiments/gpu" / file,
                       "--results", job.work, "--set", f"name={name}", *arguments], limit_s)
    except Failed:
        if not summary.exists():
            raise
    return read(summary)


def keep(job, name, kept):
    """Copies the table of a comparison into the results."""
    shutil.copy(job.work / name / "summary.md", job.folder / kept)


def row(job, name, scheme="single", world=1):
    """The row of a comparison's run that has finished; None if no such run has."""
    rows = (job.work / name / "rows.jsonl").read_text().splitlines()
    return gpu_report.finished([json.loads(row) for row in rows], scheme, world)


def schemes(job):
    summary = compare(job, "schemes.toml", "schemes", [], 150)
    keep(job, "schemes", "schemes.md")
    return [gpu_report.schemes(summary),
            gpu_report.curves("fsdp on 4 ranks of one GPU ends as ddp does",
                              row(job, "schemes", "fsdp", 4), row(job, "schemes", "ddp", 4))]


def beside_cpu(job, kind):
    """Compares the losses of one rank on the GPU with those on the CPU."""
    one = ["--schemes=single", "--worlds=1", "--set", f"model.kind={kind}"]
    cpu = ["--set", "device.kind=cpu", "--set", "device.threads=4"]
    compare(job, "schemes.toml", f"{kind}-cuda", one, 40)
    compare(job, "schemes.toml", f"{kind}-cpu", one + cpu, 40)
    return gpu_report.curves(f"losses of {kind.upper()} as the CPU's", row(job, f"{kind}-cuda"),
                             row(job, f"{kind}-cpu"))


def servers_on_cpu(job):
    summary = compare(job, "schemes.toml", "servers-on-cpu",
                      ["--schemes=single,ps", "--worlds=2", "--set", "scheme.ps.server_device=cpu"],
                      45)
    return gpu_report.schemes(summary, (2,), ("ps",), "ps of GPUs with servers on the CPU")


def pipelines(job):
    """Every schedule in the bits of `single`, also in 16 bits, where halves of backward have kernels of
    their own. All ranks share a GPU where there is one."""
    checks = []
    for precision in ("fp32", "bf16"):
        name = f"pipelines-{precision}"
        summary = compare(job, "pipelines.toml", name, ["--set", f"train.precision={precision}"], 60)
        keep(job, name, f"{name}.md")
        checks.append(gpu_report.pipelines(summary, f"pipelines in {precision}"))
    return checks


def several_gpus(job, gpu):
    """Every scheme with a GPU for each rank, in parts small enough that several are on their way."""
    if not (worlds := worlds_of(gpu)):
        return Check("several GPUs", None, "this machine has one GPU; it takes 2, 4 or 8 of them")
    names = ["dp", "ps", "ddp", "zero1", "zero2", "fsdp", "local_sgd"]
    checks = []
    for world in worlds:  # one at a time: what went well stays if a larger world hangs
        name = f"several-gpus-{world}"
        summary = compare(job, "schemes.toml", name, [
            f"--schemes=single,{','.join(names)}", f"--worlds={world}",
            "--set", "scheme.ps.placement=colocated", "--set", "scheme.ps.partition_mb=1"], 90)
        keep(job, name, f"{name}.md")
        checks += [gpu_report.schemes(summary, (world,), names, f"schemes on {world} GPUs"),
                   gpu_report.apart(summary, world)]
    return checks


def collectives(job, worlds, name):
    """`bench comm --device cuda`; its figures go to NAME.json."""
    file = job.folder / f"{name}.json"
    job.run(name, [program(job, "ringside"), "bench", "comm", "--device", "cuda", "--worlds",
                   ",".join(map(str, worlds)), "--operations", COLLECTIVES,
                   "--sizes", "4KB,1MB,64MB", "--json", file], 90)
    return gpu_report.collectives(read(file), f"collectives of {join(worlds)} ranks")


def collectives_between_gpus(job, gpu):
    if not (worlds := worlds_of(gpu)):
        return []  # several_gpus() has said so
    return collectives(job, worlds, "several-gpus-comm")


def worlds_of(gpu):
    """The worlds of several ranks in which each has a GPU of its own."""
    return [world for world in (2, 4, 8) if world <= gpu.count]


def join(worlds):
    return ", ".join(map(str, worlds))


def torch_schemes(job, gpu):
    """PyTorch's schemes beside ours; a GPU for each rank, as NCCL and DataParallel want it."""
    title, names = "schemes of PyTorch on GPUs", ["torch-ddp", "torch-fsdp", "torch-dp"]
    if not gpu_beside.is_here():
        return Check(title, None, "this Python has no PyTorch")
    worlds = [1, *worlds_of(gpu)]
    summary = compare(job, "schemes.toml", "torch-schemes", [
        f"--schemes=single,{','.join(names)}", f"--worlds={','.join(map(str, worlds))}",
        *(x for name in names for x in ("--set", f"scheme.{name}.python={sys.executable}"))], 120)
    keep(job, "torch-schemes", "torch-schemes.md")
    return gpu_report.schemes(summary, worlds, names, title)


def offload(job):
    summary = compare(job, "offload.toml", "offload", [], 170)
    keep(job, "offload", "offload.md")
    return gpu_report.offload(summary["cases"])


# The machines of experiments/clusters in which such GPUs stand: peaks of the data sheet, links, hosts.
MACHINES = {"H100": "dgx-h100.toml", "H200": "hgx-h200.toml", "A100": "dgx-a100.toml"}
PREDICTED = {"gpt2-124m-precisions.toml": [], "resnet-50.toml": ["--schemes=single"],
             "bert-large.toml": ["--schemes=single"]}  # with what their comparisons are limited to


def calibration(job, gpu):
    """Times the operations of the models that throughput measures; `compare` then predicts each of
    their steps before it measures it. The cluster file and the tables stay in the results."""
    around = [file for name, file in MACHINES.items() if name in gpu.name]
    files = [job.root / "experiments/gpu" / file for file in PREDICTED]
    job.run("calibration",
            [program(job, "ringside"), "calibrate", "--device", "cuda", "--results", job.work,
             *(x for file in around[:1]
               for x in ("--cluster", job.root / "experiments/clusters" / file)), *files], 200)
    shutil.copy(job.work / "cuda.toml", job.folder / "cuda.toml")
    rows = []
    for file, limits in PREDICTED.items():
        name = "predicted-" + file.removesuffix(".toml")
        compare(job, file, name, [*limits, "--set", "compare.repeats=1"], 90)
        keep(job, name, f"{name}.md")
        shutil.copy(job.work / name / "rows.jsonl", job.folder / f"{name}.jsonl")
        rows += map(json.loads, (job.work / name / "rows.jsonl").read_text().splitlines())
    return gpu_report.predictions(rows)


def bench(job):
    file = job.work / "bench.json"
    file.unlink(missing_ok=True)
    job.run("bench", [program(job, "gpu_bench"), file], 60)
    return read(file)
