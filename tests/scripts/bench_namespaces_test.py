"""scripts/bench-namespaces: its bounds, what it says where it cannot run, and what it leaves behind."""

import importlib.machinery
import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "bench-namespaces"


def load():
    loader = importlib.machinery.SourceFileLoader("bench_namespaces", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def own_namespaces(process):
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if f"ringside-{process}-" in line]


class BenchNamespaces(unittest.TestCase):
    def test_the_busiest_link_bounds_a_step(self):
        bound_s = load().bound_s
        self.assertEqual(bound_s("master", 4, 1, 100, 10), 40)
        self.assertEqual(bound_s("dedicated", 4, 4, 100, 10), 10)
        self.assertEqual(bound_s("dedicated", 4, 2, 100, 10), 20)
        self.assertEqual(bound_s("beside", 4, 4, 100, 10), 15)

    def test_workers_and_servers_of_one_machine_need_no_link(self):
        pairs_of = load().pairs_of
        self.assertEqual(pairs_of([1, 2], [1, 2]), [(1, 2), (2, 1), (2, 1), (1, 2)])
        self.assertEqual(pairs_of([1, 2], [3]), [(1, 3), (3, 1), (2, 3), (3, 2)])

    def test_says_what_is_missing(self):
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run([sys.executable, SCRIPT], env={"PATH": empty},
                                  capture_output=True, text=True)
        self.assertEqual(done.returncode, 77)
        self.assertIn("skipped: ", done.stderr)

    def test_leaves_nothing_behind_when_it_is_stopped(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program"
            program.write_text('#!/bin/sh\n[ "$1" = keys ] && exit 0\nexec tail -f /dev/null\n')
            program.chmod(0o755)
            started = subprocess.Popen(
                [sys.executable, SCRIPT, "--program", program, "--workers", "2", "--rates", "100"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            first = started.stdout.readline()  # its heading, once there is a network
            if not first:
                self.assertEqual(started.wait(), 77)
                self.skipTest(started.stderr.read().strip())
            self.assertTrue(own_namespaces(started.pid))
            started.send_signal(signal.SIGTERM)
            errors = started.communicate()[1]
            self.assertEqual(started.returncode, 130, errors)
            self.assertEqual(own_namespaces(started.pid), [])


if __name__ == "__main__":
    unittest.main()
