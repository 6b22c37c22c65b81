"""Our all-reduce between two hosts beside those of the libraries, in random order in the same processes. Not a test.

    cmake --build build --target hosts_bench_gloo hosts_bench_openmpi hosts_bench_mpich
    python3 tests/hosts/all_reduce_bench.py --runs 3 --json times.json

Each host has its share of this machine's cores for itself; programs that are not built are left out."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
from functools import partial

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from hosts import Failed, Sshd, Stage  # noqa: E402
from hosts.comparisons import finish  # noqa: E402

COLUMNS = ("program", "ranks", "KB", "library", "ours ms", "its own ms", "ratio", "of least times", "to the better")
TIMEOUT_S = 300


def pinned(host):
    """Words before a program that runs on the host's share of the cores."""
    cores = sorted(os.sched_getaffinity(0))
    share = len(cores) // host.stage.count
    own = cores[host.index * share:(host.index + 1) * share]
    return ["taskset", "-c", ",".join(map(str, own))] if own else []


def with_gloo(stage, program, ranks, folder):
    hosts = [stage.host(rank * stage.count // ranks) for rank in range(ranks)]
    processes = [host.start([*pinned(host), program, rank, ranks, folder, host.address], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True) for rank, host in enumerate(hosts)]
    printed, statuses = finish(processes, TIMEOUT_S)
    if any(statuses):
        raise Failed("\n".join(printed))
    return printed[0]


def with_mpi(library, stage, program, ranks, folder):
    count = ranks // stage.count
    places = [f"{host.name}:{count}" for host in stage.hosts]
    parts = [["-n", count, *pinned(host), program, library, folder, host.address] for host in stage.hosts]
    if library == "openmpi":
        # Ranks may share cores, so one that waits has to let others go on.
        words = ["mpirun.openmpi", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "-host", places[0],
                 *parts[0], ":", "-host", places[1], *parts[1]]
    else:
        words = ["mpiexec.mpich", "-bind-to", "none", "-hosts", ",".join(places), *parts[0], ":", *parts[1]]
    return stage.host(0).run(words, env=stage.mpi_environment(library), timeout=TIMEOUT_S).stdout


PROGRAMS = {"openmpi": partial(with_mpi, "openmpi"), "mpich": partial(with_mpi, "mpich"), "gloo": with_gloo}


def measured(stage, folder, ranks_of_host, run_number):
    for ranks in (stage.count * of_host for of_host in ranks_of_host):
        for name, run in PROGRAMS.items():
            program = folder / f"hosts_bench_{name}"
            if not program.exists():
                continue
            shared = stage.folder / f"{name}-{ranks}-{run_number}"
            shared.mkdir()
            lines = [json.loads(line) for line in run(stage, program, ranks, stage.shared / shared.name).splitlines()]
            for line in lines:
                better = min(other["own_us"] for other in lines if other["kb"] == line["kb"])
                yield {"program": name, **line, "ratio_to_better": round(line["ours_us"] / better, 3)}


def median_of(runs):
    """One row of several that measure the same."""
    figures = [key for key, value in runs[0].items() if isinstance(value, float)]
    return {**runs[0], "runs": len(runs), **{key: round(statistics.median(run[key] for run in runs), 3)
                                             for key in figures},
            "ratios": sorted(run["ratio"] for run in runs)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, help="where the programs are",
                        default=pathlib.Path(__file__).resolve().parents[2] / "build" / "tests")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2], help="of a host; by default 1, then 2")
    parser.add_argument("--runs", type=int, default=1, help="make so many and show the median of each figure")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write all figures there")
    asked = parser.parse_args()
    runs = {}
    with Stage(hosts=2) as stage:
        Sshd(stage)
        for number in range(asked.runs):
            for row in measured(stage, asked.folder.resolve(), asked.ranks, number):
                runs.setdefault((row["ranks"], row["program"], row["library"], row["kb"]), []).append(row)
        hosts = stage.count
    rows = [median_of(same) for same in runs.values()]
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
    for row in rows:
        print(f"| {row['program']} | {hosts} x {row['ranks'] // hosts} | {row['kb']} | {row['library']} "
              f"| {row['ours_us'] / 1e3:.3f} | {row['own_us'] / 1e3:.3f} | {row['ratio']:.2f} "
              f"| {row['ratio_of_least']:.2f} | {row['ratio_to_better']:.2f} |")
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
