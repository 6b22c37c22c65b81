"""The steps of scripts/gpu-check: runs programs with limits of time, and keeps their results."""

import json
import os
import signal
import subprocess
import time

from gpu_report import Check


class Failed(Exception):
    """A step did not finish; the text goes into the table."""


def stop(process):
    """Ends the process and the processes that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


class Job:
    """One run of scripts/gpu-check: its time, its folders, and its checks."""

    def __init__(self, root, build, folder, minutes):
        self.began = time.monotonic()
        self.end = self.began + 60 * minutes
        self.root, self.build = root, build
        self.folder, self.logs = folder, folder / "logs"
        self.work = self.build / "gpu-check"
        self.environment = dict(os.environ)
        self.checks = []

    def left(self):
        return self.end - time.monotonic()

    def run(self, log, argv, limit_s):
        """Runs a program in the repository's root. Blocks until it ends, at most `limit_s` seconds;
        its output goes to logs/LOG.log. Throws Failed."""
        limit_s = min(limit_s, self.left())
        if limit_s <= 1:
            raise Failed("not run: the time was over")
        path = self.logs / f"{log}.log"
        with path.open("a") as out:
            out.write(f"$ {' '.join(map(str, argv))}\n")
            out.flush()
            process = subprocess.Popen(argv, cwd=self.root, env=self.environment, stdout=out,
                                       stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                                       start_new_session=True)
            try:
                status = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                raise Failed(f"stopped after {limit_s:.0f} s; see logs/{log}.log") from None
            finally:
                stop(process)
        if status:
            last = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
            raise Failed(f"ended with status {status}: {last[-1][:200]} (logs/{log}.log)")

    def check(self, name, make):
        """Adds the check or the checks that make() returns, or a failed check if it throws."""
        say(f"{name} ...")
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
    for path in job.build.rglob(name):
        if path.is_file() and os.access(path, os.X_OK):
            return path
    raise Failed(f"{name} was not built")


def say(line):
    print(line, flush=True)


def read(path):
    return json.loads(path.read_text())
