"""Several hosts on this machine, for tests of runs on more than one."""

import sys
import unittest

from .host import Failed, Skip, wait_until
from .slurm import Slurm
from .sshd import Sshd
from .stage import Stage

__all__ = ["Failed", "Skip", "Slurm", "Sshd", "Stage", "main", "wait_until"]
SKIPPED = 77


def main():
    """unittest.main(), with a status of its own where this machine refuses all of the tests."""
    result = unittest.main(module="__main__", exit=False).result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.skipped and result.testsRun <= len(result.skipped) else 0)
