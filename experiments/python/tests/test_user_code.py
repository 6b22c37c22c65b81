"""Code of a user's own: how it is loaded, what it is told, and how its errors are named; and the count of bytes
that it sends. None of this needs PyTorch."""
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from ringside_peers.error import Error  # noqa: E402
from ringside_peers.timeline import Timeline  # noqa: E402
from ringside_peers.traffic import SentBytes  # noqa: E402
from ringside_peers.user_code import Code, Context, settings_of  # noqa: E402

KEY = "scheme.torch-ddp.hook"
PLAN = {"world": 4, "train": {"steps": 7}, "options": {"settings": "ratio=0.01, kind=ring"}}


class UserCodeTest(unittest.TestCase):
    def file(self, text, name="own.py"):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / name
        path.write_text(text)
        return str(path)

    def test_a_function_of_a_file(self):
        file = self.file("def twice(x):\n    return 2 * x\n")
        code = Code(KEY, f"{file}:twice")
        self.assertEqual(code.call(code.object, 3), 6)
        self.assertEqual(code.also("twice"), code.object)
        self.assertIsNone(code.also("thrice"))

    def test_a_hook_and_its_definition_share_one_module(self):
        file = self.file("kept = []\ndef hook():\n    kept.append(1)\ndef definition():\n    return kept\n")
        Code(KEY, f"{file}:hook").object()
        self.assertEqual(Code(KEY, f"{file}:definition").object(), [1])

    def test_what_the_file_imports_from_its_folder(self):
        file = self.file("from beside_own_code import one\ndef hook():\n    return one\n")
        pathlib.Path(file).with_name("beside_own_code.py").write_text("one = 1\n")
        self.assertEqual(Code(KEY, f"{file}:hook").object(), 1)

    def test_a_name_that_is_no_function(self):
        file = self.file("hook = 3\n")
        with self.assertRaisesRegex(Error, f"^{KEY}: {file} has no function or class 'hook'$"):
            Code(KEY, f"{file}:hook")

    def test_a_file_that_does_not_load_is_named_with_its_line(self):
        for text, what in (("\nx = = 1\n", r":2: SyntaxError: "), ("\n\n1 / 0\n", r":3: ZeroDivisionError: "),
                           ("import no_such_module_at_all\n", r":1: ModuleNotFoundError: ")):
            file = self.file(text)
            with self.assertRaisesRegex(Error, f"^{KEY}: {file}{what}"):
                Code(KEY, f"{file}:hook")

    def test_what_a_call_throws_is_named_with_the_last_line_of_the_file(self):
        file = self.file("import json\ndef hook():\n    inner()\ndef inner():\n    json.loads('{')\n")
        code = Code(KEY, f"{file}:hook")
        with self.assertRaisesRegex(Error, f"^{KEY}: {file}:5: JSONDecodeError: Expecting property name"):
            code.call(code.object)

    def test_settings_are_what_python_reads_them_as_or_text(self):
        read = settings_of("ratio=0.01, rank = 2,kind=ring, on=True, none=None, of=a=b")
        self.assertEqual(read, {"ratio": 0.01, "rank": 2, "kind": "ring", "on": True, "none": None, "of": "a=b"})
        self.assertEqual(settings_of(""), {})

    def test_what_the_code_is_told(self):
        context = Context(PLAN, 2, "cpu", Timeline())
        self.assertEqual((context.rank, context.world, context.steps, context.step), (2, 4, 7, 0))
        self.assertEqual(context.settings, {"ratio": 0.01, "kind": "ring"})

    def test_time_that_the_code_waits_is_exposed(self):
        timeline = Timeline()
        timeline.begin_step()
        context = Context(PLAN, 0, "cpu", timeline)
        with context.waits("average"):
            self.assertTrue(sum(range(1000)))
        timeline.end_step()
        step = timeline.steps({})[0]
        self.assertGreater(step["exposed"], 0)
        self.assertEqual(step["exposed"], step["communication"])
        self.assertEqual(len(context.waited), 1)


class SentBytesTest(unittest.TestCase):
    def test_what_the_process_writes_in_between_is_counted(self):
        sent = SentBytes("cpu")
        if not sent.known:
            self.skipTest("this kernel counts no bytes")
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, writer)
        os.write(writer, b"x" * 100)
        for size in (1000, 3000):
            sent.begin()
            os.write(writer, b"x" * size)
            sent.end()
        os.write(writer, b"x" * 100)
        self.assertEqual(sent.figures()["bytes_sent_per_step"], 2000)
        self.assertEqual((sent.figures()["bytes_known"], sent.figures()["bytes_computed"]), (True, False))

    def test_they_are_not_known_on_gpus_and_where_nothing_counts_them(self):
        for sent in (SentBytes("cuda"), SentBytes("cpu", "/no/such/file")):
            sent.begin()
            sent.end()
            figures = sent.figures()
            self.assertEqual((figures["bytes_known"], figures["bytes_sent_per_step"]), (False, 0))


if __name__ == "__main__":
    unittest.main()
