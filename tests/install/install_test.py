#!/usr/bin/env python3
"""Installs a build into a folder, and uses what is there from elsewhere.

    install_test.py BUILD CMAKE

BUILD is a build folder whose program is built, CMAKE the program cmake. Ends with 77, which CTest counts as skipped,
where the build has no program.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77


class Install(unittest.TestCase):
    build = cmake = pathlib.Path()

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.prefix = cls.folder / "prefix"
        cls.program = cls.prefix / "bin/ringside"
        cls.experiments = cls.prefix / "share/ringside/experiments"
        cls.elsewhere = cls.folder / "elsewhere"
        cls.elsewhere.mkdir()
        cls.run_or_fail([cls.cmake, "--install", cls.build, "--prefix", cls.prefix])

    @classmethod
    def run_or_fail(cls, words: list, seconds: float = 240) -> str:
        ended = subprocess.run(list(map(str, words)), cwd=cls.elsewhere, capture_output=True, text=True,
                               timeout=seconds, check=False)
        if ended.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, words))} ended with {ended.returncode}\n{ended.stdout}\n{ended.stderr}")
        return ended.stdout

    def module(self, name: str) -> bool:
        """Whether the build has made a module; the prefix has it then."""
        built = (self.build / f"libringside_{name}.so").exists()
        self.assertEqual((self.prefix / f"lib/ringside/libringside_{name}.so").exists(), built, name)
        return built

    def test_the_program_works_from_another_folder(self):
        listed = self.run_or_fail([self.program, "list"])
        self.assertIn("ddp", listed)
        self.assertEqual(listed, self.run_or_fail([self.build / "ringside", "list"]))

    def test_modules_are_found(self):
        for name in ("simgrid", "gloo", "openmpi", "mpich", "cuda", "nccl"):
            self.module(name)
        self.assertTrue((self.prefix / "lib/ringside/peers/ringside_peers/__main__.py").exists())
        doctor = self.run_or_fail([self.program, "doctor"])
        self.assertEqual(doctor, self.run_or_fail([self.build / "ringside", "doctor"]))

    def test_a_simulated_comparison_runs(self):
        if not self.module("simgrid"):
            self.skipTest("this build has no simulated devices")
        said = self.run_or_fail([self.program, "compare", self.experiments / "simulated/gpt2-1.5b.toml",
                                 "--worlds", "1,2", "--schemes", "single,ddp", "--set", "train.steps=3",
                                 "--set", "train.warmup=1"])
        self.assertRegex(said, r"\| ddp +\| +2 \|")
        self.assertTrue((self.elsewhere / "results/gpt2-1.5b/rows.jsonl").exists())

    def test_a_plug_in_is_built_with_what_is_installed(self):
        self.run_or_fail([self.program, "new", "scheme", "mine"])
        self.run_or_fail([self.cmake, "-S", self.elsewhere / "mine", "-B", self.elsewhere / "mine/build",
                          f"-DCMAKE_CXX_COMPILER={self.compiler()}"])
        self.run_or_fail([self.cmake, "--build", self.elsewhere / "mine/build"])
        flags = self.run_or_fail([self.program, "plugin", "--cflags"])
        self.assertIn(str(self.prefix.resolve()), flags)
        checked = self.run_or_fail([self.program, "check-scheme", "mine", "--plugin",
                                    self.elsewhere / "mine/build/mine.so"])
        self.assertIn(" 0 wrong", checked)

    def compiler(self) -> str:
        cache = (self.build / "CMakeCache.txt").read_text().splitlines()
        return next(line.split("=", 1)[1] for line in cache if line.startswith("CMAKE_CXX_COMPILER:"))

    def test_pages_and_licence_are_there(self):
        self.assertIn("Apache License", (self.prefix / "share/doc/ringside/LICENSE").read_text())
        self.assertTrue((self.prefix / "share/ringside/docs/experiments.md").exists())
        for path in self.prefix.rglob("*"):
            self.assertFalse(path.is_symlink(), f"{path} leads out of the prefix")
            self.assertNotEqual(path.suffix, ".pyc", path)
            self.assertTrue(path.suffix != ".cc" or path.parent.name == "plugins", path)

    def test_the_package_of_cmake_names_no_folder_of_the_build(self):
        for path in (self.prefix / "lib/cmake/Ringside").iterdir():
            text = path.read_text()
            self.assertNotIn(str(self.build), text)
            self.assertNotIn(str(HERE.parents[1]), text)

    def test_another_project_builds_with_it(self):
        build = self.folder / "consumer"
        cache = (self.build / "CMakeCache.txt").read_text().splitlines()
        flags = next((line.split("=", 1)[1] for line in cache if line.startswith("RINGSIDE_SANITIZE:")), "")
        self.run_or_fail([self.cmake, "-S", HERE / "consumer", "-B", build, "-DCMAKE_BUILD_TYPE=Debug",
                          f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DCMAKE_CXX_COMPILER={self.compiler()}",
                          f"-DCMAKE_CXX_FLAGS={'-fsanitize=' + flags if flags else ''}"])
        self.run_or_fail([self.cmake, "--build", build], 600)
        self.assertEqual(self.run_or_fail([build / "consumer"]), "no module\n")
        self.assertTrue((build / "libloaded.so").exists())


def main() -> int:
    Install.build, Install.cmake = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    if not os.access(Install.build / "ringside", os.X_OK):
        print(f"skipped: {Install.build} has no program")
        return SKIPPED
    return 0 if unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
