"""One rank:  python3 ringside_peers RINGSIDE SOCKET

RINGSIDE: a file that starts our program. SOCKET: the number of the launcher's socket.
"""
import os
import pathlib
import signal
import sys
import traceback
import warnings

sys.path[0] = str(pathlib.Path(__file__).parent.parent)  # modules are imported by the package's name

from ringside_peers.error import Error  # noqa: E402
from ringside_peers.launcher import Launcher  # noqa: E402


PACKAGE = "ringside_peers"


def reason_of(error, plan):
    """One line that says what went wrong and what to do."""
    scheme, python = plan["scheme"], plan["program"]["command"]
    if isinstance(error, ImportError):
        return (
            f"PyTorch is not installed for {python} ({error}): {python} -m pip install torch "
            f"safetensors, or name another Python with scheme.{scheme}.python"
        )
    text = str(error) or type(error).__name__
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if PACKAGE in frame.filename]
    if isinstance(error, Error) or not own:
        return text
    return f"{text} ({PACKAGE}/{pathlib.Path(own[-1].filename).name}:{own[-1].lineno})"


def main():
    warnings.simplefilter("ignore")  # they are for those who write programs for PyTorch
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the launcher ends its ranks
    ringside, number = sys.argv[1], int(sys.argv[2])
    launcher = Launcher(number)
    try:
        from ringside_peers.rank import run

        launcher.finish(run(launcher, ringside))
    except Exception as error:
        launcher.fail(reason_of(error, launcher.plan))
        os._exit(1)  # other ranks are ended too, so nothing is waited for


main()
