"""scripts/gallery draws a picture of each folder, with a program of the test in the place of ringside."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = """#!/bin/sh
# report FOLDER --output FILE --figures DIR
[ "$1" = report ] || exit 9
case $2 in *broken) echo "$2: rows of schema 3" >&2; exit 2;; esac
echo "<svg>speed-up</svg>" > "$6/speed-up.svg"
echo "<svg>memory of $2</svg>" > "$6/memory.svg"
"""


class Gallery(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        (self.root / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/gallery", self.root / "scripts/gallery")
        for name in ("quickstart", "offload", "broken", "machine/small"):
            (self.root / "results/reference" / name).mkdir(parents=True)
            (self.root / "results/reference" / name / "rows.jsonl").write_text("")
        (self.root / "results/reference/comm").mkdir()  # no comparison
        self.page = self.root / "results/README.md"
        self.page.write_text("### offload\n\nWhat it shows.\n\n### quickstart\n\nThat too.\n\n### machine\n\nAnd that.\n")
        self.program = self.root / "ringside"
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)

    def run_script(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, self.root / "scripts/gallery", "--program", self.program, *arguments],
                              capture_output=True, text=True, check=False)

    def picture(self, name: str) -> str:
        return (self.root / f"results/gallery/{name}.svg").read_text()

    def test_draws_the_figure_that_shows_what_a_comparison_is_about(self):
        ended = self.run_script("quickstart", "offload", "machine")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(self.picture("quickstart"), "<svg>speed-up</svg>\n")
        self.assertIn("memory of", self.picture("offload"))
        self.assertEqual(self.picture("machine"), "<svg>speed-up</svg>\n")

    def test_shows_a_picture_once(self):
        self.run_script("quickstart")
        self.run_script("quickstart")
        self.assertEqual(self.page.read_text().count("![speed-up of quickstart](gallery/quickstart.svg)"), 1)
        self.assertLess(self.page.read_text().index("### quickstart"), self.page.read_text().index("gallery/"))

    def test_says_which_folder_cannot_be_drawn_and_draws_the_others(self):
        ended = self.run_script()
        self.assertEqual(ended.returncode, 1)
        self.assertIn("broken: ", ended.stderr)
        self.assertIn("rows of schema 3", ended.stderr)
        self.assertIn("memory of", self.picture("offload"))

    def test_refuses_a_name_that_is_no_comparison(self):
        ended = self.run_script("comm")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("no rows of a comparison comm", ended.stderr)

    def test_draws_the_readers_own_results_where_git_has_no_rows(self):
        (self.root / "results/reference/network").mkdir()
        (self.root / "results/network").mkdir()
        (self.root / "results/network/rows.jsonl").write_text("")
        ended = self.run_script("network")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(self.picture("network"), "<svg>speed-up</svg>\n")


if __name__ == "__main__":
    unittest.main()
