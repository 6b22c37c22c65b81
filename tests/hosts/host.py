"""One host of a stage: starts processes in it, and lists its processes and files."""

import ctypes
import os
import pathlib
import select
import signal
import stat
import subprocess
import tempfile
import time
import unittest

from .keeper import CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUTS, LIBC

KINDS = {"mnt": CLONE_NEWNS, "uts": CLONE_NEWUTS, "ipc": CLONE_NEWIPC, "net": CLONE_NEWNET}
LISTENING = "0A"  # the state, in /proc/net/tcp


class Skip(unittest.SkipTest):
    """This machine does not allow what the stage needs."""


class Failed(Exception):
    """Something on the stage did not go as it should."""


def wait_until(condition, what, timeout=30):
    """Gives the first result of condition() that counts as true."""
    end = time.monotonic() + timeout
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {timeout} s")
        time.sleep(0.01)


def set_namespace(descriptor, kind):
    if LIBC.setns(descriptor, kind) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"setns: {os.strerror(error)}")


def check_namespaces():
    """Whether start_within() will come back from a PID namespace: whoever is root by a user namespace does not."""
    ours = os.open("/proc/thread-self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        set_namespace(ours, CLONE_NEWPID)
    except OSError as error:
        raise Skip(f"namespaces are refused: {error.strerror}") from None
    finally:
        os.close(ours)


def start_within(holder, words, kinds, cwd=None, environment=None, **options):
    """A process in the namespaces of process `holder`, as a Popen. It is a child of this process, so its
    signals and its status are its own; within a PID namespace it has no parent."""
    opened = []

    def namespace(path):
        opened.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        return opened[-1]

    def enter():
        for descriptor, kind in entered:
            set_namespace(descriptor, kind)
        if cwd is not None:
            os.chdir(cwd)

    try:
        ours = namespace("/proc/thread-self/ns/pid")
        entered = [(namespace(f"/proc/{holder}/ns/{kind}"), KINDS[kind]) for kind in kinds if kind != "pid"]
        if "pid" not in kinds:
            return subprocess.Popen(words, env=environment, preexec_fn=enter, **options)
        # It moves only what this thread starts from now on, not the thread.
        set_namespace(namespace(f"/proc/{holder}/ns/pid"), CLONE_NEWPID)
        try:
            return subprocess.Popen(words, env=environment, preexec_fn=enter, **options)
        finally:
            set_namespace(ours, CLONE_NEWPID)
    finally:
        for descriptor in opened:
            os.close(descriptor)


class Process:
    """A process of a host; `number` is its process id as this process sees it."""

    def __init__(self, number, words):
        self.number, self.words = number, words

    def __repr__(self):
        return f"{self.number}: {' '.join(self.words)}"


class Host:
    def __init__(self, stage, index, name, address, holder):
        self.stage, self.index, self.name, self.address = stage, index, name, address
        self.holder = holder  # the first process of its PID namespace
        self.holder_namespace = HeldNamespace(holder)
        self.started = []
        self.servers = set()  # process ids of what belongs to the stage
        self.here = True

    def start(self, words, env=None, cwd="/tmp", **options):
        """A Popen with the variables `env` beside those of this process; None takes one away. It has a
        session of its own, as what a daemon starts has."""
        if not self.here:
            raise Failed(f"{self.name} is lost")
        environment = dict(os.environ)
        environment.pop("TMPDIR", None)  # a folder that hosts do not have
        for name, value in {**self.stage.environment, **(env or {})}.items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = str(value)
        options.setdefault("stdin", subprocess.DEVNULL)
        process = start_within(self.holder, [str(word) for word in words], [*KINDS, "pid"], cwd, environment,
                               start_new_session=True, **options)
        self.started.append(process)
        return process

    def run(self, words, timeout=60, check=True, input="", **more):
        """Waits for the end of one process, not for what it may have left, and gives its output as text."""
        with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as out, \
                tempfile.TemporaryFile("w+") as errors:
            given.write(input)
            given.seek(0)
            process = self.start(words, stdin=given, stdout=out, stderr=errors, **more)
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                late = True
            else:
                late = False
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
                self.started.remove(process)
            texts = []
            for file in (out, errors):
                file.seek(0)
                texts.append(file.read())
        said = f"{self.name}: `{' '.join(map(str, words))}`"
        if late:
            raise Failed(f"{said} did not end within {timeout} s\n{''.join(texts)}")
        if check and process.returncode != 0:
            raise Failed(f"{said} ended with {process.returncode}\n{''.join(texts)}")
        return subprocess.CompletedProcess(words, process.returncode, *texts)

    def processes(self):
        """All processes here, except those of the stage: its servers, and the process that holds the host."""
        found = []
        try:
            namespace = os.readlink(f"/proc/{self.holder}/ns/pid")
        except FileNotFoundError:
            return found
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            number = int(folder.name)
            try:
                if number == self.holder or number in self.servers or os.readlink(folder / "ns" / "pid") != namespace:
                    continue
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
            except OSError:  # it has ended meanwhile
                continue
            if words:  # else it has ended, and its status has not been collected
                found.append(Process(number, words))
        return found

    def serves(self, process):
        """Notes that the process of start() belongs to the stage, with the processes that it has made by now."""
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        self.servers.update((process.pid, *map(int, children.split())))

    def path(self, inside):
        """Where this process finds a path of the host."""
        return pathlib.Path(f"/proc/{self.holder}/root{inside}")

    def files(self, folders=("/tmp", "/dev/shm")):
        """Paths, in the host, of all files, sockets and folders below some folders that begin empty."""
        found, others = [], [*self.stage.seen, *self.stage.written]
        for folder in folders:
            top = self.path(folder)
            for path in sorted(top.rglob("*")):
                inside = f"{folder}/{path.relative_to(top)}"
                if not any(f"{inside}/".startswith(f"{other}/") or other.startswith(f"{inside}/") for other in others):
                    found.append(inside)
        return found

    def sockets(self, folders=("/tmp", "/dev/shm", "/run")):
        return [path for path in self.files(folders) if stat.S_ISSOCK(self.path(path).lstat().st_mode)]

    def listening(self):
        """The TCP ports on which something listens here."""
        ports = set()
        for file in ("tcp", "tcp6"):
            path = pathlib.Path(f"/proc/{self.holder}/net/{file}")
            for line in path.read_text().splitlines()[1:] if path.exists() else []:
                _, local, _, state = line.split()[:4]
                if state == LISTENING:
                    ports.add(int(local.rpartition(":")[2], 16))
        return ports

    def link_down(self):
        """As if the cable was pulled: the host itself notices it."""
        self.stage.network.on_host(self.index, "link set eth0 down")

    def link_up(self):
        self.stage.network.on_host(self.index, "link set eth0 up")

    def lose(self):
        """The host is gone: nothing from it reaches others any more, not even the end of its connections."""
        if self.here:
            self.here = False
            self.stage.network.on_switch(f"link delete port{self.index}")
            self.holder_namespace.kill(self.started)


class HeldNamespace:
    """A PID namespace by its first process, whose end is the end of all that is in it."""

    def __init__(self, holder):
        self.holder = holder
        self.descriptor = os.pidfd_open(holder)

    def kill(self, started):
        """`started`: what this process started there; until it has asked for their status, the
        namespace's first process does not end."""
        try:
            signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)
        except ProcessLookupError:
            pass
        for process in started:
            process.wait(timeout=30)
        if not select.select([self.descriptor], [], [], 30)[0]:
            raise Failed(f"process {self.holder}, which holds namespaces, does not end")

    def close(self):
        os.close(self.descriptor)
