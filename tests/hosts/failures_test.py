"""What goes wrong in a comparison on several hosts ends within ten seconds, with one line that names the cause,
and leaves nothing on any host."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from hosts import Failed, Sshd, Stage, main, wait_until  # noqa: E402
from hosts.comparisons import Comparison, finish, left_on, program  # noqa: E402

LONGEST = 10  # seconds from the failure to the end of everything
STEPS = 3000  # seconds for the reference, which is one rank, and minutes for others


def parent_of(process):
    status = pathlib.Path(f"/proc/{process}/status")
    return int(re.search(r"PPid:\s*(\d+)", status.read_text())[1]) if status.exists() else None


def threads_of(process):
    return len(list(pathlib.Path(f"/proc/{process}/task").iterdir()))


class Failing(unittest.TestCase):
    """Four agents on two hosts, two on each, whose run goes on until something fails."""

    schemes, agents, more = ("ddp",), 4, ()

    def begin(self, *schemes, more=(), world=4, slow=20):
        self.stage = self.enterContext(Stage(hosts=2))
        self.comparison = Comparison(self.stage, program(), self.agents, schemes or self.schemes, (world,), STEPS,
                                     slow=slow)
        self.more = more

    def start(self, agents=None, **options):
        numbers = range(self.agents) if agents is None else agents
        self.processes = [self.comparison.start_agent(agent, *self.more, **options) for agent in numbers]
        return self.processes

    def run_begins(self, *schemes, **options):
        """Until every worker has made a step."""
        self.begin(*schemes, **options)
        self.start()
        try:
            wait_until(lambda: self.steps() > 0, "the first steps", timeout=30)
        except Failed:
            for process in self.processes:
                process.send_signal(signal.SIGINT)
            self.fail("\n".join(finish(self.processes)[0]))

    def steps(self):
        events = self.stage.folder / "results" / "trial" / "progress.jsonl"
        return len(re.findall('"event":"step_done".*"run":"[a-z0-9]*-w[24]', events.read_text())) if events.exists() \
            else 0

    def ranks_of(self, agent):
        """The processes of the ranks that an agent has started, by rank."""
        return sorted(process.number for process in self.comparison.host_of(agent).processes()
                      if parent_of(process.number) == self.processes[agent].pid)

    def wait_for_joined(self, *agents):
        """An agent has a thread for its connection beside ZeroMQ's two once the leader knows its key, and one that
        says that it is alive once the leader has taken it in."""
        wait_until(lambda: all(threads_of(self.processes[agent].pid) >= 5 for agent in agents), "the agents join")

    def all_end(self, cause, since=None, leader=0, gone=()):
        """`cause` is a regular expression that one line of the leader matches. `gone` are agents whose host is
        lost, or that were killed."""
        since = since or time.monotonic()
        printed, statuses = finish(self.processes, LONGEST + 5)
        took = time.monotonic() - since
        said = "\n".join(f"{number}: {text}" for number, text in enumerate(printed))
        self.assertLess(took, LONGEST, said)
        if leader is not None:
            # One line of the table may say so too.
            lines = [line for line in printed[leader].splitlines() if re.search(cause, line)]
            self.assertTrue(lines, f"no line matches {cause}:\n{said}")
            self.assertNotEqual(statuses[leader], 0, said)
        for host in self.stage.hosts:
            if host.here:
                wait_until(lambda host=host: not host.processes(), f"the processes of {host.name} end", timeout=3)
        self.assertEqual(left_on(self.stage), [], said)
        return printed


class KilledRanks(Failing):
    """Agent a starts worker a; with servers, agent 0 also starts rank 4 and agent 2 rank 5."""

    def killed(self, scheme, agent, name, which=0, more=()):
        self.run_begins(scheme, more=more)
        os.kill(self.ranks_of(agent)[which], signal.SIGKILL)
        self.all_end(rf"FAILED: {name} on host{agent // 2} was killed by signal 9 \(Killed\)")

    def test_worker_of_ddp(self):
        self.killed("ddp", 2, r"rank 2 \(worker\)")

    def test_first_worker_of_ddp(self):
        self.killed("ddp", 0, r"rank 0 \(worker\)")

    def test_worker_of_fsdp(self):
        self.killed("fsdp", 3, r"rank 3 \(worker\)")

    def test_worker_of_zero2(self):
        self.killed("zero2", 1, r"rank 1 \(worker\)")

    def test_worker_of_dp(self):
        self.killed("dp", 2, r"rank 2 \(worker\)")

    def test_master_of_dp(self):
        self.killed("dp", 0, r"rank 0 \(worker\+server\)")

    def test_worker_of_ps(self):
        self.killed("ps", 3, r"rank 3 \(worker\)")

    def test_server_of_ps(self):
        self.killed("ps", 2, r"rank 5 \(server\)", which=1)

    def test_stage_of_a_pipeline(self):
        self.killed("ddp", 2, r"rank 2 \(worker\)", more=("--set", "mesh.pipeline=4"))

    def test_a_run_that_can_do_without_a_worker_goes_on(self):
        self.run_begins("ps", more=("--set", "scheme.ps.consistency=asp", "--set", "train.steps=400"))
        os.kill(self.ranks_of(3)[0], signal.SIGKILL)
        printed, statuses = finish(self.processes, 90)
        self.assertEqual(set(statuses), {0}, printed)
        self.assertIn("rank 3 (worker) on host1 was killed", printed[0])


class StoppedRanks(Failing):
    def test_a_rank_that_stands_still_is_named(self):
        self.run_begins("ddp", more=("--set", "train.timeout_s=4"), slow=5)
        os.kill(self.ranks_of(2)[0], signal.SIGSTOP)
        self.all_end(r"FAILED: .*rank 2 of 4")

    def test_a_stage_that_stands_still_is_named(self):
        """Ranks of other stages name the neighbour for which they wait themselves."""
        self.run_begins("ddp", more=("--set", "train.timeout_s=4", "--set", "mesh.pipeline=4"), slow=5)
        os.kill(self.ranks_of(2)[0], signal.SIGSTOP)
        printed = self.all_end(r"rank 2 \(worker\) on host1 was stopped by a signal after step \d+; others wait for it")
        self.assertRegex(printed[0], r"FAILED: .*pipeline-0-\w+: rank \d of 4")


class KilledAgents(Failing):
    def killed(self, agent, scheme="ddp"):
        self.run_begins(scheme)
        since = time.monotonic()
        self.processes[agent].kill()
        return self.all_end(rf"agent {agent} on host{agent // 2} \(10\.77\.0\.{agent // 2 + 1}\) cannot be reached",
                            since)

    def test_beside_the_leader(self):
        self.killed(1)

    def test_on_another_host(self):
        self.killed(2)

    def test_with_servers(self):
        self.killed(3, "ps")

    def test_an_agent_that_stands_still(self):
        self.run_begins()
        since = time.monotonic()
        self.processes[2].send_signal(signal.SIGSTOP)
        finish(self.processes[:1], LONGEST + 5)
        took = time.monotonic() - since
        self.processes[2].send_signal(signal.SIGCONT)
        self.assertLess(took, LONGEST)
        rows = self.comparison.rows()
        self.assertRegex(rows[-1]["error"], r"rank 2 \(worker\) on host1 is lost: agent 2 on host1")
        finish(self.processes[1:], 10)
        self.assertEqual(left_on(self.stage), [])

    def test_leader(self):
        self.run_begins()
        since = time.monotonic()
        self.processes[0].kill()
        printed = self.all_end("", since, leader=None)
        for agent in (1, 2, 3):
            self.assertRegex(printed[agent], r"the leader at 10\.77\.0\.1:29500 has ended or cannot be reached")

    def test_leader_while_agents_are_awaited(self):
        self.begin()
        self.start(agents=(0, 1, 2))
        self.wait_for_joined(1, 2)
        since = time.monotonic()
        self.processes[0].kill()
        self.all_end("", since, leader=None)

    def test_agent_while_others_are_awaited(self):
        self.begin(more=("--join-timeout", "9"))
        self.start(agents=(0, 1, 2))
        self.wait_for_joined(1, 2)
        since = time.monotonic()
        self.processes[1].kill()
        self.all_end(r"agent 1 on host0 \(10\.77\.0\.1\) has ended before the job began", since)


class StandingStill(Failing):
    """A process that is stopped says nothing, although its system keeps its connections."""

    def stopped(self, agent, others, cause):
        """Stops an agent; `others` then end with a line that matches `cause`, and it ends once it goes on."""
        since = time.monotonic()
        self.processes[agent].send_signal(signal.SIGSTOP)
        printed, statuses = finish([self.processes[other] for other in others], LONGEST + 5)
        took = time.monotonic() - since
        self.processes[agent].send_signal(signal.SIGCONT)
        finish([process for process in self.processes if process.poll() is None], 10)
        self.assertLess(took, LONGEST, printed)
        for text, status in zip(printed, statuses):
            self.assertRegex(text, cause)
            self.assertNotEqual(status, 0)
        self.assertEqual(left_on(self.stage), [])

    def test_an_agent_that_has_joined(self):
        self.begin()
        self.start(agents=(0, 1, 2))
        self.wait_for_joined(1, 2)
        self.stopped(2, (0, 1), r"agent 2 on host1 \(10\.77\.0\.2\) stands still: it has said nothing for 5 s")

    def test_the_leader_while_agents_are_awaited(self):
        self.begin()
        self.start(agents=(0, 1, 2))
        self.wait_for_joined(1, 2)
        self.stopped(0, (1, 2), r"the leader at 10\.77\.0\.1:29500 stands still: it has said nothing for 5 s")

    def test_the_leader_during_a_run(self):
        self.run_begins()
        self.stopped(0, (1, 2, 3), r"the leader at 10\.77\.0\.1:29500 stands still: it has said nothing for 5 s")

    def test_an_agent_without_ranks(self):
        self.run_begins(world=2)
        idle = next(agent for agent in (1, 2, 3) if not self.ranks_of(agent))
        self.stopped(idle, (0,), rf"agent {idle} on host\d .* cannot be reached any more")


class Strangers(Failing):
    """Two thousand connections that are opened again as soon as they are cut, by another user of the leader's host."""

    agents = 2
    crowd = """
import os, select, socket
os.setuid(65534)
def connected():
    made = socket.socket()
    made.setblocking(False)
    made.connect_ex(("10.77.0.1", 29500))
    return made
idle, ends = {}, select.poll()
print("here", flush=True)
while True:
    while len(idle) < 2000:
        one = connected()
        idle[one.fileno()] = one
        ends.register(one, select.POLLIN)
    for number, _ in ends.poll(50):
        try:
            ended = not idle[number].recv(4096)
        except OSError:
            ended = True
        if ended:
            ends.unregister(number)
            idle.pop(number).close()
"""

    def test_keep_no_agent_out(self):
        self.begin(world=2, more=("--set", "train.steps=4"))
        words = self.comparison.words
        self.comparison.words = lambda *more: ["prlimit", "--nofile=1024", *words(*more)]
        self.processes = [self.comparison.start_agent(0, *self.more)]
        crowd = self.stage.host(0).start(["prlimit", "--nofile=4096", sys.executable, "-c", self.crowd],
                                         stdout=subprocess.PIPE, text=True)
        self.assertEqual(crowd.stdout.readline(), "here\n")
        time_to_fill = time.monotonic() + 2
        wait_until(lambda: time.monotonic() > time_to_fill, "the crowd")
        self.processes.append(self.comparison.start_agent(1, *self.more))
        printed, statuses = finish(self.processes, 60)
        self.assertIsNone(crowd.poll(), "the crowd is still there")
        crowd.kill()
        crowd.communicate()
        self.assertEqual(statuses, [0, 0], "\n".join(printed))
        said = [line for line in printed[0].splitlines() if "no key of this job" in line]
        self.assertIn("ringside: a connection is dropped: it has shown no key of this job", said)
        self.assertLess(len(said), 5, "\n".join(said))
        self.assertEqual(left_on(self.stage), [])


class Links(Failing):
    lost = r"agents? .*on host1 \(10\.77\.0\.2\).* cannot be reached any more"

    def cut(self, scheme, how):
        self.run_begins(scheme)
        since = time.monotonic()
        how(self.stage)
        self.all_end(self.lost, since)

    def test_down_under_ddp(self):
        self.cut("ddp", lambda stage: stage.host(1).link_down())

    def test_down_under_ps(self):
        self.cut("ps", lambda stage: stage.host(1).link_down())

    def test_down_at_the_leader(self):
        self.cut("ddp", lambda stage: stage.host(0).link_down())

    def test_cut_under_ddp(self):
        self.cut("ddp", lambda stage: stage.cut(1))

    def test_cut_under_fsdp(self):
        self.cut("fsdp", lambda stage: stage.cut(1))

    def test_cut_under_dp(self):
        self.cut("dp", lambda stage: stage.cut(1))

    def test_cut_before_the_job(self):
        self.begin(more=("--join-timeout", "4"))
        self.stage.cut(1)
        since = time.monotonic()
        self.start()
        self.all_end(r"agents 2, 3 of 4 did not come to 10\.77\.0\.1:29500 within 4 s", since)


class LostHosts(Failing):
    def lost(self, scheme):
        self.run_begins(scheme)
        since = time.monotonic()
        self.stage.host(1).lose()
        self.all_end(Links.lost, since)

    def test_under_ddp(self):
        self.lost("ddp")

    def test_under_zero2(self):
        self.lost("zero2")

    def test_under_ps(self):
        self.lost("ps")


class WhatDoesNotFit(Failing):
    def refused(self, cause, agents=(0, 1, 2, 3), odd=None, odd_more=(), **options):
        """`odd` is an agent that is started with other options."""
        since = time.monotonic()
        self.processes = []
        for agent in agents:
            more = [*self.more, *(odd_more if agent == odd else ())]
            self.processes.append(self.comparison.start_agent(agent, *more, **(options if agent == odd else {})))
        return self.all_end(cause, since)

    def test_another_build(self):
        self.begin()
        other = self.stage.folder / "other"
        other.mkdir()
        for file in pathlib.Path(program()).parent.glob("libringside_*.so"):
            shutil.copy(file, other)
        shutil.copy(program(), other / "ringside")
        with open(other / "ringside", "ab") as file:
            file.write(b"another build")
        words = self.comparison.words
        self.comparison.words = lambda *more: [self.stage.shared / "other" / "ringside", *words(*more)[1:]]
        odd = self.comparison.start_agent(2)
        self.comparison.words = words
        since = time.monotonic()
        self.processes = [self.comparison.start_agent(agent) for agent in (0, 1, 3)] + [odd]
        self.all_end(r"agent 2 on host1 .* has the program with hash [0-9a-f]{32}, but agent 0 .* has [0-9a-f]{32}",
                     since)

    def test_other_settings(self):
        self.begin()
        self.refused(r"agent 3 on host1 .* has experiment and settings with hash", odd=3,
                     odd_more=("--set", "train.lr=1"))

    def test_another_experiment_file(self):
        self.begin()
        words = self.comparison.words
        shutil.copy(self.stage.folder / "trial.toml", self.stage.folder / "other.toml")
        with open(self.stage.folder / "other.toml", "a") as file:
            file.write("# one line more\n")
        odd = [word if str(word) != str(self.stage.shared / "trial.toml") else self.stage.shared / "other.toml"
               for word in words()]
        self.comparison.words = lambda *more: odd
        last = self.comparison.start_agent(3)
        self.comparison.words = words
        since = time.monotonic()
        self.processes = [self.comparison.start_agent(agent) for agent in (0, 1, 2)] + [last]
        self.all_end(r"agent 3 on host1 .* has experiment and settings with hash", since)

    def other_data(self, text):
        """The text of host1 differs from that of host0: each has it in a folder of its own."""
        self.begin()
        experiment = self.stage.folder / "trial.toml"
        experiment.write_text(experiment.read_text().replace('"text.txt"', '"/tmp/text.txt"'))
        for index, words in enumerate(("the same words " * 300, text)):
            if words is not None:
                self.stage.host(index).path("/tmp/text.txt").write_text(words)
        self.start()

    def clean_data(self):
        for host in self.stage.hosts:
            host.path("/tmp/text.txt").unlink(missing_ok=True)

    def data_refused(self, cause, text):
        since = time.monotonic()
        self.other_data(text)
        printed, statuses = finish(self.processes, LONGEST)
        self.clean_data()
        self.assertRegex(printed[0], cause)
        self.assertNotEqual(statuses[0], 0)
        self.assertLess(time.monotonic() - since, LONGEST)
        self.assertEqual(left_on(self.stage), [])

    def test_other_data(self):
        self.data_refused(r"agent 2 on host1 .* reads data with digest [0-9a-f]{32}, but agent 0", "other words " * 375)

    def test_missing_data(self):
        self.data_refused(r"agent 2 on host1 .*: .*/tmp/text\.txt", None)

    def test_a_rank_that_does_not_come(self):
        self.begin(more=("--join-timeout", "4"))
        self.refused(r"agents 3 of 4 did not come to 10\.77\.0\.1:29500 within 4 s \(--join-timeout\); those that are "
                     r"here: host0 10\.77\.0\.1: agents 0 \(leads\), 1; host1 10\.77\.0\.2: agents 2", agents=(0, 1, 2))

    def test_a_rank_that_comes_twice(self):
        self.begin()
        self.refused(r"have the same number", agents=(0, 1, 2, 2))

    def test_another_number_of_processes(self):
        self.begin()
        self.refused(r"agent 3 on host1 .* has a job of processes: 5, but agent 0 .* has 4", odd=3,
                     env={"WORLD_SIZE": 5})

    def test_port_taken(self):
        self.begin()
        listener = "import socket,sys; s = socket.create_server(('10.77.0.1', 29500)); print('here', flush=True); " \
                   "sys.stdin.read()"
        other = self.stage.host(0).start([sys.executable, "-c", listener], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True)
        self.assertEqual(other.stdout.readline(), "here\n")
        since = time.monotonic()
        self.processes = [self.comparison.start_agent(0)]
        printed, statuses = finish(self.processes, LONGEST)
        other.communicate()
        self.assertRegex(printed[0], r"the leader of the job \(agent 0\): cannot listen on port 29500 of 10\.77\.0\.1 .*; "
                                     "set MASTER_PORT to another port for all processes$")
        self.assertNotEqual(statuses[0], 0)
        self.assertLess(time.monotonic() - since, LONGEST)

    def test_a_name_that_does_not_resolve(self):
        self.begin()
        since = time.monotonic()
        self.start(env={"MASTER_ADDR": "nowhere"})
        printed = self.all_end(r"MASTER_ADDR = nowhere: no IPv4 address is known for this name", since)
        for text in printed:
            self.assertIn("MASTER_ADDR = nowhere", text)

    def test_the_leader_is_elsewhere(self):
        self.begin()
        since = time.monotonic()
        self.start(agents=(0,), env={"MASTER_ADDR": "host1"})
        self.all_end(r"the leader of the job \(agent 0\) is to listen at 10\.77\.0\.2 \(MASTER_ADDR\), which is no address of its host",
                     since)

    def test_keys_of_another_job(self):
        self.begin(more=("--join-timeout", "5"))
        self.stage.host(0).run([program(), "keys", self.stage.shared / "others", "--workers", "16"])
        printed = self.refused(r"agents 3 of 4 did not come|refus", odd=3,
                               odd_more=("--keys", self.stage.shared / "others"))
        self.assertIn("key", printed[3])

    def test_no_keys_at_an_agent(self):
        self.begin(more=("--join-timeout", "4"))
        words = self.comparison.words
        plain = [word for word in words("--join-timeout", "4")]
        at = plain.index("--keys")
        self.comparison.words = lambda *more: plain[:at] + plain[at + 2:]
        odd = self.comparison.start_agent(3)
        self.comparison.words = words
        since = time.monotonic()
        self.processes = [self.comparison.start_agent(agent, *self.more) for agent in (0, 1, 2)] + [odd]
        printed = self.all_end(r"agents 3 of 4 did not come", since)
        self.assertRegex(printed[3], r"hosts trust each other by keys alone: make some with `ringside keys DIR")

    def test_no_keys_on_the_host_of_the_leader(self):
        self.begin(more=("--join-timeout", "4"))
        words = self.comparison.words
        plain = words("--join-timeout", "4")
        at = plain.index("--keys")
        self.comparison.words = lambda *more: plain[:at] + plain[at + 2:]
        odd = self.comparison.start_agent(1, env={"MASTER_ADDR": "127.0.0.1"})
        self.comparison.words = words
        since = time.monotonic()
        self.processes = [self.comparison.start_agent(0, *self.more, env={"MASTER_ADDR": "127.0.0.1"}), odd]
        printed = self.all_end(r"agents 1, 2, 3 of 4 did not come .*; 1 connections? of others w(as|ere) refused", since)
        self.assertRegex(printed[1], r"or ended the connection, as a leader with keys does: start all processes of "
                                     r"the job with --keys DIR, or none")

    def test_more_workers_than_slots(self):
        self.begin(world=8)
        self.refused(r"run ddp-w8-r0: 8 workers do not fit into the 4 slots of this job \(host0 2, host1 2\)")

    @unittest.skipIf(pathlib.Path("/proc/driver/nvidia").exists(), "this machine may have GPUs")
    def test_ranks_without_gpus(self):
        self.begin(more=("--set", "device.kind=cuda", "--set", "device.slow=[]"))
        self.refused(r"run \S+: rank 0 cannot be on host host0: device\.kind = 'cuda': ")

    def test_servers_without_a_host_of_their_own(self):
        self.begin("ps", more=("--set", "hosts.servers=apart"))
        self.refused(r"hosts\.servers = 'apart' needs a host without workers")

    def test_a_transport_of_one_host(self):
        self.begin("ps", more=("--set", "scheme.ps.transport=ipc"))
        self.refused(r"transport 'ipc' reaches ranks of one host alone")


class Interrupted(Failing):
    def interrupted(self, number, agents=(0,)):
        self.run_begins()
        since = time.monotonic()
        for agent in agents:
            self.processes[agent].send_signal(number)
        self.all_end(r"interrupted; go on with the same command and --resume", since)

    def test_at_the_leader(self):
        self.interrupted(signal.SIGINT)

    def test_by_a_scheduler(self):
        self.interrupted(signal.SIGTERM)

    def test_everywhere_at_once(self):
        self.interrupted(signal.SIGINT, (3, 2, 1, 0))


class BySsh(Failing):
    def launch(self, hosts, cause, server=True, words=None):
        self.begin()
        if server:
            Sshd(self.stage)
        plain = self.comparison.words()
        at = plain.index("--keys")
        since = time.monotonic()
        self.processes = [self.stage.host(0).start(
            [plain[0], "launch", "--hosts", hosts, *plain[2:at], *plain[at + 2:], *(words or ())], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)]
        self.all_end(cause, since)

    def test_a_host_without_a_name(self):
        self.launch("host0:2,nowhere:2", r"host nowhere: ssh ended with exit code 255: .*nowhere")

    def test_a_host_without_a_server(self):
        self.launch("host0:2,host1:2", r"host host[01]: ssh ended with exit code 255: ", server=False)

    def test_what_an_agent_says_is_shown(self):
        self.begin()
        Sshd(self.stage)
        plain = self.comparison.words()
        at = plain.index("--keys")
        self.processes = [self.stage.host(0).start(
            [plain[0], "launch", "--hosts", "host0:2,host1:2", *plain[2:at], *plain[at + 2:]], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)]
        wait_until(lambda: self.steps() > 0, "the first steps", timeout=30)
        agent = next(process for process in self.stage.host(1).processes() if process.words[1:2] == ["compare"])
        os.kill(agent.number, signal.SIGTERM)
        self.all_end(r"ringside: agent 2: interrupted")

    def test_a_program_that_is_not_there(self):
        self.launch("host0:2", r"'no-such-ssh', which starts agents on other hosts, is no program in PATH",
                    words=("--ssh", "no-such-ssh"))


if __name__ == "__main__":
    main()
