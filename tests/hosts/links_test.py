"""Runs on two hosts with shaped links are predicted, and the predictions say which scheme is fastest."""

import json
import os
import pathlib
import sys
import tomllib
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from hosts import Sshd, Stage, main  # noqa: E402
from hosts.comparisons import left_on, program  # noqa: E402
from hosts.shaped_links import EXPERIMENT, ShapedLinks  # noqa: E402


@unittest.skipUnless((os.cpu_count() or 1) > 1, "two hosts need a core each")
class Predicted(unittest.TestCase):
    """A test allows more than what was measured on an idle machine (docs/hosts.md)."""

    def cases(self, mbit):
        with Stage(hosts=2) as stage:
            links = ShapedLinks(stage, mbit)
            links.together("calibrate", EXPERIMENT)
            links.together("compare", EXPERIMENT)
            summary = json.loads((stage.folder / "results/two-hosts/summary.json").read_text())
        return [case for case in summary["cases"] if case["purpose"] == "asked"]

    def check(self, mbit):
        cases = self.cases(mbit)
        misses = {}
        for case in cases:
            self.assertIsNotNone(case["predicted"], case["label"])
            misses[case["label"]] = case["predicted"]["step_ms"] / case["step_ms"] - 1
        near = sum(abs(miss) < 0.15 for miss in misses.values())
        self.assertLess(max(map(abs, misses.values())), 0.4, misses)
        self.assertGreater(near, 0.8 * len(misses), misses)

    def test_at_1_gbit(self):
        self.check(1000)

    def test_at_10_gbit(self):
        self.check(10000)

    def test_calibrated_over_ssh(self):
        with Stage(hosts=2) as stage:
            Sshd(stage)
            stage.host(0).run([program(), "calibrate", "--hosts", "host0:1,host1:1", "--results",
                               stage.shared / "results"], timeout=300)
            cluster = tomllib.loads((stage.folder / "results/hosts.toml").read_text())
            self.assertEqual(left_on(stage), [])
        self.assertEqual(cluster["cluster"]["machines"], 2)
        self.assertGreater(cluster["link"]["nic"]["bandwidth_gbs"], 0.1)
        self.assertGreater(cluster["message"]["network_us"], 1)


if __name__ == "__main__":
    main()
