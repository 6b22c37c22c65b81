"""Slurm on a stage: host0 has the controller, and every host is a node."""

import os
import shutil

from .host import Failed, Skip, wait_until

TOOLS = {"slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client", "munged": "munge"}
CONTROLLER_PORT = 6817
MUNGE_SOCKET = "/run/munge/munge.socket.2"  # where clients look for it
CPUS = 16  # that a node says it has, so that more ranks than this machine has cores find a place

SETTINGS = {
    "ClusterName": "stage",
    "SlurmUser": "root",
    "SlurmctldPort": CONTROLLER_PORT,
    "AuthType": "auth/munge",
    "CryptoType": "crypto/munge",
    "MpiDefault": "none",
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "JobAcctGatherType": "jobacct_gather/none",
    "AccountingStorageType": "accounting_storage/none",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_CPU",
    "SchedulerType": "sched/backfill",
    "SchedulerParameters": "batch_sched_delay=0,sched_min_interval=0",
    "SlurmdParameters": "config_overrides",  # CPUS, whatever the machine has
    "SlurmdSpoolDir": "/run/slurm/spool",
    "SlurmctldPidFile": "/run/slurm/slurmctld.pid",
    "SlurmdPidFile": "/run/slurm/slurmd.pid",
    "MailProg": "/bin/true",
    "KillWait": 2,
}


class Slurm:
    """Once made, srun, sbatch and the rest work in every host. All of it runs as root, with keys and folders of the
    stage. There is no accounting and nothing is confined: that needs cgroups, which not every machine lets us have.
    `settings` are more lines of slurm.conf."""

    def __init__(self, stage, **settings):
        for tool, package in TOOLS.items():
            if not shutil.which(tool):
                raise Skip(f"there is no `{tool}`; install {package}")
        self.folder = stage.shared / "slurm"
        self.daemons = []
        here = stage.folder / "slurm"
        here.mkdir()
        here.joinpath("state").mkdir()
        here.joinpath("munge.key").touch(mode=0o600)
        here.joinpath("munge.key").write_bytes(os.urandom(128))
        here.joinpath("slurm.conf").write_text("\n".join(self.configuration(stage, settings)) + "\n")
        here.joinpath("plugstack.conf").touch()
        if os.path.isdir("/etc/slurm"):
            for host in stage.hosts:
                host.run(["mount", "--bind", self.folder, "/etc/slurm"])
        else:
            stage.environment["SLURM_CONF"] = self.folder / "slurm.conf"
        for host in stage.hosts:
            host.run(["mkdir", "-p", "/run/munge", "/run/slurm/spool"])
            self.start(host, ["munged", "--foreground", f"--key-file={self.folder}/munge.key",
                              f"--socket={MUNGE_SOCKET}", "--pid-file=/run/munge/pid", "--seed-file=/run/munge/seed",
                              "--num-threads=2"])
        for host in stage.hosts:
            self.wait(lambda: host.path(MUNGE_SOCKET).exists(), f"munged of {host.name}")
        conf = f"{self.folder}/slurm.conf"
        self.start(stage.hosts[0], ["slurmctld", "-D", "-f", conf])
        self.wait(lambda: CONTROLLER_PORT in stage.hosts[0].listening(), "slurmctld")
        for host in stage.hosts:
            self.start(host, ["slurmd", "-D", "-f", conf, "-N", host.name])
        self.wait(lambda: self.idle(stage.hosts[0]) == len(stage.hosts), "the nodes of Slurm")
        for host, _, _, process in self.daemons:
            host.serves(process)

    def configuration(self, stage, settings):
        first = stage.hosts[0]
        values = {**SETTINGS, "SlurmctldHost": f"{first.name}({first.address})",
                  "StateSaveLocation": f"{self.folder}/state",
                  "PlugStackConfig": f"{self.folder}/plugstack.conf", **settings}
        yield from (f"{name}={value}" for name, value in values.items())
        yield from (f"NodeName={host.name} NodeAddr={host.address} CPUs={CPUS} State=UNKNOWN" for host in stage.hosts)
        yield "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP"

    def start(self, host, words):
        log = host.path("/run").joinpath(f"{words[0]}.log")
        with open(log, "w") as file:
            self.daemons.append((host, words[0], log, host.start(words, stdout=file, stderr=file)))

    def wait(self, condition, what):
        def ended():
            return next((daemon for daemon in self.daemons if daemon[3].poll() is not None), None)

        try:
            wait_until(lambda: ended() or condition(), what)
            if ended():
                raise Failed(f"{ended()[1]} of {ended()[0].name} ended with {ended()[3].returncode}")
        except Failed as cause:
            raise Failed(f"{cause}\n{self.logs()}") from None

    def logs(self):
        """The output of all parts."""
        return "\n".join(f"{host.name} {name}: {log.read_text()}" for host, name, log, _ in self.daemons
                         if host.here)

    def idle(self, host):
        """How many nodes would take a job."""
        listed = host.run(["sinfo", "--noheader", "--Node", "--format=%N %T"], check=False).stdout
        return sum(line.split()[1] == "idle" for line in listed.splitlines())
