"""Throughput of scripts/gpu-check's models: Ringside and PyTorch take turns, a model after another."""

import time

import gpu_beside
import gpu_driver
import gpu_report
from gpu_job import Failed, program, read
from gpu_models import MODELS

ROUNDS = 3


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
                    [program(job, "ringside"), "train",
                     job.root / "experiments/gpu" / MODELS[name].file, "--scheme", "single",
                     "--output", output, *(x for o in overrides for x in ("--set", o))], 60)
        return read(output)["row"], watch.most
    except Failed as error:
        return {"status": "failed", "error": str(error)}, None


class Throughput:
    """The models to measure, in their order. PyTorch prepares one at a time: the first from begin()
    on, each other one when that before it has been measured."""

    def __init__(self, job, gpu, models):
        self.job, self.gpu, self.models = job, gpu, models
        self.torch, self.version = None, "not installed"
        self.left_out, self.torch_ceilings, self.lines = {}, {}, {}

    def begin(self, model=None):
        if self.models and gpu_beside.is_here():
            self.torch = gpu_beside.PyTorch(self.job, model or self.models[0])

    def measure(self, name, ceilings):
        """The checks of a model. `ceilings` are those of gpu_bench."""
        if self.torch and self.torch.model != name:
            self.close()
            self.begin(name)
        if self.torch:
            self.torch.wait(self.job.left() - 60)
            self.version = self.torch.about.get("version") or self.torch.why
            for kind, rate in self.torch.about.get("ceilings", {}).items():
                self.torch_ceilings[kind] = max(rate, self.torch_ceilings.get(kind, 0))
        later = self.models[self.models.index(name) + 1:]
        keep_s = sum(30 * MODELS[other].minutes for other in later)  # half of their time
        ours = self._rounds(name, keep_s)
        rows = {precision: [row for row, _ in runs] for precision, runs in ours.items()}
        theirs = self.torch.speeds if self.torch else {}
        if self.torch:
            self.left_out |= {f"{name} {v}": why for v, why in self.torch.left_out.items()}
        peak = gpu_report.highest(ceilings, self.torch_ceilings)
        self.lines[name] = lines = gpu_report.speeds(name, rows, theirs, peak)
        checks = [gpu_report.throughput(name, lines), gpu_report.beside_pytorch(name, lines)]
        if name == "gpt2-124m":
            checks += [gpu_report.memory(precision, *runs[0]) for precision, runs in ours.items()]
        return checks

    def _rounds(self, name, keep_s):
        """Results of train() by precision, for as many rounds as there is time for."""
        ours = {precision: [] for precision in MODELS[name].runs}
        longest, asking = 0.0, bool(self.torch and self.torch.speeds)
        for done in range(ROUNDS):
            began = time.monotonic()
            if done and self.job.left() - keep_s < 1.2 * longest:
                break
            for precision, (steps, warm_up, _) in MODELS[name].runs.items():
                ours[precision].append(train(self.job, self.gpu, name, precision))
                try:
                    if asking:
                        self.torch.measure(precision, steps - warm_up, min(40, self.job.left()))
                except (Failed, OSError) as error:
                    asking = False
                    self.torch.left_out["what came after"] = str(error)
            longest = max(longest, time.monotonic() - began)
        return ours

    def close(self):
        if self.torch:
            self.torch.close()
        self.torch = None
