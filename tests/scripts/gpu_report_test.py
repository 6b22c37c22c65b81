"""What scripts/gpu-check says of made-up runs: good ones pass, each kind of bad one fails."""

import json
import math
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import gpu_report  # noqa: E402

GPT2 = {"layers": 12, "heads": 12, "width": 768, "context": 1024, "vocabulary": 50304}


def case(scheme, world, same_run="to rounding", failed=0, difference=1e-7):
    return {"scheme": scheme, "label": scheme, "world": world, "failed": failed,
            "same_run": same_run, "error": "rank 1: gone" if failed else "",
            "largest_difference": difference}


def all_cases():
    return [case("single", 1, "reference", difference=None)] + [
        case(scheme, world) for scheme in ("dp", "ps", "ddp", "fsdp") for world in (1, 2, 4)]


def row(loss=None, tokens=1e6, peak=1000, reserved=1010, outside=500, status="ok", scheme="single",
        world=1):
    return {"status": status, "scheme": scheme, "world": world, "loss": loss or [3.0] * 50,
            "tokens_per_s": tokens, "model": GPT2, "step_ms": {"median": 32768e3 / tokens},
            "ranks": [{"memory": {"peak": peak, "device": {"reserved": reserved, "outside": outside,
                                                           "capacity": 10**6}}}]}


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
        self.assertTrue(gpu_report.conformance(self.report(good, skipped)).passed)
        self.assertFalse(gpu_report.conformance(self.report(skipped)).passed)
        failed = gpu_report.conformance(self.report(good, bad))
        self.assertFalse(failed.passed)
        self.assertIn("Gpu.sgd", failed.says)


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


class Throughput(unittest.TestCase):
    def test_operations_of_a_token_are_those_of_the_closed_form(self):
        # 12 layers of 12 x 768^2 weights, and the head; every token sees 512.5 keys on average.
        weights = 12 * 12 * 768**2 + 768 * 50304
        attention = 12 * (2 + 4) * 2 * 768 * 512.5
        self.assertEqual(gpu_report.flops_per_token(GPT2), 6 * weights + attention)

    def test_medians_stand_beside_the_faster_variant(self):
        ours = {"bf16": [row(tokens=t) for t in (1e6, 2e6, 9e6)]}
        theirs = {"bf16 cast compiled": [1.8e6, 1.9e6, 2.0e6], "bf16 autocast compiled": [1.5e6],
                  "bf16 cast eager": [1e6], "fp32 eager": [9e9], "bf16 autocast eager": []}
        peak = {"bf16": 2e6 * gpu_report.flops_per_token(GPT2) * 2}
        lines = gpu_report.speeds(ours, theirs, peak)
        self.assertEqual((lines[0]["tokens_per_s"], lines[0]["share"]), (2e6, 0.5))
        self.assertEqual((lines[0]["compiled"], lines[0]["eager"]), (1.9e6, 1e6))
        check = gpu_report.beside_pytorch(lines)
        self.assertTrue(check.passed)
        self.assertAlmostEqual(check.figures["ratio"], 2 / 1.9)
        self.assertTrue(gpu_report.throughput(lines).passed)

    def test_slower_fails_and_no_pytorch_is_said(self):
        ours = {"bf16": [row(tokens=1e6)]}
        slower = gpu_report.speeds(ours, {"bf16 cast compiled": [1.01e6]}, {})
        self.assertFalse(gpu_report.beside_pytorch(slower).passed)
        self.assertIsNone(gpu_report.beside_pytorch(gpu_report.speeds(ours, {}, {})).passed)

    def test_a_failed_run_fails(self):
        lines = gpu_report.speeds({"bf16": [row(), {"status": "failed", "error": "x"}], "fp32": []},
                                  {}, {})
        check = gpu_report.throughput(lines)
        self.assertFalse(check.passed)
        self.assertIn("FAILED: bf16, fp32", check.says)


class Kernels(unittest.TestCase):
    def test_shares_are_of_the_best_copy_that_was_measured(self):
        peak = gpu_report.ceilings(BENCH, {"ceilings": {"copy": 4.1e12, "bf16": 6e14}})
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
        lines = gpu_report.speeds({"bf16": [row()], "fp32": []}, {"bf16 cast compiled": [9e5]}, {})
        return {"environment": {"gpu": "NVIDIA H200", "commit": "abc"}, "seconds": 400.0,
                "checks": list(checks), "speeds": lines, "left_out": {"tf32 eager": "no | time"},
                "ceilings": gpu_report.ceilings(BENCH, None), "kernels": BENCH}

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
            self.assertIn("| bf16 | 1 | 32.8 | 1000000 | - | - | 900000 | 1.111 |", text)
            self.assertIn("| fp32 | 0 | - | - | - | - | - | - |", text)
            self.assertIn("| layer norm forward | bf16 | 1.000 | 3500 GB/s | 87.5% |", text)
            self.assertIn("- commit: abc", text)
            written = json.loads((folder / "summary.json").read_text())
            self.assertEqual(written["checks"][0]["figures"], {"x": 1})

    def test_a_job_that_built_nothing_has_a_summary(self):
        bare = {"environment": {"gpu": "NVIDIA H200"}, "seconds": 9.0, "speeds": [],
                "left_out": {}, "ceilings": {}, "kernels": [],
                "checks": [gpu_report.Check("build", False, "no nvcc")]}
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.assertFalse(gpu_report.write(bare, folder))
            self.assertIn("| build | FAIL | no nvcc |", (folder / "summary.md").read_text())


if __name__ == "__main__":
    unittest.main()
