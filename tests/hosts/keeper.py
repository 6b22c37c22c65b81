"""Holds the namespaces of a stage; stage.py starts it, and kills it to take everything away.

The stage is one PID namespace whose first process holds the network of the switch and, on a tmpfs, the
files that hosts share. The machine's files are there to read. Each host is a set of namespaces within,
held by a first process of its own. When the first process of a PID namespace dies, the system kills all
others in it, and the rest of the namespaces goes with the last of them: no name, mount or file is left
for anybody to remove. The stage's own first process dies with the test, even one that is killed.

    keeper.py NAME TEST PLACES HOST=ADDRESS...   # TEST: its process id; PLACES: see host()

Tells on standard output, in lines of JSON, the process ids (as the test sees them) of the stage and of
each host, or what was refused.
"""

import ctypes
import errno
import json
import os
import pathlib
import select
import signal
import sys
import traceback

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = (
    0x00020000, 0x04000000, 0x08000000, 0x20000000, 0x40000000)
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG = 1
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 1
REFUSALS = {errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENODEV, errno.ENOSPC, errno.ENOSYS, errno.EOPNOTSUPP}
FOLDERS = {"/run": 0o755, "/tmp": 0o1777, "/dev/shm": 0o1777, "/var/log": 0o755, "/var/tmp": 0o1777}  # empty ones
HOLDS_SHARED = "/dev/shm"  # of the stage's first process: a folder that every machine has
LIBC = ctypes.CDLL(None, use_errno=True)


def checked(result, what):
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def mount(source, target, kind=None, flags=0, data=None):
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    checked(LIBC.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]),
            f"mount of {kind or source} on {target}")


def tmpfs(folder, mode):
    mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, f"mode={mode:o}")


class MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user_namespace")]


def writable(folder, yes):
    """Of this namespace's view of a folder and of what is mounted below."""
    attributes = MountAttributes(**{"clear" if yes else "set": MOUNT_ATTR_RDONLY})
    checked(LIBC.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, os.fsencode(folder), AT_RECURSIVE, ctypes.byref(attributes),
                         ctypes.c_size_t(ctypes.sizeof(attributes))), f"mount_setattr of {folder}")


def die_with_parent():
    checked(LIBC.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL)), "prctl")


def tell(**what):
    os.write(1, (json.dumps(what) + "\n").encode())


def contain(inside, *arguments):
    """Runs inside() as the first process of new namespaces, and does not return."""
    try:
        checked(LIBC.unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET),
                "unshare")
    except OSError as error:
        tell(refused=str(error))
        os._exit(1)
    alive, ours = os.pipe()
    if os.fork() == 0:
        try:
            os.close(ours)
            die_with_parent()
            if select.select([alive], [], [], 0)[0]:  # the parent died before it could take us along
                os._exit(1)
            inside(*arguments)
        except Exception as error:
            if getattr(error, "errno", None) in REFUSALS:
                tell(refused=str(error))
            else:
                traceback.print_exc()
        finally:
            os._exit(1)
    os.close(alive)
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    os.wait()  # until all of the namespace's processes have ended
    os._exit(0)


def reap():
    """The work of a first process for the orphans of its namespace."""
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    os.dup2(1, 2)
    while True:
        signal.sigwait({signal.SIGCHLD})
        try:
            while os.waitpid(-1, os.WNOHANG)[0] > 0:
                pass
        except ChildProcessError:
            pass


def bind(descriptor, target, also=MS_REC):
    """Mounts what was opened before something else covered it, also with what is mounted on it."""
    mount(f"/proc/self/fd/{descriptor}", target, flags=MS_BIND | also)


def host(name, places):
    """`places`: "shared", where hosts have the folder that they share; "seen", folders that hosts see even
    where those of FOLDERS would cover them; "written", those that they also write in."""
    number = int(os.readlink("/proc/self"))
    name_bytes = name.encode()
    checked(LIBC.sethostname(name_bytes, len(name_bytes)), "sethostname")
    shared, written = places["shared"], places["written"]
    opened = {path: os.open(path, os.O_PATH) for path in (*places["seen"], *written)}
    held = os.open(HOLDS_SHARED, os.O_PATH)
    cgroups = os.open("/sys/fs/cgroup", os.O_PATH) if os.path.isdir("/sys/fs/cgroup") else None
    for folder, mode in FOLDERS.items():
        tmpfs(folder, mode)
    for path, descriptor in opened.items():
        if path in written or not os.path.exists(path):
            os.makedirs(path, exist_ok=True)
            bind(descriptor, path)
    for path in written:
        writable(path, True)
    os.mkdir(shared)
    bind(held, shared, also=0)  # without what has covered it here
    own_name = pathlib.Path("/run/hostname")
    own_name.write_text(f"{name}\n")
    for file in (own_name, *pathlib.Path(shared, "etc").iterdir()):
        if os.path.exists(f"/etc/{file.name}"):
            mount(str(file), f"/etc/{file.name}", flags=MS_BIND)
    mount("sysfs", "/sys", "sysfs")  # with the network devices of the host
    if cgroups is not None:
        bind(cgroups, "/sys/fs/cgroup")
    mount("proc", "/proc", "proc")
    tell(name=name, process=number)
    reap()


def stage(places, hosts):
    number = int(os.readlink("/proc/self"))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    mount(None, "/", flags=MS_REC | MS_PRIVATE)
    writable("/", False)
    writable("/dev", True)
    tmpfs(HOLDS_SHARED, 0o755)
    etc = pathlib.Path(HOLDS_SHARED, "etc")
    etc.mkdir()
    etc.joinpath("hosts").write_text(
        "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in hosts))
    etc.joinpath("resolv.conf").write_text("")
    # Shells that ssh starts would read, and may write, what lies in the user's own.
    pathlib.Path(HOLDS_SHARED, "home").mkdir(mode=0o700)
    users = [line.split(":") for line in pathlib.Path("/etc/passwd").read_text().splitlines()]
    for user in users:
        if user[0] == "root":
            user[5] = f"{places['shared']}/home"
    etc.joinpath("passwd").write_text("".join(f"{':'.join(user)}\n" for user in users))
    for name, _ in hosts:
        if os.fork() == 0:
            contain(host, name, places)
    tell(name="stage", process=number)
    reap()


def main():
    _, _name, test, places, *hosts = sys.argv
    die_with_parent()
    if os.getppid() != int(test):
        return
    contain(stage, json.loads(places), [host.split("=") for host in hosts])


if __name__ == "__main__":
    main()
