"""Trains a GPT and a ResNet in PyTorch and in Ringside, 30 steps at worlds 1 and 2, through `ringside
compare`:  test_training.py RINGSIDE   with a Python that has PyTorch, which is the one compared."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import safetensors  # noqa: F401
    import torch  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

RINGSIDE = os.path.abspath(sys.argv.pop(1))
COMMON = """
name = "trial"
[device]
threads = 1
[compare]
repeats = 1
attempts = 1
all_cores = false
worlds = [1, 2]
schemes = {schemes}
[train]
steps = 30
warmup = 5
{train}
[model]
{model}
[data]
kind = "{data}"
[optimizer]
{optimizer}
"""
GPT = {
    "model": 'kind = "gpt"\nlayers = 2\nheads = 2\nwidth = 32\ncontext = 32',
    "data": "synthetic",
    "optimizer": 'kind = "adamw"\nlr = 1e-3\nweight_decay = 0.1\nwarmup_steps = 5\nschedule = "cosine"',
}
RESNET = {
    "model": 'kind = "resnet"\nlayers = 10\nfilters = 8\nimage = 16\nclasses = 5',
    "data": "synthetic-images",
    "optimizer": 'kind = "sgd"\nlr = 1e-4\nmomentum = 0.9\nweight_decay = 1e-3\ndecay = "matrices"',
}


class TrainingTest(unittest.TestCase):
    def compare(self, schemes, settings, train, *arguments):
        """The rows of the comparison, by scheme and world."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        trial = pathlib.Path(folder.name) / "trial.toml"
        trial.write_text(COMMON.format(schemes=json.dumps(schemes), train=train, **settings))
        command = [RINGSIDE, "compare", str(trial), "--results", folder.name, *arguments]
        for scheme in schemes:
            if scheme.startswith("torch"):
                command += ["--set", f"scheme.{scheme}.python={sys.executable}"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        results = pathlib.Path(folder.name) / "trial"
        cases = json.loads((results / "summary.json").read_text())["cases"]
        rows = [json.loads(line) for line in (results / "rows.jsonl").read_text().splitlines()]
        leftover = [name for name in os.listdir("/dev/shm") if "torch" in name]
        self.assertEqual(leftover, [])
        return cases, {(row["scheme"], row["world"]): row for row in rows}

    def check(self, schemes, settings, train, *arguments):
        cases, rows = self.compare(["single", *schemes], settings, train, *arguments)
        for case in cases:
            if case["scheme"] == "single":
                continue
            self.assertEqual(case["proof"], "to rounding", case)
            self.assertLess(case["largest_difference"], 1e-4)
            row = rows[case["scheme"], case["world"]]
            self.assertEqual(len(row["loss"]), 30)
            time = row["time_ms"]
            self.assertGreater(time["compute"], 0)
            self.assertGreater(time["optimizer"], 0)
            self.assertLess(abs(time["idle"]), 0.2 * row["step_ms"]["median"] + 1)
            self.assertEqual(row["ranks"][0]["bytes_computed"], True)
            self.assertGreater(row["ranks"][0]["memory"]["rss"], 50 << 20)
            if case["world"] == 2:
                self.assertGreater(time["communication"], 0)
        return rows

    def test_gpt(self):
        train = "global_batch = 8\nmicro_batch = 2\nevaluate_every = 15\nevaluate_batches = 2"
        rows = self.check(["torch-ddp", "torch-fsdp"], GPT, train)
        own = rows["single", 1]["evaluations"]
        for world in (1, 2):
            for scheme in ("torch-ddp", "torch-fsdp"):
                theirs = rows[scheme, world]["evaluations"]
                self.assertEqual([one["step"] for one in theirs], [15, 30])
                self.assertAlmostEqual(theirs[1]["loss"], own[1]["loss"], delta=1e-4 * own[1]["loss"])
        least = rows["torch-ddp", 2]["bytes_minimum_per_step"]
        self.assertAlmostEqual(rows["torch-ddp", 2]["ranks"][0]["bytes_sent_per_step"], least)

    def test_resnet_and_its_running_statistics(self):
        train = "global_batch = 8\nmicro_batch = 4\nevaluate_every = 15\nevaluate_batches = 2"
        self.check(["torch-ddp", "torch-fsdp"], RESNET, train)

    def test_resnet_whose_ranks_have_several_micro_batches(self):
        train = "global_batch = 8\nmicro_batch = 2\nevaluate_every = 30\nevaluate_batches = 2"
        self.check(["torch-ddp"], RESNET, train, "--worlds", "2")

    def test_gradients_summed_once_in_fsdp(self):
        train = 'global_batch = 8\nmicro_batch = 2\nreduce = "last"'
        self.check(["torch-fsdp"], GPT, train, "--worlds", "2")

    def test_local_sgd_does_what_ours_defines(self):
        settings = {**GPT, "optimizer": 'kind = "sgd"\nlr = 0.1\nmomentum = 0'}
        train = "global_batch = 8"
        cases, _ = self.compare(["torch-local-sgd"], settings, train, "--worlds", "2", "--set",
                                "scheme.torch-local-sgd.sync_every=4")
        proofs = [one["proof"] for one in cases if one["purpose"] == "asked"]
        self.assertEqual(proofs, ["to rounding"])

    def test_other_models(self):
        models = {
            "synthetic": 'kind = "llama"\nlayers = 2\nheads = 2\nwidth = 32\ncontext = 16\nhidden = 64',
            "synthetic-pairs": 'kind = "t5"\nlayers = 2\nheads = 2\nwidth = 32\ncontext = 16\n'
            "target_context = 16",
            "synthetic-masked": 'kind = "bert"\nlayers = 2\nheads = 2\nwidth = 32\ncontext = 16\n'
            "masked = 3",
        }
        for data, model in models.items():
            with self.subTest(data):
                settings = {**GPT, "model": model, "data": data}
                schemes = ["torch-ddp", "torch-fsdp"]
                self.check(schemes, settings, "global_batch = 8", "--worlds", "2")


if __name__ == "__main__":
    unittest.main()
