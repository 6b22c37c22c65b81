"""A comparison on two, three and four hosts by every launcher: the bits of one host, one table, and nothing left."""

import json
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from hosts import Slurm, Sshd, Stage, main, wait_until  # noqa: E402
from hosts.comparisons import SCHEMES, Comparison, finish, hashes, left_on, program  # noqa: E402

with_open_mpi = unittest.skipUnless(shutil.which("mpirun.openmpi"), "there is no `mpirun.openmpi`; install openmpi-bin")
with_mpich = unittest.skipUnless(shutil.which("mpiexec.mpich"), "there is no `mpiexec.mpich`; install mpich")


class Launchers:
    """Every test runs on a stage of its own; the run on one host is made once for all."""

    hosts = None
    slots = 1  # of each host
    between = "gloo"
    schemes = SCHEMES

    @classmethod
    def compared(cls, stage):
        ranks = cls.hosts * cls.slots
        return Comparison(stage, program(), agents=ranks, schemes=cls.schemes, worlds=(ranks,), batch=4 * cls.hosts,
                          between=cls.between)

    @classmethod
    def setUpClass(cls):
        if not pathlib.Path(program()).with_name(f"libringside_{cls.between}.so").exists():
            raise unittest.SkipTest(f"this build has no module for {cls.between}")
        with Stage(hosts=1) as stage:
            alone = cls.compared(stage)
            stage.host(0).run(alone.words(), timeout=120)
            cls.alone = hashes(alone.rows())

    def setUp(self):
        self.stage = self.enterContext(Stage(hosts=self.hosts))
        self.comparison = self.compared(self.stage)
        self.slots_of_hosts = ",".join(f"{host.name}:{self.slots}" for host in self.stage.hosts)

    def launched(self, words, env=None):
        """Runs the words, and checks the results and that nothing is left."""
        done = self.stage.host(0).run(words, env=env, check=False, timeout=120)
        wait_until(lambda: not any(process.words[0].endswith("/ssh") for process in self.stage.host(0).processes()),
                   "the end of ssh, for which Open MPI does not wait")
        self.check(done.stdout + done.stderr, [done.returncode])

    def check(self, printed, statuses):
        self.assertEqual(set(statuses), {0}, printed)
        self.assertEqual(printed.count("\nResults: "), 1, printed)
        rows = self.comparison.rows()
        self.assertEqual({row["status"] for row in rows}, {"ok"}, [row["error"] for row in rows])
        self.assertEqual(hashes(rows), self.alone)
        for case in self.comparison.summary()["cases"]:
            self.assertIn(case["proof"], ("reference", "bit-identical to single"), case)
        spread = [row for row in rows if row["world"] > 1]
        self.assertTrue(spread)
        for row in spread:
            self.assertEqual({home["host"] for home in row["homes"]}, {host.name for host in self.stage.hosts},
                             row["run"])
        environment = self.stage.folder / "results" / "trial" / "environment.json"
        self.assertEqual(json.loads(environment.read_text())["hosts_differ"], {})
        self.assertEqual(left_on(self.stage), [])

    @with_open_mpi
    def test_mpirun_of_open_mpi(self):
        Sshd(self.stage)
        self.launched(["mpirun.openmpi", "--host", self.slots_of_hosts, *self.comparison.words()],
                      env=self.stage.mpi_environment("openmpi"))

    @with_mpich
    def test_mpiexec_of_mpich(self):
        Sshd(self.stage)
        self.launched(["mpiexec.mpich", "-hosts", self.slots_of_hosts, "-n", self.comparison.agents,
                       "-genv", "MASTER_ADDR", "10.77.0.1", *self.comparison.words()],
                      env=self.stage.mpi_environment("mpich"))

    def test_srun(self):
        Slurm(self.stage)
        self.launched(["srun", f"-N{self.hosts}", f"--ntasks-per-node={self.slots}", "--mpi=none",
                       *self.comparison.words()])

    def test_ssh(self):
        Sshd(self.stage)
        words = self.comparison.words()
        keys = words.index("--keys")
        self.launched([words[0], "launch", "--hosts", self.slots_of_hosts, *words[2:keys], *words[keys + 2:]])


class AllLaunchers(Launchers):
    """Also those of which a test can only set the variables."""

    def test_by_hand(self):
        printed, statuses = self.comparison.by_hand()
        self.check("\n".join(printed), statuses)
        self.assertIn(self.said, printed[0])

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

    def test_one_process_a_host(self):
        """The operator of Kubernetes starts a process a host, which starts the ranks of its slots."""
        self.comparison.agents = self.hosts
        processes = [self.comparison.start_agent(agent, env={
            "RANK": None, "WORLD_SIZE": None, "MASTER_ADDR": None, "MASTER_PORT": None, "PET_NODE_RANK": agent,
            "PET_NNODES": self.hosts, "PET_NPROC_PER_NODE": self.slots, "PET_MASTER_ADDR": "host0",
            "PET_MASTER_PORT": 23456}) for agent in range(self.hosts)]
        printed, statuses = finish(processes)
        self.check("\n".join(printed), statuses)


class TwoHosts(AllLaunchers, unittest.TestCase):
    hosts, slots = 2, 2
    said = "host0 10.77.0.1: agents 0 (leads), 1; host1 10.77.0.2: agents 2, 3"


class ThreeHosts(AllLaunchers, unittest.TestCase):
    hosts = 3
    said = "host0 10.77.0.1: agents 0 (leads); host1 10.77.0.2: agents 1; host2 10.77.0.3: agents 2"


class FourHosts(AllLaunchers, unittest.TestCase):
    hosts = 4
    said = "host0 10.77.0.1: agents 0 (leads); host1 10.77.0.2: agents 1; host2 10.77.0.3: agents 2; " \
           "host3 10.77.0.4: agents 3"


class OverMpi(Launchers):
    """The variables of the launcher that started the job do not reach the one that starts its ranks."""

    hosts, slots = 2, 2
    schemes = ("single", "ddp", "ps")


@with_open_mpi
class OverOpenMpi(OverMpi, unittest.TestCase):
    between = "openmpi"


@with_mpich
class OverMpich(OverMpi, unittest.TestCase):
    between = "mpich"


class SumsOfTheLibrary(unittest.TestCase):
    def check(self, between):
        if not pathlib.Path(program()).with_name(f"libringside_{between}.so").exists():
            self.skipTest(f"this build has no module for {between}")
        stage = self.enterContext(Stage(hosts=2))
        comparison = Comparison(stage, program(), agents=4, schemes=("single", "ddp"), worlds=(4,), between=between)
        printed, statuses = comparison.by_hand("--set", "scheme.ddp.algorithm=library")
        self.assertEqual(set(statuses), {0}, printed)
        proofs = {case["label"]: case["proof"] for case in comparison.summary()["cases"]}
        self.assertEqual(proofs.pop("ddp"), "to rounding")
        self.assertEqual(set(proofs.values()), {"reference"}, proofs)
        row = next(row for row in comparison.rows() if row["scheme"] == "ddp")
        self.assertTrue(row["unknown_order"])
        self.assertEqual(left_on(stage), [])

    def test_of_gloo(self):
        self.check("gloo")

    @with_open_mpi
    def test_of_open_mpi(self):
        self.check("openmpi")

    @with_mpich
    def test_of_mpich(self):
        self.check("mpich")


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
