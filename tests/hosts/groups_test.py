"""Schemes whose groups follow the hosts, and sharded sums over several hosts, end with the bits of their definitions."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from hosts import Stage, main  # noqa: E402
from hosts.comparisons import Comparison, left_on, program  # noqa: E402


class Groups(unittest.TestCase):
    """Four agents on two hosts, two on each."""

    def compare(self, *cases):
        with Stage(hosts=2) as stage:
            comparison = Comparison(stage, program(), 4, ("single",), (4,), steps=9, batch=16)
            printed, statuses = comparison.by_hand(*(word for case in cases for word in ("--case", case)), timeout=120)
            self.assertEqual(statuses, [0] * 4, printed[0])
            self.assertEqual(left_on(stage), [])
            asked = [row for row in comparison.rows() if row["purpose"] == "asked" and row["world"] == 4]
            proofs = [case["proof"] for case in comparison.summary()["cases"] if case["purpose"] == "asked"]
        self.assertEqual(proofs, ["reference"] + ["bit-identical to its definition"] * len(cases))
        return asked

    def test_local_sgd_averages_within_hosts(self):
        row, = self.compare("local_sgd: scheme.local_sgd.group=0, scheme.local_sgd.group_every=2")
        self.assertEqual([home["host"] for home in row["homes"]], ["host0", "host0", "host1", "host1"])
        self.assertEqual(row["options"]["group"], 2)

    def test_powersgd_of_shards_is_that_of_ddp(self):
        rows = self.compare(*(f"{scheme}: scheme.{scheme}.compressor=powersgd" for scheme in ("ddp", "zero2", "zero3")))
        self.assertEqual(len({row["parameter_hashes"][0] for row in rows}), 1)


if __name__ == "__main__":
    main()
