"""Hooks and workers of a user's own in PyTorch, through `ringside compare`: each against its definition, some wrong on
purpose, which the column `proof` has to name:  test_own_code.py RINGSIDE   with a Python that has PyTorch."""
import json
import os
import pathlib
import re
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
EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"
EXPERIMENT = """
name = "trial"
[device]
threads = 1
[compare]
repeats = 1
attempts = 1
all_cores = false
worlds = [{world}]
schemes = {schemes}
[scheme.torch]
python = "{python}"
[scheme.torch-ddp]
python = "{python}"
bucket_mb = 0.02
[train]
steps = 12
warmup = 2
{train}
[model]
{model}
[data]
kind = "{data}"
[optimizer]
kind = "sgd"
lr = {lr}
momentum = 0.9
"""
GPT = {"model": 'kind = "gpt"\nlayers = 2\nheads = 2\nwidth = 32\ncontext = 32', "data": "synthetic", "lr": 0.1}
RESNET = {"model": 'kind = "resnet"\nlayers = 10\nfilters = 8\nimage = 16\nclasses = 5', "data": "synthetic-images",
          "lr": 1e-3}
TRAIN = "global_batch = 12\nmicro_batch = 2\nevaluate_every = 6\nevaluate_batches = 2"

# Hooks beside the definition of a mean, and what is wrong with each.
MEANS = """
import torch
import torch.distributed as dist

def future_of(bucket, work, change=lambda mean: mean):
    return work.get_future().then(lambda future: change(future.value()[0]))

def right(state, bucket):
    bucket.buffer().div_(dist.get_world_size())
    return future_of(bucket, dist.all_reduce(bucket.buffer(), async_op=True))

def forgets_to_divide(state, bucket):
    return future_of(bucket, dist.all_reduce(bucket.buffer(), async_op=True))

def drops_a_worker(state, bucket):
    if dist.get_rank() == 1:
        bucket.buffer().zero_()
    return right(state, bucket)

def only_its_own(state, bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future

def forgets_the_last_bucket(state, bucket):
    return only_its_own(state, bucket) if bucket.is_last() else right(state, bucket)

def raises_in_rank_1(state, bucket):
    if dist.get_rank() == 1:
        raise ValueError("out of ink")
    return right(state, bucket)

def raises_later(state, bucket):
    return right(state, bucket).then(lambda future: future.no_such_thing)

def returns_a_tensor(state, bucket):
    return bucket.buffer()

def returns_a_list(state, bucket):
    return dist.all_reduce(bucket.buffer(), async_op=True).get_future()

def too_short(state, bucket):
    return right(state, bucket).then(lambda future: future.value()[:-1])

def definition(context, buckets):
    return torch.stack([bucket.buffer() for bucket in buckets]).mean(0)

def returns_nothing(context, buckets):
    pass
"""


class OwnCodeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, text, name="own.py"):
        (self.folder / name).write_text(text)
        return self.folder / name

    def cases(self, cases, settings=GPT, world=2, status=0, schemes=(), train=TRAIN):
        """Compares the cases ("SCHEME: KEY=VALUE"); returns what was printed, and summaries by label."""
        text = EXPERIMENT.format(schemes=json.dumps(list(schemes)), python=sys.executable, world=world, train=train,
                                 **settings)
        trial = self.file(text, "trial.toml")
        command = [RINGSIDE, "compare", str(trial), "--results", str(self.folder)]
        for case in cases:
            command += ["--case", case]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        summary = self.folder / "trial/summary.json"
        found = json.loads(summary.read_text())["cases"] if summary.exists() else []
        return done.stderr + done.stdout, {one["label"]: one for one in found}

    def hook(self, name, more="", file=None):
        return f"torch-ddp: label={name}, scheme.torch-ddp.hook={file or self.folder / 'own.py'}:{name}{more}"

    def rows(self):
        lines = (self.folder / "trial/rows.jsonl").read_text().splitlines()
        return {row["label"]: row for row in map(json.loads, lines)}

    def check_right(self, found, label):
        self.assertEqual(found[label]["proof"], "to rounding", found[label])
        self.assertLess(found[label]["largest_difference"], 1e-5)
        self.assertIsNone(found[label].get("speed_up"))

    def test_hooks_against_the_definition_of_a_mean(self):
        self.file(MEANS)
        wrong = ["forgets_to_divide", "drops_a_worker", "only_its_own", "forgets_the_last_bucket"]
        _, found = self.cases([self.hook(name) for name in ["right", *wrong]], schemes=["single", "torch-ddp"])
        self.check_right(found, "right")
        for name in wrong:
            self.assertEqual(found[name]["proof"], "DIFFERENT", name)
            self.assertGreater(found[name]["largest_difference"], 1e-3, name)
        # The mean of the workers' means is what DistributedDataParallel itself makes.
        rows = self.rows()
        for mine, theirs in zip(rows["right"]["loss"], rows["torch-ddp"]["loss"], strict=True):
            self.assertAlmostEqual(mine, theirs, delta=1e-5 * theirs)
        counted, computed = (rows[label]["ranks"][0] for label in ("right", "torch-ddp"))
        self.assertEqual((counted["bytes_computed"], counted["bytes_known"]), (False, True))
        ratio = counted["bytes_sent_per_step"] / computed["bytes_sent_per_step"]
        self.assertTrue(1 <= ratio < 1.1, ratio)  # headers of messages
        self.assertGreater(rows["right"]["time_ms"]["communication"], 0)
        self.assertLess(abs(rows["right"]["time_ms"]["idle"]), 0.2 * rows["right"]["step_ms"]["median"] + 1)
        self.assertRegex(rows["right"]["program"]["files"][0]["digest"], "^[0-9a-f]{32}$")

    def test_hooks_of_images_whose_convolutions_have_channels_last(self):
        self.file(MEANS)
        _, found = self.cases([self.hook("right"), self.hook("drops_a_worker")], settings=RESNET)
        self.check_right(found, "right")
        self.assertEqual(found["drops_a_worker"]["proof"], "DIFFERENT")

    def test_top_k_with_error_feedback(self):
        code = (EXAMPLES / "top_k.py").read_text()
        forgets = re.sub(r"part \+= state.errors.get\(id\(parameter\), 0\)", "part += 0", code)
        self.assertNotEqual(forgets, code)
        settings = ", scheme.torch-ddp.settings='ratio=0.02', label="
        right = f"torch-ddp: scheme.torch-ddp.hook={EXAMPLES}/top_k.py:hook{settings}"
        wrong = f"torch-ddp: scheme.torch-ddp.hook={self.file(forgets)}:hook{settings}forgets"
        ours = "ddp: label=ours, scheme.ddp.compressor=topk, scheme.ddp.ratio=0.02"
        for world in (2, 3):
            _, found = self.cases([f"{right}right", wrong, ours], world=world)
            self.check_right(found, "right")
            self.assertEqual(found["forgets"]["proof"], "DIFFERENT")
            rows = self.rows()
            for mine, theirs in zip(rows["right"]["loss"], rows["ours"]["loss"], strict=True):
                self.assertAlmostEqual(mine, theirs, delta=1e-4 * theirs)
            sent = rows["right"]["ranks"][0]["bytes_sent_per_step"]
            least = rows["ours"]["bytes_minimum_per_step"]  # (N - 1) 8 k
            self.assertTrue(least <= sent < 1.5 * least, (sent, least))

    def test_a_worker_that_mixes_with_its_neighbours(self):
        code = (EXAMPLES / "gossip.py").read_text()
        alone = code.replace("put(self.model, torch.stack([own, *received]).mean(0))", "pass")
        self.assertNotEqual(alone, code)
        cases = [f"torch: label=right, scheme.torch.file={EXAMPLES}/gossip.py:Gossip",
                 f"torch: label=alone, scheme.torch.file={self.file(alone)}:Gossip"]
        for world, settings in ((3, GPT), (2, RESNET)):
            _, found = self.cases(cases, settings, world)
            self.check_right(found, "right")
            self.assertEqual(found["alone"]["proof"], "DIFFERENT")
        time = self.rows()["right"]["time_ms"]
        self.assertGreater(time["exposed"], 0)
        self.assertGreater(time["optimizer"], 0)

    def test_a_worker_without_a_base_class_and_with_ddp_of_its_own(self):
        file = self.file(
            "import contextlib\nfrom torch.nn.parallel import DistributedDataParallel\n"
            "class Own:\n"
            "    def __init__(self, context, model, optimizer):\n"
            "        self.compute, self.optimizer = DistributedDataParallel(model, broadcast_buffers=False), optimizer\n"
            "    def micro_batch(self, last):\n"
            "        return contextlib.nullcontext() if last else self.compute.no_sync()\n"
            "    def step(self, step):\n        self.optimizer.step()\n"
            "class Definition:\n"
            "    def __init__(self, context, models, optimizers):\n"
            "        self.models, self.optimizers = models, optimizers\n"
            "    def step(self, step):\n"
            "        for grads in zip(*([p.grad for p in m.parameters()] for m in self.models)):\n"
            "            mean = sum(grads) / len(grads)\n"
            "            for grad in grads:\n                grad.copy_(mean)\n"
            "        for optimizer in self.optimizers:\n            optimizer.step()\n")
        _, found = self.cases([f"torch: label=right, scheme.torch.file={file}:Own"])
        self.check_right(found, "right")

    def test_hooks_of_pytorch(self):
        hooks = {"allreduce_hook": "", "fp16_compress_hook": "",
                 "powerSGD_hook": ", scheme.torch-ddp.settings='matrix_approximation_rank=2, start_powerSGD_iter=2'"}
        cases = [f"torch-ddp: label={name}, scheme.torch-ddp.hook=torch:{name}{more}" for name, more in hooks.items()]
        self.file(MEANS)
        cases.append("torch-ddp: label=defined, scheme.torch-ddp.hook=torch:allreduce_hook, "
                     f"scheme.torch-ddp.definition={self.folder}/own.py:definition")
        text, found = self.cases(cases)
        for name in hooks:
            self.assertEqual(found[name]["proof"], "not shown", name)
        self.assertIn("not shown: no definition", text)
        self.check_right(found, "defined")
        sent = {name: self.rows()[name]["ranks"][0]["bytes_sent_per_step"] for name in hooks}
        self.assertAlmostEqual(sent["fp16_compress_hook"] / sent["allreduce_hook"], 0.5, delta=0.05)
        self.assertLess(sent["powerSGD_hook"], 0.5 * sent["allreduce_hook"])

    def test_what_a_hook_is_given(self):
        self.file(
            "import torch\nimport torch.distributed as dist\n"
            "def make_state(context):\n"
            "    assert context.settings == {'ratio': 0.5} and context.world == 2 and context.device.type == 'cpu'\n"
            "    assert context.rank == dist.get_rank() and context.steps == 12\n"
            "    return context\n"
            "def hook(context, bucket):\n"
            "    seen = context.memory.setdefault('steps', [])\n"
            "    seen.append(context.step)\n"
            "    assert seen == sorted(seen) and seen[0] == 0, seen\n"
            "    bucket.buffer().div_(context.world)\n"
            "    return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda f: f.value()[0])\n"
            "def definition(context, buckets):\n"
            "    assert context.settings == {'ratio': 0.5} and len(buckets) == context.world == 2\n"
            "    assert buckets[0].names() == buckets[1].names() and len(buckets[0].gradients()) > 0\n"
            "    whole = torch.cat([gradient.reshape(-1) for gradient in buckets[0].gradients()])\n"
            "    assert torch.equal(whole, buckets[0].buffer()) and not torch.equal(whole, buckets[1].buffer())\n"
            "    return [sum(parts) / 2 for parts in zip(*(bucket.gradients() for bucket in buckets))]\n")
        _, found = self.cases([self.hook("hook", ", scheme.torch-ddp.settings='ratio=0.5'")])
        self.check_right(found, "hook")

    def test_failures_are_one_line_that_names_rank_file_and_cause(self):
        file = self.file(MEANS)
        key = "scheme.torch-ddp.hook: "
        line = MEANS[: MEANS.index("raise ValueError")].count("\n") + 1
        for name, what in (
            ("raises_in_rank_1", rf"rank 1 \(worker\): {key}{file}:{line}: ValueError: out of ink"),
            ("raises_later", rf"rank \d \(worker\): {key}own.py:raises_later: .*no_such_thing"),
            ("returns_a_tensor", rf"{key}own.py:returns_a_tensor returned a Tensor, where .* wants a torch.futures"),
            ("returns_a_list", rf"{key}the future of own.py:returns_a_list has a list, not a tensor"),
            ("too_short", rf"{key}own.py:too_short made \d+ elements of a bucket of \d+"),
            ("MEANT", "own.py has no 'MEANT'; it has def future_of, def right"),
        ):
            with self.subTest(name):
                status = 2 if name == "MEANT" else 1
                text, _ = self.cases([self.hook(name, ", scheme.torch-ddp.definition=none")], status=status)
                self.assertRegex(text, what)
        worker = self.file("class Own:\n    def __init__(self, context, model, optimizer):\n        pass\n"
                           "    def step(self, step):\n        {}[step]\n", "worker.py")
        text, _ = self.cases([
            f"torch: scheme.torch.file={worker}:Own",
            "torch-ddp: scheme.torch-ddp.hook=torch:powerSGD_hook, scheme.torch-ddp.settings='rank=2'"], status=1)
        self.assertRegex(text, rf"rank \d \(worker\): scheme.torch.file: {worker}:5: KeyError: 0")
        self.assertRegex(text, r"hook = 'torch:powerSGD_hook': its settings: TypeError: .*'rank'")
        text, _ = self.cases([self.hook("right", f", scheme.torch-ddp.definition={file}:returns_nothing")], status=1)
        self.assertRegex(text, r"scheme.torch-ddp.definition: returns_nothing returned None, where the bucket")


if __name__ == "__main__":
    unittest.main()
