"""How the ranks of a run find each other."""
import datetime
import os

import torch.distributed as dist


def connect(launcher, backend):
    """Makes the group of all ranks. They meet in a file in rank 0's memory, which has no name and
    ends with the ranks: no port is open to strangers, and no file is left."""
    key = "torch/store"
    if launcher.rank == 0:
        memory = os.memfd_create("ringside-torch-store")
        launcher.set(key, f"/proc/{os.getpid()}/fd/{memory}")
    own = os.open(launcher.get(key), os.O_RDWR)  # rank 0 may end first
    world = launcher.plan["world"]
    dist.init_process_group(
        backend,
        store=dist.FileStore(f"/proc/self/fd/{own}", world),
        rank=launcher.rank,
        world_size=world,
        timeout=datetime.timedelta(seconds=launcher.plan["train"]["timeout_s"]),
    )
