"""Stages: what hosts see of each other, what their links do, ssh, MPI and Slurm, and that nothing is left."""

import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from hosts import Failed, Slurm, Sshd, Stage, main, wait_until  # noqa: E402

TESTS = pathlib.Path(__file__).resolve().parents[1]
PORT = 7000
# Prints what each connection's other side sends, and how a connection ends.
LISTENER = f"""
import socket
with socket.create_server(("", {PORT})) as listener:
    connection, _ = listener.accept()
    try:
        while data := connection.recv(1 << 16):
            print(data.decode(), end="", flush=True)
        print("ended", flush=True)
    except OSError as error:
        print(error.strerror, flush=True)
"""
TALKER = f"""
import socket, sys
with socket.create_connection(("host0", {PORT})) as connection:
    for line in sys.stdin:
        connection.sendall(line.encode())
"""
# Prints bits a second of payload, but for what a burst lets through.
RECEIVER = f"""
import socket, time
with socket.create_server(("", {PORT})) as listener:
    connection, _ = listener.accept()
    buffer, burst, got = bytearray(1 << 16), 1 << 19, 0
    while burst > 0:
        burst -= connection.recv_into(buffer)
    begin = time.monotonic()
    while count := connection.recv_into(buffer):
        got += count
    print(8 * got / (time.monotonic() - begin))
"""
SENDER = f"""
import socket
with socket.create_connection(("host0", {PORT})) as connection:
    connection.sendall(bytes(3 << 19))
"""
# Tells the processes that hold the namespaces, and waits with all that a stage can have.
ON_STAGE = f"""
import pathlib, sys, time
sys.path.insert(0, {str(TESTS)!r})
from hosts import Slurm, Sshd, Stage
with Stage(2) as stage:
    if sys.argv[1:] == ["all"]:
        Sshd(stage)
        Slurm(stage)
        stage.host(0).start(["srun", "-N2", "sleep", "1000"])
    stage.host(1).run(["bash", "-c", "touch /tmp/a /dev/shm/b; setsid sleep 1000 >/dev/null 2>&1 &"])
    print(stage.namespace.holder, *(host.holder for host in stage.hosts), flush=True)
    if sys.argv[1:] == ["raise"]:
        sys.stdin.readline()
        raise ValueError
    time.sleep(1000)
"""
CODE_ON_STAGE = [sys.executable, "-B", "-c", ON_STAGE]


def output(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def listed(folder):
    return sorted((path.name, path.lstat().st_mtime_ns) for path in folder.iterdir()) if folder.is_dir() else None


def machine():
    """The parts of the machine that a careless stage would change."""
    etc, home = pathlib.Path("/etc"), pathlib.Path.home()
    return {
        "network": output("ip", "-brief", "address") + output("ip", "route") + output("tc", "qdisc"),
        "name": os.uname().nodename,
        "mounts": [line for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
                   if "/netns/" not in line],  # of tests that have namespaces with names
        "etc": [(etc / name).read_text() for name in ("hosts", "nsswitch.conf", "resolv.conf")],
        "folders": [listed(folder) for folder in (etc / "ssh", etc / "slurm", etc / "munge", home / ".ssh")],
        "names": [sorted(path.name for path in folder.iterdir()) for folder in (etc, home, pathlib.Path("/run"))],
        "left": [path for pattern in ("ompi*", "hydra*", "slurm*", "munge*")
                 for folder in ("/tmp", "/var/tmp", "/dev/shm") for path in pathlib.Path(folder).glob(pattern)],
    }


def namespaces(holders):
    return {os.readlink(f"/proc/{holder}/ns/{kind}") for holder in holders
            for kind in ("mnt", "uts", "ipc", "net", "pid")}


def within(some):
    """The processes that live in some namespaces."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if some & {os.readlink(path) for path in (folder / "ns").iterdir()}:
                found.append(folder.name)
        except OSError:  # it has ended meanwhile
            pass
    return found


class StageTest(unittest.TestCase):
    def on_stage(self, hosts):
        stage = Stage(hosts)
        self.enterContext(stage)
        return stage

    def talk(self, stage):
        """host1 sends host0 lines."""
        listener = stage.host(0).start([sys.executable, "-c", LISTENER], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL)  # for the end, when it has no reader
        self.addCleanup(listener.stdout.close)
        wait_until(lambda: PORT in stage.host(0).listening(), "the listener")
        talker = stage.host(1).start([sys.executable, "-c", TALKER], stdin=subprocess.PIPE)
        self.addCleanup(talker.stdin.close)
        return listener, talker

    def say(self, talker, text):
        talker.stdin.write(text.encode() + b"\n")
        talker.stdin.flush()

    def heard(self, listener, timeout=10):
        if select.select([listener.stdout], [], [], timeout)[0]:
            return listener.stdout.readline().decode().strip()
        return None

    def rate(self, stage):
        receiver = stage.host(0).start([sys.executable, "-c", RECEIVER], stdout=subprocess.PIPE, text=True)
        wait_until(lambda: PORT in stage.host(0).listening(), "the receiver")
        stage.host(1).run([sys.executable, "-c", SENDER])
        return float(receiver.communicate(timeout=30)[0])


class Hosts(StageTest):
    def test_hosts_have_names_and_see_each_other_alone(self):
        stage = self.on_stage(3)
        for host in stage.hosts:
            self.assertEqual(host.run(["hostname"]).stdout, f"{host.name}\n")
            for other in stage.hosts:
                found = host.run(["getent", "ahostsv4", other.name]).stdout
                self.assertEqual(found.split()[0], other.address)
        self.assertNotEqual(stage.host(0).run(["getent", "hosts", "host3"], check=False).returncode, 0)
        self.assertNotEqual(stage.host(0).run(["getent", "hosts", os.uname().nodename], check=False).returncode, 0)
        self.assertEqual(stage.host(1).run(["ls", "/sys/class/net"]).stdout.split(), ["eth0", "lo"])
        routes = stage.host(1).run(["ip", "route"]).stdout.splitlines()
        self.assertEqual([line.split()[0] for line in routes], ["10.77.0.0/24"])
        listener, talker = self.talk(stage)
        self.say(talker, "word")
        self.assertEqual(self.heard(listener), "word")

    def test_stages_at_the_same_time_do_not_meet(self):
        first, second = self.on_stage(2), self.on_stage(2)
        self.assertFalse(namespaces([host.holder for host in first.hosts])
                         & namespaces([host.holder for host in second.hosts]))
        _, talker = self.talk(first)
        refused = second.host(1).run([sys.executable, "-c", TALKER], check=False)
        self.assertIn("refused", refused.stderr)
        self.assertIsNone(talker.poll())

    def test_what_is_started_is_as_if_started_here(self):
        stage = self.on_stage(1)
        host = stage.host(0)
        os.environ["STAGE_TEST"] = "here"
        self.addCleanup(os.environ.pop, "STAGE_TEST")
        words = ["bash", "-c", "pwd; echo $STAGE_TEST $MORE; cat; exit 3"]
        done = host.run(words, cwd="/run", env={"MORE": 1}, input="given", check=False)
        self.assertEqual((done.returncode, done.stdout), (3, "/run\nhere 1\ngiven"))
        self.assertEqual(host.run(words, env={"STAGE_TEST": None}, check=False).stdout, "/tmp\n\n")
        with self.assertRaisesRegex(Failed, "ended with 3"):
            host.run(words)
        with self.assertRaisesRegex(Failed, "did not end"):
            host.run(["sleep", "1000"], timeout=0.1)
        with self.assertRaises(FileNotFoundError):
            host.run(["no-such-program"])
        self.assertEqual(host.processes(), [])
        started = host.start(["sleep", "1000"])
        self.assertEqual([(process.number, process.words) for process in host.processes()],
                         [(started.pid, ["sleep", "1000"])])
        started.terminate()
        self.assertEqual(started.wait(timeout=10), -signal.SIGTERM)
        self.assertEqual(host.processes(), [])

    def test_lists_what_is_left_on_a_host(self):
        stage = self.on_stage(2)
        host = stage.host(1)
        host.run(["bash", "-c", "mkdir /tmp/a; touch /tmp/a/b /dev/shm/c; setsid sleep 1000 >/dev/null 2>&1 &"])
        host.run([sys.executable, "-c", "import socket; socket.socket(socket.AF_UNIX).bind('/tmp/d')"])
        self.assertEqual(host.files(), ["/tmp/a", "/tmp/a/b", "/tmp/d", "/dev/shm/c"])
        self.assertEqual(host.sockets(), ["/tmp/d"])
        wait_until(lambda: [process.words for process in host.processes()] == [["sleep", "1000"]], "sleep alone")
        self.assertEqual((stage.host(0).files(), stage.host(0).processes()), ([], []))
        self.assertFalse(pathlib.Path("/dev/shm/c").exists())


    def test_the_machines_files_are_only_to_read(self):
        with tempfile.TemporaryDirectory() as folder:
            stage = Stage(2, written=[folder])
            self.enterContext(stage)
            for path in ("/etc/hostnames", TESTS / "file", pathlib.Path.home() / "file"):
                done = stage.host(0).run(["touch", path], check=False)
                self.assertIn("Read-only", done.stderr)
            stage.host(0).run(["touch", f"{folder}/a", stage.shared / "b"])
            self.assertEqual(os.listdir(folder), ["a"])
            self.assertTrue((stage.folder / "b").exists())
            self.assertEqual(stage.host(1).run(["ls", stage.shared / "b"]).stdout, "/run/stage/b\n")
            self.assertEqual(stage.host(0).files(), [])
            self.assertEqual(stage.host(0).run(["bash", "-c", "echo ~; ls -A ~"]).stdout, "/run/stage/home\n")


class Links(StageTest):
    def test_a_shaped_link_has_its_rate(self):
        stage = self.on_stage(2)
        self.assertGreater(self.rate(stage), 60e6)
        stage.shape(mbit=20)
        self.assertLess(abs(self.rate(stage) / 20e6 - 1), 0.15)
        stage.shape(mbit=None)
        self.assertGreater(self.rate(stage), 60e6)

    def test_a_host_sees_that_its_link_is_down(self):
        stage = self.on_stage(2)
        host = stage.host(1)
        host.link_down()
        self.assertIn("unreachable", host.run([sys.executable, "-c", TALKER], check=False).stderr)
        host.link_up()
        listener, talker = self.talk(stage)
        self.say(talker, "word")
        self.assertEqual(self.heard(listener), "word")

    def test_a_cut_is_not_reported(self):
        stage = self.on_stage(2)
        listener, talker = self.talk(stage)
        self.say(talker, "before")
        self.assertEqual(self.heard(listener), "before")
        stage.cut(1)
        self.say(talker, "while")
        self.assertIsNone(self.heard(listener, 0.3))
        self.assertIsNone(talker.poll())
        stage.mend(1)
        self.assertEqual(self.heard(listener), "while")

    def test_a_lost_host_is_silent(self):
        stage = self.on_stage(3)
        listener, talker = self.talk(stage)
        self.say(talker, "before")
        self.assertEqual(self.heard(listener), "before")
        stage.host(1).lose()
        self.assertEqual(talker.returncode, -signal.SIGKILL)
        self.assertIsNone(self.heard(listener, 0.3))
        self.assertEqual(stage.host(1).processes(), [])
        with self.assertRaisesRegex(Failed, "host1 is lost"):
            stage.host(1).run(["true"])
        stage.shape(mbit=100)
        stage.host(2).run(["getent", "hosts", "host1"])


class Launchers(StageTest):
    def ranks(self, host, *words, **more):
        return sorted(host.run(words, **more).stdout.split())

    def test_ssh_reaches_hosts_without_questions(self):
        stage = self.on_stage(3)
        Sshd(stage)
        self.assertEqual(stage.host(0).run(["ssh", "host1", "hostname; pwd"]).stdout, "host1\n/run/stage/home\n")
        self.assertEqual(stage.host(1).run(["ssh", "host2", "ssh", "10.77.0.1", "hostname"]).stdout, "host0\n")

    def test_both_mpis_start_ranks_over_ssh(self):
        stage = self.on_stage(2)
        Sshd(stage)
        for mpi, words in {"openmpi": ["mpirun.openmpi", "--host", "host0:2,host1:2"],
                           "mpich": ["mpiexec.mpich", "-hosts", "host0:2,host1:2"]}.items():
            with self.subTest(mpi):
                if subprocess.run(["which", words[0]], capture_output=True).returncode != 0:
                    self.skipTest(f"there is no {words[0]}")
                self.assertEqual(self.ranks(stage.host(0), *words, "hostname", env=stage.mpi_environment(mpi)),
                                 ["host0", "host0", "host1", "host1"])
                for host in stage.hosts:
                    wait_until(lambda: not host.processes(), f"the end of what {mpi} started in {host.name}")
                    self.assertEqual(host.files(), [])

    def test_slurm_runs_steps_and_scripts(self):
        stage = self.on_stage(2)
        Slurm(stage)
        self.assertEqual(self.ranks(stage.host(0), "srun", "-N2", "-n4", "--ntasks-per-node=2", "hostname"),
                         ["host0", "host0", "host1", "host1"])
        self.assertEqual(self.ranks(stage.host(1), "srun", "-N2", "bash", "-c", "echo $(hostname)=$SLURM_PROCID"),
                         ["host0=0", "host1=1"])
        (stage.folder / "script").write_text("#!/bin/sh\n#SBATCH --nodes=2 --output=/run/stage/out\nsrun hostname\n")
        stage.host(0).run(["sbatch", stage.shared / "script"])
        wait_until(lambda: not stage.host(0).run(["squeue", "--noheader"]).stdout, "the end of the job")
        self.assertEqual(sorted((stage.folder / "out").read_text().split()), ["host0", "host1"])
        for host in stage.hosts:
            wait_until(lambda: not host.processes(), f"the end of what Slurm started in {host.name}")


class Afterwards(StageTest):
    def test_nothing_is_left(self):
        before = machine()
        for ending, part in ((signal.SIGKILL, "all"), (signal.SIGKILL, ""), (signal.SIGTERM, ""),
                             (signal.SIGINT, ""), (None, "raise")):
            with self.subTest(ending=ending, part=part):
                started = subprocess.Popen([*CODE_ON_STAGE, part], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE, text=True)
                self.enterContext(started)
                self.addCleanup(started.kill)
                holders = started.stdout.readline().split()
                if len(holders) != 3:
                    said = started.communicate()[1].strip()
                    if "Skip: " in said:  # what the whole stage needs is not installed
                        self.skipTest(said.split("Skip: ")[-1])
                    self.fail(said)
                some = namespaces(holders) - namespaces([os.getpid()])
                self.assertEqual(len(some), 15)
                self.assertGreaterEqual(len(within(some)), 4)
                if ending is None:
                    started.stdin.write("now\n")
                    started.stdin.flush()
                else:
                    started.send_signal(ending)
                started.wait(timeout=30)
                wait_until(lambda: not within(some), "the end of all processes of the stage")
                self.assertNotIn(f"ringside-{started.pid}-", output("ps", "-e", "-o", "args"))
                self.assertEqual(machine(), before)

    def test_says_what_is_refused(self):
        code = ("import os, sys; sys.argv[1:] = []; import unittest\n"
                f"sys.path.insert(0, {str(TESTS)!r})\n"
                "import hosts\n"
                "class Some(unittest.TestCase):\n"
                "    def test(self):\n"
                "        with hosts.Stage(1):\n"
                "            self.fail()\n"
                "os.setuid(65534)\n"
                "hosts.main()\n")
        self.on_stage(1)
        done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True)
        self.assertEqual(done.returncode, 77, done.stderr)


if __name__ == "__main__":
    main()
