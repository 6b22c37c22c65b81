"""Comparisons on the hosts of a stage: their start by each launcher, and the files and processes they leave."""

import json
import os
import pathlib
import subprocess
import time

EXPERIMENT = """
name = "trial"
[model]
kind = "gpt"
layers = 2
heads = 2
width = 32
context = 16
[data]
kind = "text"
path = "text.txt"
[train]
steps = {steps}
warmup = 1
global_batch = {batch}
micro_batch = 4
seed = 3
timeout_s = 20
[compare]
schemes = [{schemes}]
worlds = [{worlds}]
repeats = 1
attempts = 1
all_cores = false
[device]
slow = [{slow}]
[hosts]
workers = "spread"
between = "{between}"
[scheme.ps]
servers = 2
"""
SCHEMES = ("single", "dp", "ps", "ddp", "fsdp", "zero1", "zero2")


class Comparison:
    """One experiment on a stage; `program` is ringside's."""

    def __init__(self, stage, program, agents, schemes=SCHEMES, worlds=(2,), steps=4, batch=8,
                 between="gloo", slow=1):
        self.stage, self.program, self.agents = stage, program, agents
        quoted = ", ".join(f'"{scheme}"' for scheme in schemes)
        (stage.folder / "text.txt").write_text("the same words on all hosts, " * 400)
        (stage.folder / "trial.toml").write_text(EXPERIMENT.format(
            schemes=quoted, worlds=", ".join(map(str, worlds)), steps=steps, batch=batch, between=between,
            slow=", ".join([str(slow)] * max(worlds)) if slow > 1 else ""))
        if not (stage.folder / "keys").exists():
            stage.host(0).run([program, "keys", stage.shared / "keys", "--workers", "16"])

    def words(self, *more, name="results"):
        return [self.program, "compare", self.stage.shared / "trial.toml", "--keys", self.stage.shared / "keys",
                "--results", self.stage.shared / name,
                *(() if "--join-timeout" in more else ("--join-timeout", "20")), *more]

    def host_of(self, agent):
        """Agents are spread over the hosts in blocks."""
        return self.stage.host(agent * self.stage.count // self.agents)

    def start_agent(self, agent, *more, env=None, host=None, **options):
        variables = {"RANK": agent, "WORLD_SIZE": self.agents, "MASTER_ADDR": "host0", "MASTER_PORT": 29500}
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.STDOUT)
        return (host or self.host_of(agent)).start(self.words(*more), env={**variables, **(env or {})}, text=True,
                                                   **options)

    def by_hand(self, *more, env=None, timeout=60):
        """The output of each process, by agent, once all have ended, and their statuses."""
        processes = [self.start_agent(agent, *more, env=env) for agent in range(self.agents)]
        return finish(processes, timeout)

    def rows(self, name="results"):
        lines = (self.stage.folder / name / "trial" / "rows.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def summary(self, name="results"):
        return json.loads((self.stage.folder / name / "trial" / "summary.json").read_text())


def finish(processes, timeout=60):
    end = time.monotonic() + timeout
    printed = []
    for process in processes:
        try:
            printed.append(process.communicate(timeout=max(0.1, end - time.monotonic()))[0])
        except subprocess.TimeoutExpired:
            process.kill()
            printed.append(process.communicate()[0] + f"\n[did not end within {timeout} s]")
    return printed, [process.returncode for process in processes]


def hashes(rows):
    """The hashes of the parameters at the end, by scheme and world."""
    return {(row["scheme"], row["world"]): row["parameter_hashes"] for row in rows if row["purpose"] == "asked"}


def program():
    return os.environ.get("RINGSIDE_PROGRAM") or str(
        pathlib.Path(__file__).resolve().parents[2] / "build" / "ringside")


def left_on(stage):
    """Processes and files on the hosts of a stage that should not be there."""
    return [f"{host.name}: {what}" for host in stage.hosts if host.here
            for what in [*host.processes(), *host.files()]]
