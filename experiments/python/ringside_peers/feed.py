"""What a rank computes with, as `ringside feed` makes it (experiments/runner/run/feed.h): so no data set, no
order of samples, no initial value and no schedule of learning rates is made twice."""
import collections
import json
import subprocess
import threading

from ringside_peers.error import Error

MOST_AHEAD = 64 << 20  # bytes of messages that wait to be taken


class Feed:
    """Starts `ringside feed` and reads ahead in a thread. `convert` makes of the bytes of a message
    what next() returns; it runs in that thread."""

    def __init__(self, ringside, told, convert):
        self.convert, self.waiting = convert, collections.deque()
        self.ahead, self.ended, self.error = 0, False, None
        self.changed = threading.Condition()
        self.process = subprocess.Popen(
            [ringside, "feed"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.process.stdin.write(told)
        self.process.stdin.close()
        threading.Thread(target=self._read, daemon=True).start()

    def next(self, kind):
        """The line of the next message and its converted bytes; blocks until they are there."""
        with self.changed:
            self.changed.wait_for(lambda: self.waiting or self.ended)
            if not self.waiting:
                raise Error(self.error or "the feed ended early")
            line, value = self.waiting.popleft()
            self.ahead -= line["bytes"]
            self.changed.notify_all()
        if line["kind"] != kind:
            raise Error(f"the feed has {line['kind']} data where {kind} data are due")
        return line, value

    def fill(self):
        """Blocks until as much as may wait has been read. What a run needs is then made before its
        first step, if that is little, and not beside its steps."""
        with self.changed:
            self.changed.wait_for(lambda: self.ahead >= MOST_AHEAD or self.ended)

    def _read(self):
        try:
            while line := self.process.stdout.readline():
                self._take(json.loads(line))
        except Exception as error:
            self.error = f"the feed cannot be read: {error}"
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def _take(self, line):
        if line["kind"] == "error":
            self.error = line["message"]
            return
        data = bytearray(line["bytes"])
        view = memoryview(data)
        while view and (count := self.process.stdout.readinto(view)):
            view = view[count:]
        if view:
            raise EOFError("a message is cut off")
        value = self.convert(line["kind"], data)
        with self.changed:
            self.changed.wait_for(lambda: self.ahead < MOST_AHEAD)
            self.waiting.append((line, value))
            self.ahead += line["bytes"]
            self.changed.notify_all()
