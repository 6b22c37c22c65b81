"""Runs scripts/gpu_pytorch.py as a process, asks it for measurements, and keeps its answers."""

import importlib.util
import json
import queue
import subprocess
import sys
import threading
import time

from gpu_job import Failed, say, stop
from gpu_models import MODELS


def is_here():
    """Whether this Python has PyTorch."""
    return importlib.util.find_spec("torch") is not None


class PyTorch:
    """The process of scripts/gpu_pytorch.py for one model, which it prepares while other checks
    run."""

    def __init__(self, job, model):
        self.model, self.about, self.why = model, {}, ""
        self.speeds, self.left_out = {}, {}
        prepare_s = min(MODELS[model].prepare_s, job.left() / 2)
        self.ready_by = time.monotonic() + prepare_s + 60  # its last variant may begin at the end
        self.log = (job.logs / "pytorch.log").open("a")
        self.process = subprocess.Popen(
            [sys.executable, "-B", job.root / "scripts/gpu_pytorch.py", model,
             f"--prepare-s={prepare_s}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
            start_new_session=True)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def _answer(self, limit_s):
        """The next answer. If none comes in time, returns None and sets `why`."""
        try:
            line = self.lines.get(timeout=max(0.1, limit_s))
            if line:
                return json.loads(line)
            self.why = "PyTorch ended early; see logs/pytorch.log"
        except queue.Empty:
            self.why = f"PyTorch did not answer within {limit_s:.0f} s; see logs/pytorch.log"
        return None

    def wait(self, limit_s):
        """Waits until the model is prepared, at most this long."""
        began = time.monotonic()
        self.about = self._answer(min(self.ready_by - time.monotonic(), limit_s)) or {}
        self.left_out = dict(self.about.get("left_out", {}))
        if self.why:
            self.left_out["what was asked for"] = self.why
        self.speeds = {variant: [] for variant in self.about.get("variants", [])}
        say(f"  PyTorch was awaited for {time.monotonic() - began:.0f} s: {len(self.speeds)} "
            f"variants of {self.model} are ready{', ' + self.why if self.why else ''}")

    def measure(self, precision, steps, limit_s):
        """Measures every variant in this precision, and adds their samples/s."""
        for variant in [v for v in self.speeds if v.startswith(precision)]:
            self.process.stdin.write(json.dumps({"variant": variant, "steps": steps}) + "\n")
            self.process.stdin.flush()
            answer = self._answer(limit_s)
            if answer is None:  # a late answer would be taken for that to a later question
                self.speeds = {v: s for v, s in self.speeds.items() if s}
                raise Failed(self.why)
            if "error" in answer:
                self.left_out[variant] = answer["error"]
                continue
            median = sorted(answer["ms"])[len(answer["ms"]) // 2]
            self.speeds[variant].append(answer["samples"] / (1e-3 * median))

    def close(self):
        stop(self.process)
        self.log.close()
