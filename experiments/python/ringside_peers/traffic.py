"""Bytes that a rank sends, as the kernel counts them."""
import pathlib

COUNTERS = "/proc/self/io"


class SentBytes:
    """Counts what the process writes between begin() and end(): over Gloo, which writes to sockets,
    the bytes of its messages with their headers, of whatever collectives the user's code calls. (What
    the code writes to files counts too; messages to the launcher do not.) NCCL writes nothing, so on
    GPUs the bytes are not known."""

    def __init__(self, device_type, counters=COUNTERS):
        self.counters = pathlib.Path(counters)
        self.known = device_type == "cpu" and self._written() is not None
        self.bytes = self.steps = self.at = 0

    def begin(self):
        self.at = self._written()

    def end(self):
        if self.known:
            self.bytes += self._written() - self.at
            self.steps += 1

    def figures(self):
        """Members of a RankRecord. What ranks receive is, on the mean over ranks, what they send."""
        per_step = self.bytes / max(1, self.steps)
        return {
            "bytes_sent_per_step": per_step,
            "bytes_received_per_step": per_step,
            "bytes_computed": False,
            "bytes_known": self.known,
        }

    def _written(self):
        try:
            lines = self.counters.read_text().splitlines()
        except OSError:  # a kernel without these counters
            return None
        return next((int(line[7:]) for line in lines if line.startswith("wchar: ")), None)
