"""A comparison on two hosts by every launcher: the bits of one host, one table, and nothing left."""

import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from hosts import Slurm, Sshd, Stage, main  # noqa: E402
from hosts.comparisons import Comparison, finish, hashes, left_on, program  # noqa: E402


class Launchers(unittest.TestCase):
    def setUp(self):
        self.stage = self.enterContext(Stage(hosts=2))
        self.comparison = Comparison(self.stage, program(), agents=4)
        self.stage.host(0).run(self.comparison.words(name="alone"), timeout=120)

    def launched(self, words, name="results", env=None, host=0):
        """Runs the words, and looks at the results and at what is left."""
        done = self.stage.host(host).run(words, env=env, check=False, timeout=120)
        self.check(done.stdout + done.stderr, [done.returncode], name)
        return done

    def check(self, printed, statuses, name="results"):
        self.assertEqual(set(statuses), {0}, printed)
        rows = self.comparison.rows(name)
        self.assertEqual({row["status"] for row in rows}, {"ok"}, [row["error"] for row in rows])
        self.assertEqual(hashes(rows), hashes(self.comparison.rows("alone")))
        for case in self.comparison.summary(name)["cases"]:
            self.assertIn(case["proof"], ("reference", "bit-identical to single"), case)
        spread = [row for row in rows if row["world"] > 1]
        self.assertTrue(spread)
        for row in spread:
            self.assertEqual({home["host"] for home in row["homes"]}, {"host0", "host1"}, row["run"])
        self.assertEqual(left_on(self.stage), [])

    def test_by_hand(self):
        printed, statuses = self.comparison.by_hand()
        self.check("\n".join(printed), statuses)
        self.assertIn("host0 10.77.0.1: agents 0 (leads), 1; host1 10.77.0.2: agents 2, 3", printed[0])

    def test_torchrun_keeps_its_own_port(self):
        """torchrun's store listens on MASTER_PORT while its processes run."""
        listener = "import socket,sys; s = socket.create_server(('10.77.0.1', 29500)); print('here', flush=True); " \
                   "sys.stdin.read()"
        store = self.stage.host(0).start([sys.executable, "-c", listener], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True)
        self.assertEqual(store.stdout.readline(), "here\n")
        variables = {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "none"}
        printed, statuses = self.comparison.by_hand(env=variables)
        store.communicate()
        self.check("\n".join(printed), statuses)

    @unittest.skipUnless(shutil.which("mpirun.openmpi"), "there is no `mpirun.openmpi`; install openmpi-bin")
    def test_mpirun_of_open_mpi(self):
        Sshd(self.stage)
        self.launched(["mpirun.openmpi", "--host", "host0:2,host1:2", "-n", "4", *self.comparison.words()],
                      env=self.stage.mpi_environment("openmpi"))

    @unittest.skipUnless(shutil.which("mpiexec.mpich"), "there is no `mpiexec.mpich`; install mpich")
    def test_mpiexec_of_mpich(self):
        Sshd(self.stage)
        self.launched(["mpiexec.mpich", "-hosts", "host0:2,host1:2", "-n", "4", "-genv", "MASTER_ADDR", "10.77.0.1",
                       *self.comparison.words()], env=self.stage.mpi_environment("mpich"))

    def test_srun(self):
        Sshd(self.stage)
        Slurm(self.stage)
        self.launched(["srun", "-N2", "-n4", "--ntasks-per-node=2", "--mpi=none", *self.comparison.words()])

    def test_ssh(self):
        Sshd(self.stage)
        words = self.comparison.words()
        keys = words.index("--keys")
        self.launched([words[0], "launch", "--hosts", "host0:2,host1:2", *words[2:keys], *words[keys + 2:]])

    def test_one_process_a_host(self):
        """The operator of Kubernetes starts a process a host, which starts several ranks."""
        processes = []
        self.comparison.agents = 2
        for agent in range(2):
            processes.append(self.comparison.start_agent(agent, env={
                "RANK": None, "WORLD_SIZE": None, "MASTER_ADDR": None, "MASTER_PORT": None, "PET_NODE_RANK": agent,
                "PET_NNODES": 2, "PET_NPROC_PER_NODE": 2, "PET_MASTER_ADDR": "host0", "PET_MASTER_PORT": 23456}))
        printed, statuses = finish(processes)
        self.check("\n".join(printed), statuses)


class OtherHosts(unittest.TestCase):
    def setUp(self):
        self.stage = self.enterContext(Stage(hosts=3))
        self.comparison = Comparison(self.stage, program(), agents=2, schemes=("ddp", "ps"))

    def by_hand(self, hosts, *more):
        env = {"MASTER_ADDR": f"host{hosts[0]}"}
        return finish([self.comparison.start_agent(agent, *more, env=env, host=self.stage.host(host))
                       for agent, host in enumerate(hosts)])

    def test_a_comparison_goes_on(self):
        printed, statuses = self.by_hand((0, 1), "--schemes", "ddp")
        self.assertEqual(statuses, [0, 0], printed)
        printed, statuses = self.by_hand((1, 2), "--resume")
        self.assertEqual(statuses, [0, 0], printed)
        self.assertRegex(printed[0], r"\b2 of 3 runs have been made already")
        homes = {row["scheme"]: [home["host"] for home in row["homes"][:2]] for row in self.comparison.rows()}
        self.assertEqual(homes["ddp"], ["host0", "host1"])
        self.assertEqual(homes["ps"], ["host1", "host2"])

    def test_hosts_that_are_shared_otherwise_are_refused(self):
        printed, statuses = self.by_hand((0, 1))
        self.assertEqual(statuses, [0, 0], printed)
        printed, statuses = self.by_hand((2, 2), "--resume")
        self.assertNotEqual(statuses[0], 0)
        self.assertRegex(printed[0], "was made with its ranks on hosts 1, 2.*, but now they would be on hosts 1, 1")


if __name__ == "__main__":
    main()
