"""The reader of `ringside feed`, against a program that this test writes in its place."""
import pathlib
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from ringside_peers import feed  # noqa: E402
from ringside_peers.error import Error  # noqa: E402

TOLD = b'{"rank":0,"plan":{}}\n'


class FeedTest(unittest.TestCase):
    def feed(self, script, convert=lambda kind, data: (kind, bytes(data))):
        """`script`: what the program writes, in Python; `told` is its standard input."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program = pathlib.Path(folder.name) / "ringside"
        program.write_text(
            f"#!{sys.executable} -SB\nimport json, sys\ntold = sys.stdin.buffer.read()\n"
            "out = sys.stdout.buffer\n"
            "def say(kind, data, **more):\n"
            "    line = {'kind': kind, **more, 'bytes': len(data)}\n"
            "    out.write(json.dumps(line).encode() + b'\\n' + data)\n" + script
        )
        program.chmod(0o755)
        made = feed.Feed(str(program), TOLD, convert)
        self.addCleanup(made.process.stdout.close)
        self.addCleanup(made.process.wait)
        self.addCleanup(made.process.kill)
        return made

    def test_messages_come_in_order_and_converted(self):
        made = self.feed("say('start', told)\nsay('training', b'\\n\\n', lr=0.5)\n")
        self.assertEqual(made.next("start")[1], ("start", TOLD))
        line, value = made.next("training")
        self.assertEqual((line["lr"], value), (0.5, ("training", b"\n\n")))

    def test_another_kind_than_is_due(self):
        made = self.feed("say('held-out', b'')\n")
        with self.assertRaisesRegex(Error, "has held-out data where training data are due"):
            made.next("training")

    def test_the_cause_that_the_program_gives(self):
        made = self.feed("say('start', b'x')\nsay('error', b'', message='no such file')\n")
        made.next("start")
        with self.assertRaisesRegex(Error, "^no such file$"):
            made.next("training")

    def test_a_message_that_is_cut_off(self):
        made = self.feed("out.write(b'{\"kind\":\"start\",\"bytes\":10}\\nabc')\n")
        with self.assertRaisesRegex(Error, "a message is cut off"):
            made.next("start")

    def test_a_program_that_ends_early(self):
        made = self.feed("say('start', b'')\n")
        made.next("start")
        with self.assertRaisesRegex(Error, "the feed ended early"):
            made.next("training")

    def test_it_reads_ahead_until_enough_waits(self):
        most, feed.MOST_AHEAD = feed.MOST_AHEAD, 250
        self.addCleanup(setattr, feed, "MOST_AHEAD", most)
        taken = []
        made = self.feed(
            "for _ in range(9): say('training', b'x' * 100)\n",
            lambda kind, data: taken.append(kind),
        )
        made.fill()
        self.assertGreaterEqual(made.ahead, 250)
        self.assertLessEqual(len(taken), 4)  # a fourth is converted, and then waits
        for _ in range(9):
            made.next("training")
        self.assertEqual(len(taken), 9)

    def test_what_is_little_is_read_to_its_end(self):
        made = self.feed("for _ in range(3): say('training', b'x')\n")
        made.fill()
        self.assertTrue(made.ended)
        begin = time.monotonic()
        for _ in range(3):
            made.next("training")
        self.assertLess(time.monotonic() - begin, 1)


if __name__ == "__main__":
    unittest.main()
