"""A rank's end of the connection to its launcher: lines of JSON (core/launch/launch.h)."""
import json
import socket
import time

from ringside_peers.error import Error


class Launcher:
    """`number`: of the socket that the launcher passed as the last argument."""

    def __init__(self, number):
        self.socket = socket.socket(fileno=number)
        self.socket.set_inheritable(False)
        self.lines = self.socket.makefile("rb")
        self.told = self.lines.readline()  # as it came: `ringside feed` wants the same line
        if not self.told:
            raise Error("the launcher closed its socket before it sent a plan")
        told = json.loads(self.told)
        self.rank, self.plan = told["rank"], told["plan"]

    def send(self, value):
        self.socket.sendall(json.dumps(value).encode() + b"\n")

    def set(self, key, value):
        self.send({"set": [key, value]})

    def get(self, key):
        """Blocks until some rank has set the key, at most the plan's train.timeout_s."""
        timeout_s = self.plan["train"]["timeout_s"]
        self.send({"get": key})
        self.socket.settimeout(timeout_s)
        try:
            answer = self.lines.readline()
        except TimeoutError:
            raise Error(f"store: key '{key}' was not set within {timeout_s:g} s") from None
        finally:
            self.socket.settimeout(None)
        if not answer:
            raise Error("the launcher is gone")
        return json.loads(answer)["value"][1]

    def progress(self, step, loss, seconds, held_out=None):
        progress = {"step": step, "loss": loss, "seconds": seconds, "held_out": held_out}
        self.send({"progress": progress})

    def finish(self, record):
        self.send({"record": record})

    def fail(self, message):
        self.send({"error": " ".join(message.split()), "time": time.time()})
