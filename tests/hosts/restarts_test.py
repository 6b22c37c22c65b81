"""Runs on several hosts that go on after a failure, from checkpoints in a folder that the hosts share."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from hosts import Stage, main, wait_until  # noqa: E402
from hosts.comparisons import Comparison, finish, left_on, program  # noqa: E402

STEPS = 120


class Restarts(unittest.TestCase):
    """Two agents on two hosts, whose only runs are one of a scheme and its reference."""

    def begin(self, scheme, *settings, folder=None, every=20, steps=STEPS):
        self.stage = self.enterContext(Stage(hosts=2))
        self.comparison = Comparison(self.stage, program(), 2, (scheme,), (2,), steps, slow=20)
        self.kept = folder or self.stage.shared / "kept"
        self.more = []
        for setting in (f'checkpoint.path="{self.kept}"', f"checkpoint.every={every}", *settings):
            self.more += ["--set", setting]
        self.processes = [self.comparison.start_agent(agent, *self.more) for agent in range(2)]

    def row(self, scheme):
        return next(row for row in self.comparison.rows() if row["scheme"] == scheme and row["world"] == 2)

    def end(self, statuses, timeout=90):
        printed, ended = finish(self.processes, timeout)
        self.assertEqual(ended, statuses, "\n".join(printed))
        return printed

    def wait_for_steps(self, count):
        events = self.stage.folder / "results" / "trial" / "progress.jsonl"
        pattern = '"event":"step_done".*"run":"[a-z0-9]*-w2'
        wait_until(lambda: events.exists() and len(re.findall(pattern, events.read_text())) >= count, "steps")

    def rank_on(self, agent):
        return next(process.number for process in self.stage.host(agent).processes()
                    if process.number != self.processes[agent].pid)


class FromASharedFolder(Restarts):
    def replaced(self, scheme, victim, name):
        self.begin(scheme, "faults.restarts=2", f'faults.plan=["kill {victim} at step 70"]')
        printed = self.end([0, 0])
        row = self.row(scheme)
        self.assertEqual(row["status"], "ok", printed[0])
        self.assertRegex(printed[0], rf"{scheme} .*bit-identical to single")
        self.assertEqual(len(row["restarts"]), 1, row["restarts"])
        restart = row["restarts"][0]
        self.assertRegex(restart["error"], rf"{name} on host1 was killed by signal 9")
        self.assertEqual(restart["from"], 60)
        self.assertLess(restart["down_s"], 5)
        checked = subprocess.run([program(), "checkpoint", "verify", self.stage.folder / "kept" / f"{scheme}-w2"],
                                 capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertEqual(left_on(self.stage), [])

    def test_a_worker_of_ddp_on_the_other_host(self):
        self.replaced("ddp", "worker 1", r"rank 1 \(worker\)")

    def test_a_worker_of_fsdp_on_the_other_host(self):
        self.replaced("fsdp", "worker 1", r"rank 1 \(worker\)")

    def test_a_server_on_the_other_host(self):
        self.replaced("ps", "server 1", r"rank 3 \(server\)")


class FromFoldersOfTheirOwn(Restarts):
    """Training goes on, and the row says why there is no checkpoint."""

    def failure(self):
        return self.row("ddp")["ranks"][0]["checkpoints"]["failure"]

    def test_a_folder_that_hosts_do_not_share(self):
        self.begin("ddp", folder="/tmp/kept", every=100)
        for host in self.stage.hosts:
            host.path("/tmp/kept/ddp-w2").mkdir(parents=True)
        printed = self.end([0, 0])
        self.assertRegex(self.failure(), r"/tmp/kept/ddp-w2/step-0000000\d+/rank-00001\.safetensors: a rank has written this "
                                         r"file, but worker 0 does not see it; all hosts of the run must share checkpoint\.path")
        self.assertRegex(printed[0], "ddp .*bit-identical to single")

    def test_a_folder_that_is_not_there(self):
        self.begin("ddp", folder="/tmp/kept", every=100)
        self.end([0, 0])
        self.assertRegex(self.failure(),
                         r"worker 1: /tmp/kept/ddp-w2: cannot be opened: No such file or directory; all hosts of "
                         r"the run must share checkpoint\.path")


class GoneAgents(Restarts):
    """The world must not shrink, so a run does not go on without the slots of an agent that is gone."""

    def gone(self, end):
        self.begin("ddp", "faults.restarts=3", steps=3000)
        self.wait_for_steps(1)
        begin = time.monotonic()
        end()
        printed, statuses = finish(self.processes[:1], 20)
        self.assertLess(time.monotonic() - begin, 12)
        self.assertNotEqual(statuses[0], 0)
        error = self.row("ddp")["error"]
        self.assertRegex(error, r"rank 1 \(worker\) on host1 is lost: agent 1 on host1 .* \(not started again: agent 1 on "
                                r"host1 is gone, and 1 slot is left \(host0 1\); with faults\.least_world a run goes on")
        self.assertEqual(self.row("ddp").get("restarts", []), [])

    def test_a_new_job_goes_on_from_the_checkpoint(self):
        """Started again on other hosts, the run that was broken off makes no step before its checkpoint again."""
        self.begin("ddp", every=100, steps=1500)
        wait_until(lambda: list((self.stage.folder / "kept" / "ddp-w2").glob("step-*/manifest.json")), "a checkpoint")
        self.processes[1].kill()
        finish(self.processes, 20)
        self.processes = [self.comparison.start_agent(agent, *self.more, "--resume", host=self.stage.host(1 - agent),
                                                      env={"MASTER_ADDR": "host1"}) for agent in range(2)]
        printed = self.end([0, 0])
        self.assertRegex(printed[0], r"run ddp-w2-r0 goes on from checkpoint /run/stage/kept/ddp-w2/step-0000000\d00")
        self.assertRegex(printed[0], "ddp .*bit-identical to single")

    def test_a_killed_agent(self):
        self.gone(lambda: self.processes[1].kill())

    def test_a_lost_host(self):
        self.gone(lambda: self.stage.host(1).lose())

    def test_a_host_that_is_cut_off(self):
        self.gone(lambda: self.stage.cut(1))


class StoppedRanks(Restarts):
    def test_a_rank_on_another_host_that_a_signal_stops_is_named(self):
        self.begin("ddp", steps=3000)
        self.wait_for_steps(1)
        rank = self.rank_on(1)
        os.kill(rank, signal.SIGSTOP)
        time.sleep(1.5)
        os.kill(rank, signal.SIGCONT)
        time.sleep(1)
        self.processes[0].send_signal(signal.SIGINT)
        printed, _ = finish(self.processes, 30)
        self.assertRegex(printed[0], r"rank 1 \(worker\) on host1 was stopped by a signal")
        self.assertRegex(printed[0], r"rank 1 \(worker\) on host1 goes on after 1\.\d s")


if __name__ == "__main__":
    main()
