"""Comparisons on two hosts whose ranks speak over an MPI: the bits of one host, true causes, and nothing left."""

import os
import pathlib
import shutil
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from hosts import Stage, main, wait_until  # noqa: E402
from hosts.comparisons import Comparison, finish, hashes, left_on, program  # noqa: E402

LAUNCHERS = {"openmpi": ("mpirun.openmpi",), "mpich": ("mpiexec.hydra", "mpiexec.mpich")}
DAEMONS = {"openmpi": "orted", "mpich": "hydra_pmi_proxy"}
LONG = 8000  # steps of a run that a test ends
LIMIT_S = 10  # from a failure to the end of the run


class Worlds:
    library = None

    def setUp(self):
        if not any(map(shutil.which, LAUNCHERS[self.library])):
            self.skipTest(f"there is no {LAUNCHERS[self.library][0]}")
        if not pathlib.Path(program()).with_name(f"libringside_{self.library}.so").exists():
            self.skipTest(f"this build has no module for {self.library}")
        self.stage = self.enterContext(Stage(hosts=2))

    def comparison(self, schemes=("single", "ddp", "fsdp"), **more):
        return Comparison(self.stage, program(), agents=4, schemes=schemes, between=self.library, **more)

    def check(self, comparison, printed, statuses):
        self.assertEqual(set(statuses), {0}, printed)
        rows = comparison.rows()
        self.assertEqual({row["status"] for row in rows}, {"ok"}, [row["error"] for row in rows])
        self.assertEqual(hashes(rows), hashes(comparison.rows("alone")))
        self.assertEqual({home["host"] for row in rows for home in row["homes"]}, {"host0", "host1"})
        self.assertEqual(left_on(self.stage), [])

    def test_by_hand(self):
        comparison = self.comparison(worlds=(2, 4))
        self.stage.host(0).run(comparison.words(name="alone"), timeout=120)
        self.check(comparison, *comparison.by_hand())

    def test_a_host_without_the_module(self):
        comparison = self.comparison()
        self.stage.host(1).run(["cp", program(), "/tmp/ringside"])
        processes = [comparison.start_agent(agent) for agent in (0, 1)]
        comparison.program = "/tmp/ringside"
        printed, statuses = finish([*processes, *(comparison.start_agent(agent) for agent in (2, 3))])
        self.assertEqual(statuses, [2, 0, 0, 0], printed)
        self.assertRegex(printed[0], rf"agent 2 on host1 \(10.77.0.2\): .*libringside_{self.library}\.so is missing")

    def failed(self, hit, steps=LONG):
        """Starts a long run, calls `hit`, and gives the error of its row."""
        comparison = self.comparison(schemes=("ddp",), steps=steps)
        processes = [comparison.start_agent(agent) for agent in range(4)]
        hit()
        began = time.monotonic()
        progress = self.stage.folder / "results" / "trial" / "rows.jsonl"
        wait_until(lambda: progress.exists() and '"ddp"' in progress.read_text(), "the end of the run")
        taken = time.monotonic() - began
        for process in processes:  # what is left of the comparison does not matter
            process.send_signal(signal.SIGTERM)
        finish(processes)
        self.assertLess(taken, LIMIT_S)
        self.assertEqual(left_on(self.stage), [])
        return next(row["error"] for row in comparison.rows() if row["scheme"] == "ddp" and row["world"] == 2)

    def kill(self, host, chosen):
        """Kills a process of a host once host1 has a rank: those of earlier runs are on host0."""
        def find(host, words):
            return [process for process in self.stage.host(host).processes() if words(process.words)]
        wait_until(lambda: find(1, lambda words: words[1:2] == ["rank"]), "a rank on host1")
        # It makes steps, or begins MPI: the cause is the same.
        os.kill(wait_until(lambda: find(host, chosen), "what is killed")[0].number, signal.SIGKILL)

    def test_a_rank_is_killed(self):
        error = self.failed(lambda: self.kill(1, lambda words: words[1:2] == ["rank"]))
        self.assertRegex(error, r"^rank 1 \(worker\) on host1 was killed by signal 9 \(Killed\)")

    def test_a_daemon_is_killed(self):
        error = self.failed(lambda: self.kill(1, lambda words: words[0].endswith(DAEMONS[self.library])))
        self.assertRegex(error, "^host1: the daemon of .* was killed by signal 9")

    def test_the_launcher_is_killed(self):
        error = self.failed(lambda: self.kill(0, lambda words: "mpi" in words[0] and "-n" in words))
        self.assertRegex(error, "^the launcher of .* was killed by signal 9")


class OpenMpi(Worlds, unittest.TestCase):
    library = "openmpi"


class Mpich(Worlds, unittest.TestCase):
    library = "mpich"

    def test_hosts_do_not_reach_each_other(self):
        """MPICH connects the hosts while it begins. (Open MPI does so later, within our deadlines.)"""
        self.stage = self.enterContext(Stage(hosts=3))
        self.stage.part(1, 2)
        comparison = self.comparison(schemes=("ddp",), worlds=(4,))
        began = time.monotonic()
        comparison.by_hand()
        self.assertLess(time.monotonic() - began, 20 + 2 * LIMIT_S)  # train.timeout_s
        error = next(row["error"] for row in comparison.rows() if row["scheme"] == "ddp")
        self.assertRegex(error, "^rank 2 on host1, rank 3 on host2 did not come through MPI_Init of MPICH within 20 s")
        self.assertEqual(left_on(self.stage), [])


if __name__ == "__main__":
    main()
