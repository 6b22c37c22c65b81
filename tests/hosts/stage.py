"""Several hosts on this machine, as namespaces, which go away with the test that made them."""

import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys

from .host import Failed, HeldNamespace, Host, Skip, check_namespaces
from .keeper import HOLDS_SHARED
from .network import LARGEST_PACKET, Network

NET = "10.77.0."
SHARED = "/run/stage"
REPOSITORY = str(pathlib.Path(__file__).resolve().parents[2])
NUMBERS = itertools.count()
# Once there is an Sshd, both start programs on other hosts with `ssh`, which needs no settings here.
MPI = {
    "openmpi": {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},  # root runs the stage
    "mpich": {"HYDRA_LAUNCHER": "ssh"},
}


class Stage:
    """Hosts host0, host1, ... with addresses 10.77.0.1, ...; each has its own network, host name, /etc/hosts
    with the names of all, processes, and empty folders (keeper.FOLDERS). All other files are the machine's, and can
    only be read, but for the folders `written`. The home is an empty folder that hosts share.

    `shared` is a folder that all hosts have, and `folder` is where this process finds it. `environment` are
    variables of all that is started. The stage ends with the thread that began it, at the latest."""

    def __init__(self, hosts=3, written=()):
        self.count = hosts
        self.written = [str(pathlib.Path(folder).resolve()) for folder in written]
        self.seen = [REPOSITORY, sys.prefix, sys.base_prefix]
        self.name = f"ringside-{os.getpid()}-{next(NUMBERS)}"
        self.shared = pathlib.Path(SHARED)
        self.environment = {"HOME": f"{SHARED}/home"}
        self.hosts = []
        self.keeper = self.namespace = self.network = self.folder = None

    def __enter__(self):
        self.check()
        try:
            self.begin()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def check(self):
        if os.geteuid() != 0:
            raise Skip("namespaces need root")
        for tool in ("ip", "tc"):
            if not shutil.which(tool):
                raise Skip(f"there is no `{tool}`; install iproute2")
        if not hasattr(os, "pidfd_open"):
            raise Skip("this Python knows no process descriptors")
        check_namespaces()

    def begin(self):
        names = [f"host{i}" for i in range(self.count)]
        addresses = [f"{NET}{i + 1}" for i in range(self.count)]
        self.keeper = subprocess.Popen(
            [sys.executable, "-ISB", pathlib.Path(__file__).with_name("keeper.py"), self.name, str(os.getpid()),
             json.dumps({"shared": SHARED, "seen": self.seen, "written": self.written}),
             *map("=".join, zip(names, addresses))],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
        holders = {}
        with self.keeper.stdout as lines:
            for line in lines:
                told = json.loads(line)
                if "refused" in told:
                    raise Skip(f"namespaces are refused: {told['refused']}")
                holders[told["name"]] = told["process"]
        if len(holders) != 1 + self.count:
            raise Failed("the keeper of the stage ended")
        holder = holders["stage"]
        self.namespace = HeldNamespace(holder)
        self.folder = pathlib.Path(f"/proc/{holder}/root{HOLDS_SHARED}")
        self.hosts = [Host(self, i, names[i], addresses[i], holders[names[i]]) for i in range(self.count)]
        self.network = Network(holder, [host.holder for host in self.hosts], addresses)
        for host in self.hosts:
            # What TCP has learnt in one job would be where the next one starts.
            host.run(["sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1"])

    def host(self, index):
        return self.hosts[index]

    def shape(self, mbit, burst="128k", queue_ms=20, hosts=None, largest=LARGEST_PACKET):
        """Both directions of the links of all hosts, or of some by their numbers, carry `mbit` megabits of
        Ethernet frames a second; None takes that away. The system hands packets of up to `largest` bytes to a link:
        large ones cost little processor time, as with a network card that cuts them up."""
        if hosts is None:
            hosts = [host.index for host in self.hosts if host.here]
        self.network.shape(hosts, mbit, burst, queue_ms, largest)

    def cut(self, index):
        """Nothing reaches the host any more, and nothing leaves it; nobody is told, as when a switch fails
        behind the next one."""
        self.network.cut(index)

    def part(self, index, other):
        """Nothing goes between these two hosts any more; all others reach both."""
        self.network.part(index, other)

    def mend(self, index):
        self.network.mend(index)

    def mpi_environment(self, name):
        """The variables that `mpirun.openmpi` or `mpiexec.mpich` needs to start programs on the hosts."""
        return dict(MPI[name])

    def close(self):
        """Ends all that runs on the stage; with that, the system takes away all that it was made of."""
        started = [process for host in self.hosts for process in host.started]
        if self.namespace:
            self.namespace.kill(started)
            self.namespace.close()
            for host in self.hosts:
                host.holder_namespace.close()
                host.here = False
        elif self.keeper:
            self.keeper.kill()
        if self.keeper:
            self.keeper.wait(timeout=30)
        self.keeper = self.namespace = None
