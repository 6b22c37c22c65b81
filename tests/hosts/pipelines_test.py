"""Pipelines over two hosts end with the bits of one rank, whichever dimension of the mesh crosses hosts."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from hosts import Stage, main  # noqa: E402
from hosts.comparisons import Comparison, left_on, program  # noqa: E402

# 1f1b of two ranks and as many micro-batches.
SCHEDULE = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"


class Pipelines(unittest.TestCase):
    """Two hosts with as many agents each."""

    def compare(self, world, *cases, files=None):
        """Rows of the cases, each of which has the hash of `single`. `files` lie on the first host alone."""
        with Stage(hosts=2) as stage:
            comparison = Comparison(stage, program(), world, ("single",), (world,), batch=32)
            for name, text in (files or {}).items():
                stage.host(0).run([sys.executable, "-c", f"open({name!r}, 'w').write({text!r})"])
            words = [word for case in cases for word in ("--case", f"{case}, mesh.pipeline=2")]
            printed, statuses = comparison.by_hand(*words, timeout=240)
            self.assertEqual(statuses, [0] * world, printed[0])
            for name in files or {}:
                stage.host(0).run(["rm", name])
            self.assertEqual(left_on(stage), [])
            asked = [row for row in comparison.rows() if row["purpose"] == "asked" and row["scheme"] != "single"]
            proofs = [case["proof"] for case in comparison.summary()["cases"] if case["scheme"] != "single"]
        self.assertEqual(proofs, ["bit-identical to single"] * len(cases), printed[0])
        for row in asked:
            self.assertEqual([home["host"] for home in row["homes"][:world]],
                             ["host0"] * (world // 2) + ["host1"] * (world // 2))
        return asked

    def test_stages_on_two_hosts(self):
        self.compare(2, *(f"ddp: pipeline.schedule={schedule}" for schedule in ("1f1b", "zb_h1", "zb_v", "gpipe")),
                     "ddp: pipeline.schedule=1f1b, model.tied=true")

    def test_a_mesh_on_two_hosts(self):
        self.compare(4, *(f"{scheme}: mesh.innermost={innermost}, train.reduce=last" for scheme in ("ddp", "fsdp", "ps")
                          for innermost in ("data", "pipeline")))

    def test_a_schedule_that_one_host_has(self):
        self.compare(2, "ddp: train.micro_batch=16, pipeline.schedule=/tmp/mine.csv", files={"/tmp/mine.csv": SCHEDULE})


if __name__ == "__main__":
    main()
