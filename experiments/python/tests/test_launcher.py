"""A rank's end of the connection, against a launcher that this test plays."""
import json
import os
import pathlib
import socket
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from ringside_peers.error import Error  # noqa: E402
from ringside_peers.launcher import Launcher  # noqa: E402

PLAN = {"scheme": "torch-ddp", "train": {"timeout_s": 0.05}}


class LauncherTest(unittest.TestCase):
    def setUp(self):
        ours, theirs = socket.socketpair()
        self.told = json.dumps({"rank": 1, "plan": PLAN}).encode() + b"\n"
        ours.sendall(self.told)
        self.launcher = Launcher(theirs.detach())
        self.addCleanup(self.launcher.socket.close)
        self.addCleanup(self.launcher.lines.close)
        self.ours = ours
        self.addCleanup(ours.close)
        self.heard = ours.makefile("rb")
        self.addCleanup(self.heard.close)

    def hear(self):
        return json.loads(self.heard.readline())

    def test_the_first_line_is_kept_as_it_came(self):
        self.assertEqual((self.launcher.rank, self.launcher.plan), (1, PLAN))
        self.assertEqual(self.launcher.told, self.told)

    def test_children_do_not_get_the_socket(self):
        self.assertFalse(os.get_inheritable(self.launcher.socket.fileno()))

    def test_a_value_that_another_rank_has_set(self):
        self.ours.sendall(b'{"value":["where","here"]}\n')
        self.assertEqual(self.launcher.get("where"), "here")
        self.assertEqual(self.hear(), {"get": "where"})

    def test_a_value_that_is_not_set_is_named(self):
        with self.assertRaisesRegex(Error, "key 'where' was not set within 0.05 s"):
            self.launcher.get("where")

    def test_a_launcher_that_is_gone(self):
        self.heard.close()
        self.ours.shutdown(socket.SHUT_RDWR)
        with self.assertRaises((Error, OSError)):
            self.launcher.get("where")

    def test_what_a_rank_tells(self):
        self.launcher.set("where", "here")
        self.launcher.progress(3, 0.5, 0.01)
        self.launcher.finish({"rank": 1})
        self.assertEqual(self.hear(), {"set": ["where", "here"]})
        progress = {"step": 3, "loss": 0.5, "seconds": 0.01, "held_out": None}
        self.assertEqual(self.hear(), {"progress": progress})
        self.assertEqual(self.hear(), {"record": {"rank": 1}})

    def test_a_failure_is_one_line(self):
        self.launcher.fail("one thing\n  and another")
        told = self.hear()
        self.assertEqual(told["error"], "one thing and another")
        self.assertGreater(told["time"], 1e9)


if __name__ == "__main__":
    unittest.main()
