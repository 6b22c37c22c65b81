"""One rank:  python3 ringside_peers RINGSIDE SOCKET

RINGSIDE: a file that starts our program. SOCKET: the number of the launcher's socket.
"""
import os
import pathlib
import signal
import sys
import traceback

sys.path[0] = str(pathlib.Path(__file__).parent.parent)  # modules are imported by the package's name

from ringside_peers.launcher import Launcher  # noqa: E402


def reason_of(error, plan):
    """One line that says what went wrong and what to do."""
    scheme, python = plan["scheme"], plan["program"]["command"]
    if isinstance(error, ImportError):
        return (
            f"PyTorch is not installed for {python} ({error}): {python} -m pip install torch "
            f"safetensors, or name another Python with scheme.{scheme}.python"
        )
    return str(error) or type(error).__name__


def main():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the launcher ends its ranks
    ringside, number = sys.argv[1], int(sys.argv[2])
    launcher = Launcher(number)
    try:
        from ringside_peers.rank import run

        launcher.finish(run(launcher, ringside))
    except Exception as error:
        launcher.fail(reason_of(error, launcher.plan))
        if not isinstance(error, ImportError):
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # other ranks are ended too, so nothing is waited for


main()
