"""scripts/fetch-data on files of this machine: what is good arrives whole, what is bad not at all."""

import gzip
import hashlib
import io
import pathlib
import subprocess
import tarfile
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "fetch-data"
CONTENT = bytes(range(256)) * 40


class FetchData(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        self.server, self.folder = self.root / "server", self.root / "folder of data"
        self.server.mkdir()
        self.lines = []

    def serve(self, name, content, how, result, checksum=None):
        (self.server / name).write_bytes(content)
        checksum = checksum or "sha256:" + hashlib.sha256(content).hexdigest()
        self.lines.append(f"trial file {how} {checksum} {result} file://{self.server}/{name}")

    def fetch(self, *arguments):
        sets = self.root / "sets"
        sets.write_text("# a remark\n\ntrial about a trial\n"
                        'trial use [data] path = "FOLDER/x"    [model] image = 2\n'
                        + "\n".join(self.lines) + "\n")
        arguments = arguments or ("trial", str(self.folder))
        return subprocess.run([SCRIPT, "--sets", sets, *arguments], capture_output=True, text=True,
                              timeout=60, check=False)

    def names(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    def fails(self, said):
        done = self.fetch()
        self.assertEqual(done.returncode, 1, done)
        last = done.stderr.rstrip("\n").split("\n")[-1]
        self.assertTrue(last.startswith("scripts/fetch-data: "), done.stderr)
        self.assertIn(said, last)

    def test_unpacks_and_says_how_to_use_it(self):
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:gz") as tar:
            entry = tarfile.TarInfo("inside/a.bin")
            entry.size = len(CONTENT)
            tar.addfile(entry, io.BytesIO(CONTENT))
        self.serve("plain.txt", CONTENT, "keep", "renamed.txt",
                   "md5:" + hashlib.md5(CONTENT).hexdigest())
        self.serve("images.gz", gzip.compress(CONTENT), "gunzip", "images")
        self.serve("set.tar.gz", archive.getvalue(), "untar", "inside")
        done = self.fetch()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.names(), ["images", "inside", "inside/a.bin", "renamed.txt"])
        for name in ("images", "inside/a.bin", "renamed.txt"):
            self.assertEqual((self.folder / name).read_bytes(), CONTENT)
        self.assertIn(f'[data] path = "{self.folder}/x"\n', done.stdout)
        # Again: nothing is fetched.
        for path in self.server.iterdir():
            path.unlink()
        self.assertEqual(self.fetch().returncode, 0)

    def test_a_wrong_checksum_leaves_nothing(self):
        self.serve("plain.txt", CONTENT, "keep", "plain.txt", "md5:" + "0" * 32)
        self.fails("has the wrong checksum (its md5 is not 000")
        self.assertEqual(self.names(), [])

    def test_goes_on_where_it_was_cut_off(self):
        self.serve("plain.txt", CONTENT, "keep", "plain.txt")
        self.folder.mkdir()
        part = self.folder / "plain.txt.part"
        part.write_bytes(CONTENT[:1000])
        self.assertEqual(self.fetch().returncode, 0)
        self.assertEqual((self.folder / "plain.txt").read_bytes(), CONTENT)
        # The part of a file is kept as it is; if it is damaged, its checksum shows it and it is removed.
        (self.folder / "plain.txt").unlink()
        part.write_bytes(b"x" * 1000)
        self.fails("has the wrong checksum")
        self.assertEqual(self.names(), [])
        # One that is whole is not fetched again.
        part.write_bytes(CONTENT)
        (self.server / "plain.txt").unlink()
        self.assertEqual(self.fetch().returncode, 0)

    def test_what_cannot_be_fetched_is_named(self):
        self.serve("plain.txt", CONTENT, "keep", "plain.txt")
        (self.server / "plain.txt").unlink()
        self.fails("plain.txt could not be fetched")
        self.assertEqual(self.names(), [])

    def test_what_does_not_unpack_leaves_nothing_under_its_name(self):
        self.serve("images.gz", gzip.compress(CONTENT)[:-20], "gunzip", "images")
        self.fails("could not be unpacked")
        self.assertNotIn("images", self.names())
        self.assertFalse([name for name in self.names() if name.startswith(".unpacking")])

    def test_a_server_that_states_no_checksum_is_refused(self):
        self.serve("plain.txt", CONTENT, "keep", "plain.txt", "stated")
        self.fails("states no checksum")
        self.assertEqual(self.names(), [])

    def test_lists_sets_and_refuses_others(self):
        self.assertEqual(self.fetch("--list").stdout, f"{'trial':<22} a trial\n")
        self.assertIn("unknown set 'other'; there are: trial", self.fetch("other", "x").stderr)
        self.assertEqual(self.fetch("trial").returncode, 1)

    def test_every_set_that_comes_with_it_is_complete(self):
        fields = {}
        for line in SCRIPT.with_name("data-sets").read_text().splitlines():
            if line and not line.startswith("#"):
                name, field, value = line.split(None, 2)
                fields.setdefault(name, {}).setdefault(field, []).append(value)
        listed = subprocess.run([SCRIPT, "--list"], capture_output=True, text=True, check=True)
        self.assertEqual([line.split()[0] for line in listed.stdout.splitlines()], list(fields))
        for name, of in fields.items():
            self.assertEqual(set(of), {"about", "use", "file"}, name)
            for file in of["file"]:
                how, checksum, _, url = file.split()
                self.assertIn(how, ("keep", "gunzip", "untar"))
                self.assertRegex(checksum, "^(md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}|stated)$")
                self.assertTrue(url.startswith("https://"))


if __name__ == "__main__":
    unittest.main()
