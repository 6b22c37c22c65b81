"""The steps of scripts/gpu-check: programs with limits of time, and what became of them."""

import json
import os
import signal
import subprocess
import time

from gpu_report import Check


class Failed(Exception):
    """A step did not come to its end; the text is for the table."""


def stop(process):
    """Ends what was started, and what that started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


class Job:
    """The time that is left, the folders, and the programs that run in them."""

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
        """Runs a program in the tree; its output goes to logs/LOG.log. Throws Failed."""
        limit_s = min(limit_s, self.left())
        if limit_s <= 1:
            raise Failed("no time was left")
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
            raise Failed(f"ended with {status}: {last[-1][:200]} (logs/{log}.log)")

    def check(self, name, make):
        """Adds what make() returns, one check or several, or why it failed."""
        say(f"{name} ...")
        try:
            made = make()
        except Failed as error:
            made = Check(name, False, str(error))
        except Exception as error:  # whatever it is, the other checks still run
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
