"""scripts/gpu-check on a made-up machine: which steps it takes, how far those came that were stopped,
and programs that were built elsewhere. Stand-ins take the place of programs and of the GPU."""

import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import gpu_beside  # noqa: E402
import gpu_build  # noqa: E402
import gpu_check  # noqa: E402
import gpu_job  # noqa: E402
import gpu_steps  # noqa: E402
import gpu_throughput  # noqa: E402
from gpu_driver import Gpu  # noqa: E402

H100 = Gpu("NVIDIA H100", (9, 0), 80 << 30, "580.1", "")

# Two tests, of which this process has those of its shard.
GPU_TEST = """
import json, os, sys
shards, shard = (int(os.environ["GTEST_" + n]) for n in ("TOTAL_SHARDS", "SHARD_INDEX"))
mine = [n for i, n in enumerate(("adds", "drops")) if i % shards == shard]
print(f"[==========] Running {len(mine)} tests from 1 test suite.")
for name in mine:
    print(f"[ RUN      ] Gpu.{name}\\n[       OK ] Gpu.{name} (1 ms)")
tests = [{"name": n, "classname": "Gpu", "result": "COMPLETED"} for n in mine]
file = sys.argv[1].removeprefix("--gtest_output=json:")
open(file, "w").write(json.dumps({"testsuites": [{"testsuite": tests}]}))
"""
# A test that never ends.
HANGS = """
import signal
print("[==========] Running 3 tests from 1 test suite.\\n[ RUN      ] Gpu.adds\\n"
      "[       OK ] Gpu.adds (1 ms)\\n[ RUN      ] Gpu.waits", flush=True)
signal.pause()
"""
# A program that writes what calibrate and compare leave behind, and says what it was asked for.
RINGSIDE = """
import json, pathlib, sys
arguments = sys.argv[1:]
print(*arguments)
results = pathlib.Path(arguments[arguments.index("--results") + 1])
if arguments[0] == "calibrate":
    (results / "cuda.toml").write_text("made = true")
else:
    name = [a.removeprefix("name=") for a in arguments if a.startswith("name=")][0]
    (results / name).mkdir()
    (results / name / "summary.json").write_text("{}")
    (results / name / "summary.md").write_text("a table")
    row = {"experiment": name, "label": "single", "status": "ok", "error": "",
           "predicted": {"step_ms": 60.0}, "step_ms": {"median": 62.5}}
    (results / name / "rows.jsonl").write_text(json.dumps(row) + "\\n")
"""


class Machine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.programs = self.folder / "programs"
        (self.programs / "tests").mkdir(parents=True)
        (self.programs / "VERSIONS").write_text("commit                 abc123\n"
                                                "built for              90-real, x86-64-v3\n")
        self.program("ringside", RINGSIDE)
        said = mock.patch.object(gpu_job, "say", lambda line: None)
        said.start()
        self.addCleanup(said.stop)

    def program(self, name, code):
        path = self.programs / name
        path.write_text(f"#!{sys.executable}\n{code}")
        path.chmod(0o755)

    def job(self, minutes=1):
        job = gpu_job.Job(ROOT, self.folder / "build", self.folder / "results", minutes,
                          self.programs)
        job.logs.mkdir(parents=True)
        job.work.mkdir(parents=True)
        return job

    def options(self, *argv):
        with mock.patch.object(sys, "argv", ["gpu-check", *argv]):
            return gpu_check.arguments()


class Parts(Machine):
    def test_can_be_chosen_and_have_folders_of_their_own(self):
        both = gpu_check.parts_of("resnet-50,bert-large")
        with self.assertRaisesRegex(gpu_check.argparse.ArgumentTypeError, "'bert'; there are .*untried"):
            gpu_check.parts_of("resnet-50,bert")
        self.assertEqual(self.options("--only=resnet-50,bert-large").parts, both)
        rest = self.options("--skip=resnet-50,bert-large").parts
        self.assertEqual(sorted(rest + both), sorted(gpu_check.PARTS))
        whole = gpu_check.folder_of(self.options("--results=r"), H100)
        self.assertEqual(whole, pathlib.Path("r/nvidia-h100"))
        self.assertEqual(gpu_check.folder_of(self.options("--results=r", "--only=tests"), H100),
                         whole / "tests")

    def test_each_is_a_step_or_a_model(self):
        self.assertEqual(set(gpu_check.PARTS),
                         {*gpu_check.STEPS, "kernels", *gpu_check.MODELS})
        untried = self.options("--only=untried").parts
        self.assertEqual(untried, ["pipelines", "comm", "torch-schemes", "offload"])

    def test_the_calls_that_the_script_names_take_at_most_eight_minutes_and_leave_nothing_out(self):
        called = [line.split("--only=")[1].strip()
                  for line in (ROOT / "scripts/gpu-check").read_text().splitlines()
                  if "--only=" in line]
        parts = []
        for only in called:
            options = self.options("--programs", str(self.programs), f"--only={only}")
            self.assertLessEqual(options.minutes, 8, only)
            parts += options.parts
        self.assertEqual(sorted(parts), sorted(gpu_check.PARTS))


def time_passes_once(job, logs, words):
    """The clock of steps stands still until each of the logs has the words, and then has moved on by
    an hour: a busy machine may take its time."""
    def now():
        paths = [job.logs / f"{log}.log" for log in logs]
        return 3600.0 * all(path.exists() and words in path.read_text() for path in paths)
    job.began = 0
    return mock.patch.object(gpu_job.time, "monotonic", now)


class Steps(Machine):
    def test_one_that_is_stopped_says_how_far_it_came(self):
        self.program("tests/gpu_test", HANGS)
        job = self.job(minutes=1.5 / 60)
        with mock.patch.object(os, "cpu_count", lambda: 4), \
                time_passes_once(job, ["kernels", "kernels-1"], "RUN      ] Gpu.waits"):
            job.check("kernels against float64", lambda: gpu_steps.conformance(job, H100))
        self.assertFalse(job.checks[0].passed)
        self.assertRegex(job.checks[0].says, r"^stopped after \d+ s: 2 of 6 tests passed, running: "
                         r"Gpu\.waits, Gpu\.waits; see logs/kernels\.log, logs/kernels-1\.log$")

    def test_of_any_program_the_last_line_says_how_far_it_came(self):
        self.program("ringside", "import signal\nprint('run 3 of 15\\n', flush=True)\nsignal.pause()")
        job = self.job()
        with self.assertRaisesRegex(gpu_job.Failed, "^stopped after 1 s: run 3 of 15; see logs/x.log$"), \
                time_passes_once(job, ["x"], "run 3 of 15"):
            job.run("x", [self.programs / "ringside"], 1.1)

    def test_one_that_fails_says_its_last_line(self):
        self.program("ringside", "import sys\nprint('no memory')\nsys.exit(3)")
        with self.assertRaisesRegex(gpu_job.Failed, r"^ended with status 3: no memory \(logs/x.log\)"):
            self.job().run("x", [self.programs / "ringside"], 30)

    def test_kernel_tests_share_the_cores(self):
        self.program("tests/gpu_test", GPU_TEST)
        for cores, memory, logs in ((4, 80, 2), (1, 80, 1), (16, 8, 2)):
            with self.subTest(cores=cores), mock.patch.object(os, "cpu_count", lambda: cores):
                self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
                job = self.job()
                check = gpu_steps.conformance(job, Gpu("", (9, 0), memory << 30, "", ""))
                self.assertEqual((check.passed, check.figures["ran"]), (True, 2))
                self.assertEqual(len(list(job.logs.iterdir())), logs)

    def test_on_one_gpu_several_are_not_tried(self):
        check = gpu_steps.several_gpus(self.job(), H100)
        self.assertIsNone(check.passed)
        self.assertIn("this machine has one GPU; it takes 2, 4 or 8", check.says)
        self.assertEqual(gpu_steps.collectives_between_gpus(self.job_again(), H100), [])

    def job_again(self):
        return gpu_job.Job(ROOT, self.folder / "build", self.folder / "results", 1, self.programs)

    def test_on_several_gpus_every_world_that_fits_has_every_scheme(self):
        asked = []

        def compare(job, file, name, arguments, limit_s):
            asked.append(arguments)
            world = int(name.rsplit("-", 1)[1])
            cases = [{"scheme": s, "label": s, "world": world, "failed": 0, "error": "",
                      "proof": "to rounding", "largest_difference": 1e-8, "shared_device": False}
                     for s in ("dp", "ps", "ddp", "zero1", "zero2", "fsdp", "local_sgd")]
            return {"cases": cases}

        with mock.patch.object(gpu_steps, "compare", compare), \
                mock.patch.object(gpu_steps, "keep", lambda *_: None):
            four = Gpu("", (9, 0), 80 << 30, "", "", 4)
            checks = gpu_steps.several_gpus(self.job(), four)
        self.assertEqual([arguments[1] for arguments in asked], ["--worlds=2", "--worlds=4"])
        self.assertEqual([c.name for c in checks], [
            "schemes on 2 GPUs", "a GPU for each of 2 ranks", "schemes on 4 GPUs",
            "a GPU for each of 4 ranks"])
        self.assertTrue(all(c.passed for c in checks), checks)

    def test_steps_are_predicted_from_a_calibration_before_they_are_measured(self):
        job = self.job()
        check = gpu_steps.calibration(job, H100)
        self.assertTrue(check.passed)
        self.assertIn("predicted-resnet-50 single: 60.0 ms, measured 62.5 (-4.0%)", check.says)
        asked = (job.logs / "calibration.log").read_text()
        self.assertIn("--cluster " + str(job.root / "experiments/clusters/dgx-h100.toml"), asked)
        for file in gpu_steps.PREDICTED:
            self.assertIn(file, asked)
            kept = "predicted-" + file.removesuffix(".toml")
            self.assertTrue((job.folder / f"{kept}.md").exists())
            self.assertTrue((job.folder / f"{kept}.jsonl").exists())
        self.assertTrue((job.folder / "cuda.toml").exists())


class Programs(Machine):
    def test_that_were_built_elsewhere_are_named_with_their_commit(self):
        check = gpu_build.carried(self.job())
        self.assertEqual((check.passed, check.says),
                         (True, "built elsewhere: commit abc123, 90-real, x86-64-v3"))

    def test_find_libraries_where_the_loader_does_not_look(self):
        place = self.folder / "somewhere"
        place.mkdir()
        (place / "libnccl.so.2").touch()
        lacks = lambda job: ([] if str(place) in job.environment.get("LD_LIBRARY_PATH", "")
                             else ["libnccl.so.2"])
        job = self.job()
        with mock.patch.object(gpu_build, "missing_libraries", lacks), \
                mock.patch.object(gpu_build, "places_of_libraries", lambda: [place]):
            self.assertTrue(gpu_build.carried(job).passed)
        with mock.patch.object(gpu_build, "missing_libraries", lacks), \
                mock.patch.object(gpu_build, "places_of_libraries", lambda: []), \
                self.assertRaisesRegex(gpu_job.Failed, "libnccl.so.2: not found on this machine"):
            job.environment.pop("LD_LIBRARY_PATH")
            gpu_build.carried(job)

    def test_run_without_a_build(self):
        self.program("tests/gpu_test", GPU_TEST)
        options = self.options("--programs", str(self.programs), "--only=tests,several-gpus")
        job = self.job()
        with mock.patch.object(gpu_beside, "is_here", lambda: False):
            self.assertTrue(gpu_check.run(job, options, H100))
        told = json.loads((job.folder / "summary.json").read_text())
        self.assertEqual([(c["name"], c["passed"]) for c in told["checks"]],
                         [("programs", True), ("kernels against float64", True),
                          ("several GPUs", None)])
        self.assertEqual(told["environment"]["commit"], "abc123")

    def test_that_are_not_there_end_with_a_line(self):
        with mock.patch.object(sys, "stderr"), self.assertRaises(SystemExit) as ended:
            gpu_check.check_machine(self.options("--programs=nowhere"))
        self.assertEqual(ended.exception.code, 2)


class PyTorch(Machine):
    def test_prepares_one_model_at_a_time(self):
        held = []

        class Torch:
            def __init__(self, job, model):
                self.model, self.why, self.left_out = model, "", {"bf16 autocast compiled": "late"}
                self.about = {"version": "2.11", "ceilings": {"bf16": 7e14}}
                self.speeds = {"bf16 masters compiled": []}
                held.append(f"{model} begins")

            def wait(self, limit_s):
                held.append(f"{self.model} is awaited")

            def measure(self, precision, steps, limit_s):
                if precision == "bf16":
                    self.speeds["bf16 masters compiled"].append(1000.0)

            def close(self):
                held.append(f"{self.model} ends")

        job = self.job(minutes=10)
        speed = gpu_throughput.Throughput(job, H100, ["resnet-50", "bert-large"])
        failed = {"status": "failed", "error": "no GPU"}
        with mock.patch.object(gpu_beside, "is_here", lambda: True), \
                mock.patch.object(gpu_beside, "PyTorch", Torch), \
                mock.patch.object(gpu_throughput, "train", lambda *_: (failed, None)):
            speed.begin()
            for model in speed.models:
                speed.measure(model, {})
            speed.close()
        self.assertEqual(held, ["resnet-50 begins", "resnet-50 is awaited", "resnet-50 ends",
                                "bert-large begins", "bert-large is awaited", "bert-large ends"])
        self.assertEqual(speed.lines["bert-large"][0]["compiled"], 1000.0)
        self.assertEqual(speed.left_out, {"resnet-50 bf16 autocast compiled": "late",
                                          "bert-large bf16 autocast compiled": "late"})


if __name__ == "__main__":
    unittest.main()
