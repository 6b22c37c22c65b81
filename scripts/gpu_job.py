"""The steps of scripts/gpu-check: runs programs with limits of time, and keeps their results."""

import dataclasses
import json
import os
import signal
import subprocess
import time

from gpu_report import Check

SAY_EVERY_S = 20  # how often a step that is running says how far it has come


class Failed(Exception):
    """A step did not finish; the text goes into the table."""


def stop(process):
    """Ends the process and the processes that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


@dataclasses.dataclass
class Program:
    """A program to run; its output goes to logs/LOG.log."""
    log: str
    argv: list
    environment: dict = dataclasses.field(default_factory=dict)  # beside the job's


def last_line(outputs):
    """The last output of programs: the progress of a step if nothing better is known."""
    lines = [line for text in outputs for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else "nothing was printed yet"


class _Running:
    def __init__(self, job, program):
        self.log = program.log
        self.path = job.logs / f"{program.log}.log"
        with self.path.open("a") as out:
            out.write(f"$ {' '.join(map(str, program.argv))}\n")
            out.flush()
            self.begin = out.tell()
            self.process = subprocess.Popen(
                program.argv, cwd=job.root, env={**job.environment, **program.environment},
                stdout=out, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                start_new_session=True)

    def output(self):
        with self.path.open("rb") as file:
            file.seek(self.begin)
            return file.read().decode(errors="replace")


def _wait(running, limit_s, far):
    """Waits for all to end, and says now and then how far they are. Throws Failed."""
    began, next_s = time.monotonic(), SAY_EVERY_S
    while left := [one.log for one in running if one.process.poll() is None]:
        past = time.monotonic() - began
        if past >= min(next_s, limit_s):
            so_far = far([one.output() for one in running])
            if past >= limit_s:
                logs = ", ".join(f"logs/{log}.log" for log in left)
                raise Failed(f"stopped after {limit_s:.0f} s: {so_far}; see {logs}")
            say(f"  after {past:.0f} s: {so_far}")
            next_s += SAY_EVERY_S
        time.sleep(0.05)


class Job:
    """One run of scripts/gpu-check: its time, its folders, and its checks."""

    def __init__(self, root, build, folder, minutes, programs=None):
        self.began = time.monotonic()
        self.end = self.began + 60 * minutes
        self.root, self.build = root, build
        self.programs = programs or build  # the folder in which programs are looked for
        self.folder, self.logs = folder, folder / "logs"
        self.work = self.build / "gpu-check"
        self.environment = dict(os.environ)
        self.checks = []

    def left(self):
        return self.end - time.monotonic()

    def run(self, log, argv, limit_s, far=last_line):
        """Runs a program in the repository's root. Blocks until it ends, at most `limit_s` seconds.
        Returns its output, which also goes to logs/LOG.log. Throws Failed."""
        return self.run_beside([Program(log, argv)], limit_s, far)[0]

    def run_beside(self, programs, limit_s, far=last_line):
        """Runs programs beside each other, as run() does one; all are stopped when the time is over.
        `far` makes of their outputs a text about how far they came."""
        limit_s = min(limit_s, self.left())
        if limit_s <= 1:
            raise Failed("not run: the time was over")
        running = []
        try:
            running += [_Running(self, program) for program in programs]
            _wait(running, limit_s, far)
        finally:
            for one in running:
                stop(one.process)
        for one in running:
            if one.process.returncode:
                raise Failed(f"ended with status {one.process.returncode}: "
                             f"{last_line([one.output()])} (logs/{one.log}.log)")
        return [one.output() for one in running]

    def check(self, name, make):
        """Adds the check or the checks that make() returns, or a failed check if it throws."""
        say(f"{time.monotonic() - self.began:4.0f} s  {name} ...")
        try:
            made = make()
        except Failed as error:
            made = Check(name, False, str(error))
        except Exception as error:  # any error: the other checks must still run
            made = Check(name, False, f"its output cannot be used: {error!r}")
        for check in made if isinstance(made, list) else [made]:
            self.checks.append(check)
            say(f"  {check.verdict():9} {check.name}: {check.says}")


def program(job, name):
    for path in job.programs.rglob(name):
        if path.is_file() and os.access(path, os.X_OK):
            return path
    raise Failed(f"{name} was not built")


def say(line):
    print(line, flush=True)


def read(path):
    return json.loads(path.read_text())
