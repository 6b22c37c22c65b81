"""scripts/house: each rule of naming fails where it is broken, and the figures count what is there."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "house"


class House(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.tree = pathlib.Path(temporary.name)
        subprocess.run(["git", "init", "--quiet", self.tree], check=True)
        self.write("core/base/error.h", "// The exception type.\n#pragma once\nnamespace ringside {\n}\n")
        self.write("core/scheme/scheme.h", '// A scheme.\n#include "core/base/error.h"\n')
        self.write("ps/schemes/ps.h", '// Servers.\n#include "core/scheme/scheme.h"\n'
                                      "namespace ringside::ps {\n}\n")

    def write(self, name, content):
        file = self.tree / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    def house(self, *arguments):
        return subprocess.run([sys.executable, SCRIPT, *arguments, self.tree], capture_output=True,
                              text=True)

    def expect_refused(self, *words):
        result = self.house("--check")
        self.assertEqual(result.returncode, 1)
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        for word in words:
            self.assertIn(word, lines[0])

    def test_a_tree_that_keeps_the_rules_passes(self):
        result = self.house("--check")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_a_header_must_not_open_with_a_question(self):
        for word in "What Which Who Whose How Where Whether When Why".split():
            self.write("core/base/hash.h", f"// {word} bytes become.\n// What follows is free.\n")
            self.expect_refused("core/base/hash.h", word)

    def test_words_that_begin_like_a_question_are_none(self):
        self.write("core/base/hash.h", "// Whole files. What they hold is free.\n")
        self.assertEqual(self.house("--check").returncode, 0)

    def test_headers_of_tests_and_of_cuda_are_read_too(self):
        self.write("tests/ps/crowd.h", "// Who comes.\n")
        self.expect_refused("tests/ps/crowd.h")
        self.write("tests/ps/crowd.h", "// A crowd.\n")
        self.write("core/device/cuda/kernels/spread.cuh", "// How threads are spread.\n")
        self.expect_refused("spread.cuh")

    def test_an_old_name_of_a_file_must_not_come_back(self):
        self.write("peer/comm/hosts/station.cc", "")
        self.expect_refused("peer/comm/hosts/station.cc", "host_group")

    def test_an_old_name_of_a_type_must_not_come_back(self):
        self.write("core/observe/run_record.h", "// A record.\nstruct Row {\n};\n")
        self.expect_refused("core/observe/run_record.h", "struct Row", "RunRecord")

    def test_a_member_or_a_local_type_may_have_any_name(self):
        self.write("core/observe/run_record.h", "// A record.\nstruct RunRecord {\n  struct Row {};\n};\n")
        self.write("core/observe/run_record.cc", "struct Row {\n};\n")
        self.assertEqual(self.house("--check").returncode, 0)

    def test_folders_must_not_include_each_other_in_a_circle(self):
        self.write("core/base/hash.h", '// A hash.\n#include "core/tensor/tensor.h"\n')
        self.write("core/tensor/tensor.h", '// A tensor.\n#include "core/scheme/scheme.h"\n')
        self.expect_refused("core/base <-> core/scheme <-> core/tensor", "circle")

    def test_a_circle_of_rooms_is_one_too(self):
        self.write("core/data/text.h", '// Text.\n#include "ps/schemes/ps.h"\n')
        self.expect_refused("core <-> ps", "circle")

    def test_one_name_must_not_mean_two_things(self):
        self.write("core/data/files.h", "// Files.\n")
        self.write("core/data/files.cc", "")
        self.assertEqual(self.house("--check").returncode, 0)
        self.write("ps/schemes/files.h", "// Files.\n")
        self.expect_refused("core/data/files, ps/schemes/files")

    def test_waits_have_no_clock_that_jumps(self):
        self.write("core/base/time_of_day.h", "// The time of day.\nsystem_clock\n")
        self.write("tests/core/clock_test.cc", "std::chrono::system_clock::now();\n")
        self.assertEqual(self.house("--check").returncode, 0)
        self.write("ps/protocol/client.cc", "wait_until(lock, std::chrono::system_clock::now());\n")
        self.expect_refused("ps/protocol/client.cc", "system_clock jumps with the time of day")

    def test_files_that_git_ignores_do_not_count(self):
        self.write(".gitignore", "/build/\n/core/made.h\n")
        self.write("core/made.h", "// What a build makes.\n")
        self.assertEqual(self.house("--check").returncode, 0)

    def test_figures(self):
        self.write("README.md", "a" * 2400)
        self.write("results/README.md", "a page of results is none of the project's")
        figures = {}
        result = self.house()
        self.assertEqual(result.returncode, 0, result.stderr)
        for line in result.stdout.splitlines():
            figure, name = line.split(maxsplit=1)
            figures[name] = float(figure.replace(",", ""))
        self.assertEqual(figures["source files"], 3)
        self.assertEqual(figures["lines"], 10)
        self.assertEqual(figures["lines a file, mean"], 3)
        self.assertEqual(figures["files under 30 lines"], 3)
        self.assertEqual(figures["headers read by one other file"], 2)
        self.assertEqual(figures["headers that open with a question"], 0)
        self.assertEqual(figures["folders of code"], 3)
        self.assertEqual(figures["circles of folders"], 0)
        self.assertEqual(figures["namespaces opened"], 2)
        self.assertEqual(figures["namespaces opened, plain ringside"], 1)
        self.assertEqual(figures["pages"], 1)
        self.assertEqual(figures["pages, KB"], 2)


if __name__ == "__main__":
    unittest.main()
