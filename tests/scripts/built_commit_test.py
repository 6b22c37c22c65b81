"""cmake/built_commit.cmake: the commit that a program is built from, and whether that is all."""

import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "cmake" / "built_commit.cmake"


class BuiltCommit(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.source = pathlib.Path(temporary.name) / "a source"
        self.output = pathlib.Path(temporary.name) / "built_commit.cc"
        self.source.mkdir()
        self.write("CMakeLists.txt", "")
        self.write("core/scheme/scheme.cc", "int a;")
        self.write("README.md", "read me")

    def write(self, name, content):
        file = self.source / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    def git(self, *arguments, folder=None):
        who = ("-c", "user.name=a", "-c", "user.email=b")
        return subprocess.run(["git", "-C", folder or self.source, *who, *arguments], check=True,
                              capture_output=True, text=True).stdout.strip()

    def commit(self):
        self.git("init", "--quiet")
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", "begin")
        return self.git("rev-parse", "HEAD")

    def built(self):
        subprocess.run(["cmake", f"-DSOURCE={self.source}", f"-DOUTPUT={self.output}",
                        "-P", SCRIPT], check=True, capture_output=True)
        return self.output.read_text().split('return "')[1].split('"')[0]

    def test_names_the_commit(self):
        commit = self.commit()
        self.assertEqual(self.built(), commit)
        self.write("core/scheme/scheme.cc", "int b;")
        self.git("commit", "--quiet", "--all", "--message", "go on")
        self.assertEqual(self.built(), self.git("rev-parse", "HEAD"))
        self.assertNotEqual(self.built(), commit)

    def test_says_dirty_of_sources_that_changed_or_are_new(self):
        commit = self.commit()
        self.write("core/scheme/scheme.cc", "int b;")
        self.assertEqual(self.built(), commit + "-dirty")
        self.git("checkout", "--quiet", ".")
        self.assertEqual(self.built(), commit)
        self.write("core/more.cc", "")
        self.assertEqual(self.built(), commit + "-dirty")

    def test_what_is_not_built_makes_nothing_dirty(self):
        commit = self.commit()
        self.write("README.md", "read on")
        self.write("experiments/mine.toml", "")
        self.assertEqual(self.built(), commit)
        self.write("experiments/mine.cc", "")
        self.assertEqual(self.built(), commit + "-dirty")

    def test_is_unknown_outside_of_git_and_in_the_repository_of_others(self):
        self.assertEqual(self.built(), "unknown")
        self.git("init", "--quiet", folder=self.source.parent)
        self.git("commit", "--quiet", "--allow-empty", "--message", "theirs",
                 folder=self.source.parent)
        self.assertEqual(self.built(), "unknown")

    def test_leaves_a_source_alone_that_says_the_same(self):
        self.commit()
        self.built()
        before = self.output.stat().st_mtime_ns
        self.built()
        self.assertEqual(self.output.stat().st_mtime_ns, before)


if __name__ == "__main__":
    unittest.main()
