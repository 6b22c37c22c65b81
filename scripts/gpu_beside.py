"""Runs scripts/gpu_pytorch.py as a process, asks it for measurements, and keeps its answers."""

import json
import queue
import subprocess
import sys
import threading

from gpu_job import Failed, stop


class PyTorch:
    """The process of scripts/gpu_pytorch.py, which prepares its models while other checks run."""

    def __init__(self, job, models, prepare_s):
        self.about, self.why = {}, ""
        self.speeds, self.left_out = {}, {}
        self.log = (job.logs / "pytorch.log").open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-B", job.root / "scripts/gpu_pytorch.py",
             f"--models={','.join(models)}", f"--prepare-s={prepare_s}"],
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
            self.why = f"PyTorch did not answer within {limit_s:.0f} s"
        return None

    def wait(self, limit_s):
        self.about = self._answer(limit_s) or {}
        self.left_out = self.about.get("left_out", {})
        self.speeds = {variant: [] for variant in self.about.get("variants", [])}

    def measure(self, model, precision, steps, limit_s):
        """Measures every variant of the model in this precision, and adds their samples/s."""
        for variant in [v for v in self.speeds if v.startswith(f"{model} {precision}")]:
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

    def of(self, model):
        """The samples/s of a model by variant; the names of variants lack the model's name."""
        return {v.removeprefix(f"{model} "): s for v, s in self.speeds.items()
                if v.startswith(f"{model} ")}

    def close(self):
        stop(self.process)
        self.log.close()
