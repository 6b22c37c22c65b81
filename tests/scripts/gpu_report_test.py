"""The report of scripts/gpu-check for made-up runs: good ones pass, each kind of bad one fails."""

import json
import math
import pathlib
import sys
import tempfile
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import gpu_models  # noqa: E402
import gpu_report  # noqa: E402

GPT2 = gpu_models.MODELS["gpt2-124m"].shape


def case(scheme, world, proof="to rounding", failed=0, difference=1e-7):
    return {"scheme": scheme, "label": scheme, "world": world, "failed": failed,
            "proof": proof, "error": "rank 1: gone" if failed else "",
            "largest_difference": difference}


def all_cases():
    return [case("single", 1, "reference", difference=None)] + [
        case(scheme, world) for scheme in ("dp", "ps", "ddp", "fsdp") for world in (1, 2, 4)]


def row(loss=None, tokens=1e6, peak=1000, reserved=1010, outside=500, status="ok", scheme="single",
        world=1):
    return {"status": status, "scheme": scheme, "world": world, "loss": loss or [3.0] * 50,
            "samples_per_s": tokens / 1024, "tokens_per_s": tokens, "model": GPT2,
            "global_batch": 32, "step_ms": {"median": 32768e3 / tokens}, "time_ms": {"data": 0.2},
            "ranks": [{"memory": {"peak": peak, "device": {"reserved": reserved, "outside": outside,
                                                           "capacity": 10**6}}}]}


def row_of(name, rate):
    """Of a model without tokens/s."""
    model = gpu_models.MODELS[name]
    return {**row(), "samples_per_s": rate, "tokens_per_s": 0, "global_batch": model.batch,
            "model": {**model.shape, "stem": "imagenet"}}


def kernel(name, dtype, rate):
    return {"kernel": name, "dtype": dtype, "ms": 1.0, "rate": rate,
            "bound": "product" if name in ("product", "attention forward") else "copy"}


BENCH = [kernel("product", "bf16", 7e14), kernel("product", "fp32", 5e13),
         kernel("product", "tf32", 4e14), kernel("copy", "fp32", 4e12),
         kernel("adamw", "fp32", 3.9e12), kernel("layer norm forward", "bf16", 3.5e12),
         kernel("cross-entropy 8192", "bf16", 3.6e12), kernel("attention forward", "bf16", 4e14)]


class Conformance(unittest.TestCase):
    def report(self, *tests):
        return {"testsuites": [{"testsuite": list(tests)}]}

    def test_needs_a_test_that_ran_and_none_that_failed(self):
        good = {"name": "adamw", "classname": "Gpu", "result": "COMPLETED"}
        skipped = {"name": "adamw", "classname": "Gpu", "result": "SKIPPED"}
        bad = {**good, "name": "sgd", "failures": [{"failure": "far"}]}
        self.assertTrue(gpu_report.conformance([self.report(good, skipped)]).passed)
        self.assertFalse(gpu_report.conformance([self.report(skipped)]).passed)
        failed = gpu_report.conformance([self.report(good), self.report(good, bad)])
        self.assertFalse(failed.passed)
        self.assertIn("3 tests ran", failed.says)
        self.assertIn("Gpu.sgd", failed.says)

    def test_of_tests_that_were_stopped_it_says_how_far_they_came(self):
        first = ("[==========] Running 5 tests from 2 test suites.\n"
                 "[ RUN      ] Layers.Adds/gpu_fp32\n"
                 "[       OK ] Layers.Adds/gpu_fp32 (484 ms)\n"
                 "[ RUN      ] Layers.Drops/gpu_fp32\n"
                 "distance: 3, limit: 1\n"
                 "[  FAILED  ] Layers.Drops/gpu_fp32, where GetParam() = gpu_fp32 (2 ms)\n"
                 "[ RUN      ] Images.Fold/gpu_fp32\n")
        second = ("[==========] Running 4 tests from 2 test suites.\n"
                  "[ RUN      ] Images.Spread/gpu_bf16\n"
                  "[       OK ] Images.Spread/gpu_bf16 (40 ms)\n")
        self.assertEqual(gpu_report.tests_so_far([first, second, ""]),
                         "2 of 9 tests passed, 1 FAILED (Layers.Drops/gpu_fp32), running: "
                         "Images.Fold/gpu_fp32")
        self.assertEqual(gpu_report.tests_so_far([""]), "0 of 0 tests passed")


class Schemes(unittest.TestCase):
    def test_all_must_be_there_and_the_same_run(self):
        self.assertTrue(gpu_report.schemes({"cases": all_cases()}).passed)
        for bad in (case("ddp", 4, "DIFFERENT", difference=0.1), case("ddp", 4, "no reference"),
                    case("ddp", 4, "to rounding", failed=1)):
            cases = [bad if (c["scheme"], c["world"]) == ("ddp", 4) else c for c in all_cases()]
            check = gpu_report.schemes({"cases": cases})
            self.assertFalse(check.passed, bad)
            self.assertIn("ddp at world 4", check.says)
        missing = gpu_report.schemes({"cases": all_cases()[:-1]})
        self.assertFalse(missing.passed)
        self.assertIn("fsdp at world 4: no run", missing.says)

    def test_pipelines_must_have_the_bits_of_single(self):
        good = [case("single", 1, "reference", difference=None),
                case("ddp", 2, "bit-identical to single", difference=None)]
        self.assertTrue(gpu_report.pipelines({"cases": good}, "x").passed)
        for bad in (case("ddp", 4), case("ddp", 4, "bit-identical to single", failed=1)):
            check = gpu_report.pipelines({"cases": [*good, bad]}, "x")
            self.assertFalse(check.passed, bad)
            self.assertIn("ddp at world 4", check.says)
        self.assertFalse(gpu_report.pipelines({"cases": good[:1]}, "x").passed)

    def test_curves_are_held_against_each_other_step_by_step(self):
        self.assertTrue(gpu_report.curves("x", row([3.0] * 50), row([3.0002] * 50)).passed)
        self.assertFalse(gpu_report.curves("x", row([3.0] * 49 + [3.001]), row([3.0] * 50)).passed)
        self.assertFalse(gpu_report.curves("x", row([3.0] * 49), row([3.0] * 50)).passed)
        self.assertFalse(gpu_report.curves("x", row([3.0] * 20), row([3.0] * 20)).passed)
        self.assertFalse(gpu_report.curves("x", row([math.nan] * 50), row([math.nan] * 50)).passed)
        self.assertFalse(gpu_report.curves("x", None, row()).passed)

    def test_a_failed_run_is_no_run(self):
        rows = [row(status="failed", scheme="fsdp", world=4), row(scheme="ddp", world=4)]
        self.assertIsNone(gpu_report.finished(rows, "fsdp", 4))
        self.assertIs(gpu_report.finished(rows, "ddp", 4), rows[1])


class Several(unittest.TestCase):
    def test_ranks_that_share_a_gpu_are_named(self):
        one = {"label": "ddp", "world": 4, "shared_device": False}
        self.assertTrue(gpu_report.apart({"cases": [one]}, 4).passed)
        other = {**one, "label": "ps", "shared_device": True}
        check = gpu_report.apart({"cases": [one, other]}, 4)
        self.assertEqual((check.passed, check.says), (False, "shared by ps"))

    def test_collectives_must_be_right(self):
        of = lambda wrong, rate: {"operation": "all_reduce", "size": 4096, "world": 2,
                                  "in_place": {"nwrong": wrong, "bus_bw": rate}}
        check = gpu_report.collectives({"results": [of(0, 3.0), of(0, 8.25)]}, "x")
        self.assertTrue(check.passed)
        self.assertIn("2 rows, all results right; at most 8.2 GB/s of bus", check.says)
        bad = gpu_report.collectives({"results": [of(0, 3.0), of(7, 8.0)]}, "x")
        self.assertFalse(bad.passed)
        self.assertIn("wrong: all_reduce of 4096 bytes at world 2", bad.says)
        self.assertFalse(gpu_report.collectives({"results": []}, "x").passed)


class Offload(unittest.TestCase):
    def case(self, proof, peak, failed=0):
        return {**case("single", 1, proof, failed), "memory": {"peak": peak}, "step_ms": 120.0}

    def test_is_the_same_run_with_less_of_the_gpus_memory(self):
        plain, good = self.case("reference", 35.5e9), self.case("bit-identical to single", 15e9)
        check = gpu_report.offload([plain, good])
        self.assertTrue(check.passed)
        self.assertIn("15.0 GB of the GPU, without 120 ms and 35.5 GB", check.says)
        for bad in (self.case("to rounding", 15e9), self.case("bit-identical to single", 36e9),
                    self.case("", 0, failed=1)):
            self.assertFalse(gpu_report.offload([plain, bad]).passed)
        self.assertFalse(gpu_report.offload([plain]).passed)


class Memory(unittest.TestCase):
    def test_the_driver_and_the_ledger_agree_within_three_percent(self):
        self.assertTrue(gpu_report.memory("x", row(peak=1000, outside=500), used=1529).passed)
        self.assertFalse(gpu_report.memory("x", row(peak=1000, outside=500), used=1531).passed)
        self.assertFalse(gpu_report.memory("x", row(peak=1000, outside=500), used=1469).passed)

    def test_without_the_driver_the_pool_counts_and_the_line_says_so(self):
        check = gpu_report.memory("x", row(peak=1000, reserved=1010))
        self.assertTrue(check.passed)
        self.assertIn("pool", check.says)
        self.assertFalse(gpu_report.memory("x", row(peak=1000, reserved=1100)).passed)

    def test_a_row_without_figures_fails(self):
        failed = gpu_report.memory("x", {"status": "failed", "error": "out of memory"})
        self.assertEqual((failed.passed, failed.says), (False, "out of memory"))
        bare = row()
        bare["ranks"][0]["memory"]["device"] = None
        self.assertFalse(gpu_report.memory("x", bare).passed)


def resnet_50():
    """Multiplications of an image, layer by layer (He et al. 2016, table 1; strides as in v1.5)."""
    count, side, channels = 112 * 112 * 64 * 7 * 7 * 3, 56, 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner, outer = 64 * 2**stage, 256 * 2**stage
        for block in range(blocks):
            count += side**2 * channels * inner
            side //= 2 if stage and not block else 1
            count += side**2 * (9 * inner**2 + inner * outer + (0 if block else channels * outer))
            channels = outer
    return count + channels * 1000


class Operations(unittest.TestCase):
    def test_of_a_token_are_those_of_the_closed_form(self):
        # 12 layers of 12 x 768^2 weights, and the head; every token sees 512.5 keys on average.
        weights = 12 * 12 * 768**2 + 768 * 50304
        attention = 12 * (2 + 4) * 2 * 768 * 512.5
        self.assertEqual(gpu_models.flops_per_token(GPT2), 6 * weights + attention)

    def test_of_an_image_are_those_of_the_layers(self):
        model = {"layers": 50, "image": 224, "stem": "imagenet"}
        stem = 112 * 112 * 64 * 7 * 7 * 3  # whose images have no gradient
        self.assertEqual(gpu_models.flops_per_image(model), 2 * (3 * resnet_50() - stem))
        for other in ({"layers": 18}, {"image": 32}, {"stem": "cifar"}):
            with self.assertRaises(ValueError):
                gpu_models.flops_per_image({**model, **other})

    def test_of_a_sequence_are_those_of_the_closed_form(self):
        weights = 24 * 12 * 1024**2 * 128  # of every token
        attention = 24 * 2 * 128 * 128 * 1024  # every token sees all: scores, and what they weigh
        words = 20 * (1024**2 + 1024 * 30528)  # hidden ones alone
        pairs = 1024**2 + 1024 * 2
        self.assertEqual(gpu_models.flops_per_sequence(gpu_models.MODELS["bert-large"].shape),
                         6 * (weights + attention + words + pairs))


class Models(unittest.TestCase):
    def test_files_say_what_pytorch_computes(self):
        for name, model in gpu_models.MODELS.items():
            file = tomllib.loads((ROOT / "experiments/gpu" / model.file).read_text())
            told = {**file["model"], "batch": file["train"]["global_batch"]}
            self.assertEqual(told["batch"], file["train"]["micro_batch"])
            if told.pop("preset", None):
                self.assertEqual(file["model"]["preset"], name)
                self.assertEqual(file["train"]["precision"], "bf16")  # which no override says
            else:
                self.assertEqual(told.pop("kind"), "gpt")
            wanted = {**model.shape, "batch": model.batch}
            self.assertEqual(told, {key: wanted[key] for key in told}, name)

class Throughput(unittest.TestCase):
    def test_medians_stand_beside_the_variant_of_the_same_work(self):
        ours = {"bf16": [row(tokens=t) for t in (1e6, 2e6, 9e6)], "fp32": [row(tokens=1e5)]}
        theirs = {"bf16 masters compiled": [t / 1024 for t in (1.8e6, 1.9e6, 2.0e6)],
                  "bf16 cast compiled": [2.5e6 / 1024], "bf16 autocast compiled": [],
                  "bf16 masters eager": [1e6 / 1024], "fp32 compiled": [2e5 / 1024]}
        peak = {"bf16": 2e6 * gpu_models.flops_per_token(GPT2) * 2}
        lines = gpu_report.speeds("gpt2-124m", ours, theirs, peak)
        self.assertEqual((lines[0]["rate"], lines[0]["share"]), (2e6, 0.5))
        self.assertEqual((lines[0]["beside"], lines[0]["compiled"]),
                         ("bf16 masters compiled", 1.9e6))
        self.assertEqual((lines[0]["fastest_variant"], lines[0]["fastest"]),
                         ("bf16 cast compiled", 2.5e6))
        self.assertEqual((lines[1]["beside"], lines[1]["compiled"]), ("fp32 compiled", 2e5))
        check = gpu_report.beside_pytorch("gpt2-124m", lines)
        self.assertTrue(check.passed)  # though a variant that does less work is faster
        self.assertAlmostEqual(check.figures["ratio"], 2 / 1.9)
        self.assertIn("0.800 of its fastest (bf16 cast compiled)", check.says)
        self.assertTrue(gpu_report.throughput("gpt2-124m", lines).passed)

    def test_images_and_sequences_count_as_such(self):
        for name, least in (("resnet-50", 0.9), ("bert-large", 1.0)):
            theirs = {"bf16 autocast compiled": [900.0], "bf16 masters compiled": [1000.0]}
            for rate in (1.01 * 1000 * least, 0.99 * 1000 * least):
                ours = {"bf16": [row_of(name, rate)]}
                operations = gpu_models.FLOPS[gpu_models.MODELS[name].unit](
                    ours["bf16"][0]["model"])
                lines = gpu_report.speeds(name, ours, theirs, {"bf16": 4 * rate * operations})
                self.assertEqual((lines[0]["rate"], lines[0]["compiled"]), (rate, 1000))
                self.assertAlmostEqual(lines[0]["share"], 0.25)
                check = gpu_report.beside_pytorch(name, lines)
                self.assertEqual(check.passed, rate > 1000 * least)
                self.assertIn("masters", check.says)
                unit = gpu_models.MODELS[name].unit
                self.assertIn(f"bf16 {rate:.0f} {unit}/s",
                              gpu_report.throughput(name, lines).says)

    def test_another_shape_fails(self):
        for change in ({"global_batch": 128}, {"model": {**row_of("bert-large", 1)["model"],
                                                         "masked": 19}}):
            ours = {"bf16": [{**row_of("bert-large", 5000), **change}]}
            lines = gpu_report.speeds("bert-large", ours, {"bf16 masters compiled": [1.0]}, {})
            check = gpu_report.beside_pytorch("bert-large", lines)
            self.assertFalse(check.passed)
            self.assertIn("other shapes", check.says)

    def test_slower_fails_and_no_pytorch_is_said(self):
        ours = {"bf16": [row(tokens=1e6)]}
        of = lambda variant: gpu_report.speeds("gpt2-124m", ours, {variant: [1.01e6 / 1024]}, {})
        self.assertFalse(gpu_report.beside_pytorch("gpt2-124m", of("bf16 masters compiled")).passed)
        other = gpu_report.beside_pytorch("gpt2-124m", of("bf16 cast compiled"))
        self.assertIsNone(other.passed)
        self.assertIn("bf16 masters compiled was not measured; 0.990 of its fastest (bf16 cast",
                      other.says)
        alone = gpu_report.speeds("gpt2-124m", ours, {}, {})
        self.assertIsNone(gpu_report.beside_pytorch("gpt2-124m", alone).passed)

    def test_a_failed_run_fails(self):
        lines = gpu_report.speeds("gpt2-124m", {
            "bf16": [row(), {"status": "failed", "error": "x"}], "fp32": []}, {}, {})
        check = gpu_report.throughput("gpt2-124m", lines)
        self.assertFalse(check.passed)
        self.assertIn("FAILED: bf16, fp32", check.says)


class Kernels(unittest.TestCase):
    def test_shares_are_of_the_best_copy_that_was_measured(self):
        peak = gpu_report.highest(gpu_report.ceilings(BENCH), {"copy": 4.1e12, "bf16": 6e14})
        self.assertEqual(peak, {"bf16": 7e14, "fp32": 5e13, "tf32": 4e14, "copy": 4.1e12})
        check = gpu_report.bandwidth(BENCH, peak["copy"])
        self.assertTrue(check.passed)
        self.assertEqual(set(check.figures),
                         {"adamw fp32", "layer norm forward bf16", "cross-entropy 8192 bf16"})
        slow = gpu_report.bandwidth(BENCH, 4.2e12)
        self.assertFalse(slow.passed)
        self.assertIn("layer norm forward bf16 83%", slow.says)
        self.assertFalse(gpu_report.bandwidth([], 4e12).passed)


class Files(unittest.TestCase):
    def report(self, *checks):
        gpt2 = gpu_report.speeds("gpt2-124m", {"bf16": [row()], "fp32": []},
                                 {"bf16 masters compiled": [9e5 / 1024]}, {})
        resnet = gpu_report.speeds("resnet-50", {"bf16": [row_of("resnet-50", 3000)]}, {}, {})
        return {"environment": {"gpu": "NVIDIA H200", "commit": "abc"}, "seconds": 400.0,
                "checks": list(checks), "left_out": {"tf32 eager": "no | time"},
                "speeds": {"gpt2-124m": gpt2, "resnet-50": resnet},
                "ceilings": gpu_report.ceilings(BENCH), "kernels": BENCH}

    def test_one_failure_fails_all_and_what_was_not_tried_does_not(self):
        good = gpu_report.Check("a", True, "fine", {"x": 1})
        untried = gpu_report.Check("b", None, "no PyTorch")
        bad = gpu_report.Check("c", False, "off | by one")
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.assertTrue(gpu_report.write(self.report(good, untried), folder))
            self.assertFalse(gpu_report.write(self.report(good, untried, bad), folder))
            text = (folder / "summary.md").read_text()
            self.assertIn("1 checks passed, 1 failed, 1 could not be tried", text)
            self.assertIn("| c | FAIL | off / by one |", text)
            self.assertIn("## GPT-2 124M, one GPU, 32 samples a step", text)
            self.assertIn("| bf16 | 1 | 32.8 | 0.2 | 1000000 | - | 900000 | bf16 masters compiled | "
                          "1.111 | 900000 | bf16 masters compiled |", text)
            self.assertIn("| fp32 | 0 | - | - | - | - | - | fp32 compiled | - | - | - |", text)
            self.assertIn("## ResNet-50, one GPU, 256 samples a step", text)
            self.assertIn("| bf16 | 1 | 32.8 | 0.2 | 3000 | - | - | bf16 masters compiled | - | - "
                          "| - |", text)
            self.assertIn("| layer norm forward | bf16 | 1.000 | 3500 GB/s | 87.5% |", text)
            self.assertIn("- commit: abc", text)
            written = json.loads((folder / "summary.json").read_text())
            self.assertEqual(written["checks"][0]["figures"], {"x": 1})

    def test_a_job_that_built_nothing_has_a_summary(self):
        bare = {"environment": {"gpu": "NVIDIA H200"}, "seconds": 9.0, "speeds": {},
                "left_out": {}, "ceilings": {}, "kernels": [],
                "checks": [gpu_report.Check("build", False, "no nvcc")]}
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.assertFalse(gpu_report.write(bare, folder))
            self.assertIn("| build | FAIL | no nvcc |", (folder / "summary.md").read_text())


if __name__ == "__main__":
    unittest.main()
