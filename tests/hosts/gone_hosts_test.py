"""Runs whose world may shrink go on without hosts that are gone, from checkpoints in a folder that the hosts share, and
are bit-identical to their replay at these worlds."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from hosts import Stage, main, wait_until  # noqa: E402
from hosts.comparisons import Comparison, finish, left_on, program  # noqa: E402

PROVEN = "bit-identical to its definition \\(replayed\\)"


class GoneHosts(unittest.TestCase):
    """Agents on a host each, with one slot each."""

    def prepare(self, scheme, *settings, hosts=3, world=3, least=2, steps=200, batch=12, every=20):
        self.stage = self.enterContext(Stage(hosts=hosts))
        self.comparison = Comparison(self.stage, program(), hosts, (scheme,), (world,), steps, batch, slow=20)
        self.more = []
        for setting in (f'checkpoint.path="{self.stage.shared / "kept"}"', f"checkpoint.every={every}",
                        *([f"faults.least_world={least}"] if least else []), *settings):
            self.more += ["--set", setting]

    def begin(self, scheme, *settings, **options):
        self.prepare(scheme, *settings, **options)
        self.processes = [self.comparison.start_agent(agent, *self.more) for agent in range(self.comparison.agents)]

    def wait_for_checkpoint(self, step, run="*-w3"):
        """Until the run has a whole checkpoint of this step or a later one."""
        wait_until(lambda: any(int(manifest.parent.name.split("-")[1]) >= step
                               for manifest in (self.stage.folder / "kept").glob(f"{run}/step-*/manifest.json")),
                   f"a checkpoint of step {step}")

    def worlds_of_checkpoints(self, run):
        return [json.loads(manifest.read_text())["run"]["world"]
                for manifest in (self.stage.folder / "kept" / run).glob("step-*/manifest.json")]

    def end(self, alive, status=0, timeout=120):
        """What the leader printed, once it and the agents that are left have ended."""
        printed, statuses = finish([self.processes[agent] for agent in alive], timeout)
        self.assertEqual(statuses[0], status, "\n".join(printed))
        finish([process for agent, process in enumerate(self.processes) if agent not in alive], 10)
        self.assertEqual(left_on(self.stage), [])
        return printed[0]

    def row(self, scheme, world=3):
        return [row for row in self.comparison.rows()
                if row["scheme"] == scheme and row["world"] == world and row["purpose"] == "asked"][-1]

    def check_worlds(self, row, worlds, cause):
        self.assertEqual(row["status"], "ok", row.get("error"))
        self.assertEqual([period["world"] for period in row["worlds"]], worlds, row["worlds"])
        last = row["worlds"][-1]
        self.assertRegex(last["cause"], cause)
        self.assertEqual(last["from"] % 20, 0)
        self.assertEqual(row["parameter_hashes"], row["replay"]["parameter_hashes"])
        self.assertEqual(row["loss"], row["replay"]["loss"])
        self.assertEqual(len(row["loss"]), row["train"]["steps"])
        self.assertGreaterEqual(last["down_s"], last["left_s"])
        self.assertLess(last["down_s"], 15)
        print(f"{row['scheme']}: worlds {worlds} from step {last['from']}, {last['lost_steps']} steps again, went on "
              f"after {last['down_s']:.1f} s")


class KilledAgents(GoneHosts):
    def left_out(self, scheme, *settings, steps=200):
        self.begin(scheme, *settings, steps=steps)
        self.wait_for_checkpoint(40)
        self.processes[1].kill()
        printed = self.end((0, 2))
        self.assertRegex(printed, rf"\| {scheme} .*{PROVEN}")
        row = self.row(scheme)
        self.check_worlds(row, [3, 2], r"^agent 1 on host1 is gone$")
        self.assertGreaterEqual(row["worlds"][1]["from"], 40)
        self.assertEqual([rank["role"] for rank in row["ranks"]].count("lost"), 1)
        return row

    def test_ddp(self):
        self.left_out("ddp")

    def test_fsdp(self):
        self.left_out("fsdp")

    def test_zero2(self):
        self.left_out("zero2")

    def test_ps(self):
        self.left_out("ps")

    def test_local_sgd(self):
        self.left_out("local_sgd", "scheme.local_sgd.sync_every=4")

    def test_two_of_four_one_after_the_other(self):
        """A world of 3 does not divide 16 samples: its workers have 6, 5 and 5."""
        self.begin("ddp", "train.micro_batch=8", hosts=4, world=4, least=2, batch=16, steps=400)
        self.wait_for_checkpoint(40, "*-w4")
        self.processes[3].kill()
        wait_until(lambda: 3 in self.worlds_of_checkpoints("ddp-w4"), "a checkpoint at world 3")
        self.processes[1].kill()
        printed = self.end((0, 2))
        self.assertRegex(printed, rf"\| ddp .*{PROVEN}")
        self.check_worlds(self.row("ddp", 4), [4, 3, 2], "^agent 1 on host1 is gone$")

    def test_later_runs_have_what_is_left(self):
        """The second repeat begins at world 2."""
        self.begin("ddp", "compare.repeats=2", steps=100)
        self.wait_for_checkpoint(20)
        self.processes[2].kill()
        printed = self.end((0, 1), timeout=180)
        rows = [row for row in self.comparison.rows() if row["scheme"] == "ddp"]
        self.assertEqual([row["status"] for row in rows], ["ok", "ok"], printed)
        first, second = sorted(rows, key=lambda row: row["repeat"])
        broken = first if len(first["worlds"]) == 2 else second
        whole = second if broken is first else first
        self.check_worlds(broken, [3, 2], "agent 2 on host2 is gone")
        self.assertEqual([period["world"] for period in whole["worlds"]], [2])
        self.assertEqual(whole["parameter_hashes"], whole["replay"]["parameter_hashes"])

    def test_a_free_host_takes_the_place_of_one_that_is_gone(self):
        self.begin("ddp", hosts=3, world=2, least=1)
        self.wait_for_checkpoint(40, "*-w2")
        self.processes[1].kill()
        printed = self.end((0, 2))
        self.assertRegex(printed, r"\| ddp .*bit-identical to single")
        row = self.row("ddp", 2)
        self.assertEqual(row.get("worlds", []), [])
        self.assertEqual(len(row["restarts"]), 1, row["restarts"])
        self.assertEqual([home["host"] for home in row["homes"]], ["host0", "host2"])


class AnotherJob(GoneHosts):
    """It has all hosts again, and knows which steps were made at which world."""

    def goes_on(self, scheme, *settings):
        self.begin(scheme, *settings, steps=3000)
        self.wait_for_checkpoint(40)
        self.processes[1].kill()
        wait_until(lambda: 2 in self.worlds_of_checkpoints(f"{scheme}-w3"), "a checkpoint at world 2")
        self.processes[0].send_signal(signal.SIGINT)
        self.end((0, 2), status=130)
        self.more += ["--resume"]
        self.processes = [self.comparison.start_agent(agent, *self.more) for agent in range(3)]
        printed = self.end((0, 1, 2))
        self.assertRegex(printed, rf"\| {scheme} .*{PROVEN}")
        row = self.row(scheme)
        self.assertEqual([period["world"] for period in row["worlds"]], [3, 2, 3], row["worlds"])
        self.assertEqual(row["worlds"][2]["cause"], "it goes on in another job")
        self.assertEqual(row["parameter_hashes"], row["replay"]["parameter_hashes"])
        self.assertEqual(row["loss"], row["replay"]["loss"])

    def test_ddp(self):
        self.goes_on("ddp")

    def test_local_sgd(self):
        """Told to stop it writes a checkpoint at any step, and changes its world where replicas are equal."""
        self.goes_on("local_sgd", "scheme.local_sgd.sync_every=4")


class AgentsWithoutRanks(GoneHosts):
    def test_are_not_missed(self):
        self.begin("ddp", world=2, least=1)
        self.wait_for_checkpoint(20, "*-w2")
        self.processes[2].kill()
        printed = self.end((0, 1))
        self.assertRegex(printed, r"\| ddp .*bit-identical to single")
        row = self.row("ddp", 2)
        self.assertEqual(row.get("worlds", []) + row.get("restarts", []), [])


class TooFewSlots(GoneHosts):
    def ends(self, least, pattern):
        self.begin("ddp", least=least, steps=3000)
        self.wait_for_checkpoint(20)
        self.processes[1].kill()
        self.end((0, 2), status=1, timeout=30)
        error = self.row("ddp")["error"]
        self.assertRegex(error, r"rank 1 \(worker\) on host1 is lost: agent 1 on host1 .* \(not started again: agent 1 on "
                                r"host1 is gone, and 2 slots are left \(host0 1, host2 1\)" + pattern)

    def test_the_smallest_world_does_not_fit(self):
        self.ends(3, r", of which the run cannot even have world 3, its smallest .*; start a new job with --resume\)$")

    def test_the_world_must_not_change(self):
        self.ends(0, r"; with faults\.least_world a run goes on with fewer workers; without it, start a new job with "
                     r"--resume\)$")


class Links(GoneHosts):
    def test_a_host_that_is_cut_off(self):
        """Both sides name the other; what is left of the host ends by itself."""
        self.begin("ddp", steps=400)
        self.wait_for_checkpoint(40)
        self.stage.cut(1)
        printed = self.end((0, 2, 1))
        self.assertRegex(printed, rf"\| ddp .*{PROVEN}")
        self.check_worlds(self.row("ddp"), [3, 2], "^agent 1 on host1 is gone$")

    def test_an_agent_that_stands_still(self):
        """It ends once it goes on, and its ranks with it."""
        self.begin("zero2", steps=400)
        self.wait_for_checkpoint(40)
        self.processes[1].send_signal(signal.SIGSTOP)
        printed, statuses = finish([self.processes[0], self.processes[2]], 120)
        self.processes[1].send_signal(signal.SIGCONT)
        finish(self.processes[1:2], 10)
        self.assertEqual(statuses, [0, 0], "\n".join(printed))
        self.assertEqual(left_on(self.stage), [])
        self.assertRegex(printed[0], rf"\| zero2 .*{PROVEN}")
        self.check_worlds(self.row("zero2"), [3, 2], "^agent 1 on host1 is gone$")

    def test_a_lost_host(self):
        self.begin("fsdp", steps=400)
        self.wait_for_checkpoint(40)
        self.stage.host(2).lose()
        printed = self.end((0, 1))
        self.assertRegex(printed, rf"\| fsdp .*{PROVEN}")
        self.check_worlds(self.row("fsdp"), [3, 2], "^agent 2 on host2 is gone$")


class Launched(GoneHosts):
    """By `launch`, with a shell in place of ssh: all agents are on one host, and the process that leads has no slots."""

    def test_the_agent_of_worker_0(self):
        self.prepare("ddp", hosts=1)
        shell = self.stage.folder / "shell"
        shell.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
        shell.chmod(0o755)
        plain = self.comparison.words(*self.more)
        at = plain.index("--keys")
        self.processes = [self.stage.host(0).start(
            [plain[0], "launch", "--hosts", "127.0.0.1:1,127.0.0.2:1,127.0.0.3:1", "--ssh", self.stage.shared / "shell",
             *plain[2:at], *plain[at + 2:]], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)]
        self.wait_for_checkpoint(40)
        os.kill(next(process.number for process in self.stage.host(0).processes()
                     if process.words[1:2] == ["compare"] and self.environment(process)["RANK"] == "1"), signal.SIGKILL)
        printed = self.end((0,))
        self.assertRegex(printed, rf"\| ddp .*{PROVEN}")
        self.check_worlds(self.row("ddp"), [3, 2], "^agent 1 on host0 is gone$")

    @staticmethod
    def environment(process):
        words = pathlib.Path(f"/proc/{process.number}/environ").read_bytes().decode().split("\0")
        return dict(word.split("=", 1) for word in words if "=" in word)


class WhatDoesNotGo(GoneHosts):
    def test_is_refused_by_name(self):
        for scheme, settings, why in (
                ("ps", ('scheme.ps.consistency="asp"',), "workers of scheme ps do not wait for each other"),
                ("ddp", ('faults.plan=["remove worker 1 at step 5"]',), r"the world changes only when a host is gone"),
                ("local_sgd", ("scheme.local_sgd.sync_every=3",),
                 r"replicas of scheme local_sgd are equal after every 3 steps, .* set checkpoint\.every = 20")):
            with self.subTest(scheme):
                self.begin(scheme, *settings, hosts=2, world=2, least=1)
                printed, statuses = finish(self.processes, 30)
                self.assertEqual(statuses[0], 2)
                self.assertRegex(printed[0], why)
                self.stage.close()


if __name__ == "__main__":
    main()
