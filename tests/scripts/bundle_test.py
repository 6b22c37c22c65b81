"""scripts/bundle --programs: of small programs in the place of those that a build makes."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ("patchelf", "g++", "xz", "strip", "objdump")
# A program that needs a library which a bare machine lacks.
CODE = 'extern "C" void zmq_version(int*, int*, int*);\nint main() { int v[3]; zmq_version(v, v + 1, v + 2); return v[0]; }\n'


@unittest.skipUnless(all(map(shutil.which, TOOLS)), f"needs {', '.join(TOOLS)}")
class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.build = cls.folder / "build"
        (cls.build / "tests").mkdir(parents=True)
        (cls.build / "peers/some/__pycache__").mkdir(parents=True)
        (cls.build / "peers/some/rank.py").touch()
        (cls.build / "CMakeCache.txt").write_text(
            "CMAKE_CUDA_ARCHITECTURES:UNINITIALIZED=90-real\nRINGSIDE_MARCH:STRING=x86-64-v3\n")
        (cls.build / "built_commit.cc").write_text(
            '#include "experiments/tools/cli/built_commit.h"\n'
            'std::string_view ringside::tools::cli::built_commit() { return "0123abc"; }\n')
        cls.compile("ringside")
        for name in ("tests/gpu_test", "tests/gpu_bench"):
            shutil.copy(cls.build / "ringside", cls.build / name)
        cls.compile("libringside_cuda.so", "-shared", "-fPIC")
        cls.ended = cls.bundle("out")

    @classmethod
    def compile(cls, name, *options):
        subprocess.run(["g++", "-x", "c++", "-", "-o", cls.build / name, *options,
                        "-Wl,--no-as-needed", "-l:libzmq.so.5"], input=CODE, text=True, check=True)

    @classmethod
    def bundle(cls, name):
        return subprocess.run([ROOT / "scripts/bundle", "--programs", cls.folder / name, cls.build],
                              capture_output=True, text=True)

    def test_come_with_the_libraries_that_they_find_where_the_folder_lies(self):
        self.assertEqual(self.ended.returncode, 0, self.ended.stderr)
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        subprocess.run(["tar", "-xf", self.folder / "out.tar.xz", "-C", elsewhere,
                        "--strip-components=1"], check=True)
        for name in ("ringside", "libringside_cuda.so", "tests/gpu_test", "tests/gpu_bench"):
            found = subprocess.run(["ldd", elsewhere / name], capture_output=True, text=True).stdout
            self.assertRegex(found, f"libzmq.so.5 => {elsewhere}/\\S*lib/libzmq.so.5", name)
        self.assertEqual(subprocess.run([elsewhere / "ringside"]).returncode, 4)
        self.assertFalse([path.name for path in (elsewhere / "lib").iterdir()
                          if path.name.startswith(("libc.so", "libstdc++", "libcuda"))])
        self.assertEqual([path.name for path in (elsewhere / "peers/some").iterdir()], ["rank.py"])

    def test_say_what_they_were_built_of_and_for(self):
        told = (self.folder / "out/VERSIONS").read_text().splitlines()
        self.assertIn("commit                 0123abc", told)
        self.assertIn("built for              GPUs 90-real, processors x86-64-v3", told)

    def test_that_were_not_built_are_named(self):
        (self.build / "tests/gpu_bench").rename(self.folder / "away")
        ended = self.bundle("other")
        (self.folder / "away").rename(self.build / "tests/gpu_bench")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("gpu_bench was not built", ended.stderr)
        self.assertFalse((self.folder / "other").exists())


if __name__ == "__main__":
    unittest.main()
