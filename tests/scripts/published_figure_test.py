"""scripts/published-figure on made-up tables: a point for every figure, one line for what is wrong."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "published-figure"
SVG = "{http://www.w3.org/2000/svg}"
HAVE_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


def figure(table, published, simulated, **more):
    return {"table": table, "figure": "GB at peak", "published": published, "simulated": simulated,
            "measured": None, "fitted": False, "verdict": "within 10%", **more}


FIGURES = [figure("A", 1.0, 1.0), figure("A", 10.0, 10.5), figure("A", 10.0, 10.5),
           figure("A", 10.0, 9.9, fitted=True), figure("A", 5, 50, verdict="contradicted"),
           figure("$\\B$ & C", 7.2, None, measured=7.0), figure("$\\B$ & C", 100, 150, verdict="OPEN"),
           figure("$\\B$ & C", 3.0, None, verdict="FAILED"),
           figure("none", 5.0, 50.0, fitted=True, verdict="contradicted")]


class PublishedFigure(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        self.tables, self.picture = self.root / "tables.json", self.root / "picture.svg"

    def draw(self, content, picture=None, **environment):
        self.tables.write_text(content if isinstance(content, str) else json.dumps(content))
        return subprocess.run([sys.executable, "-B", SCRIPT, self.tables, picture or self.picture],
                              env={**os.environ, **environment}, capture_output=True, text=True,
                              timeout=60, check=False)

    def fails(self, done, status, said):
        self.assertEqual(done.returncode, status, done)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("scripts/published-figure: "), done.stderr)
        self.assertIn(said, done.stderr)
        self.assertFalse(self.picture.exists())

    @unittest.skipUnless(HAVE_MATPLOTLIB, "matplotlib is missing (apt install python3-matplotlib)")
    def test_draws_a_point_for_every_figure_and_the_same_file_again(self):
        done = self.draw({"tables": [], "figures": FIGURES})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("8 figures; left out 1", done.stdout)
        first = self.picture.read_bytes()
        points, medians = {}, {}
        for group in xml.etree.ElementTree.fromstring(first).iter(f"{SVG}g"):
            name = group.get("id", "")
            if name.startswith(("value-", "deviation-")):
                points[name] = [(float(use.get("x")), float(use.get("y")))
                                for use in group.iter(f"{SVG}use")]
            if name.startswith("median-"):
                medians[name] = float(group.find(f"{SVG}path").get("d").split()[2])
        self.assertEqual({name: len(places) for name, places in points.items()}, {
            "value-0-predicted": 3, "value-0-fitted": 1, "value-0-contradicted": 1,
            "value-1-predicted": 2, "value-2-contradicted": 1,
            "deviation-0-predicted": 3, "deviation-0-fitted": 1, "deviation-1-predicted": 2})
        # Two figures with the same values lie side by side.
        deviations = points["deviation-0-predicted"]
        self.assertEqual(len(set(deviations)), 3)
        # Table A's deviations are -1%, 0%, 5% and 5%, and one that is contradicted and does not count.
        self.assertEqual(set(medians), {"median-0", "median-1"})
        heights = [height for _, height in deviations]
        self.assertAlmostEqual(medians["median-0"], (min(heights) + max(heights)) / 2, places=4)
        again = self.draw({"tables": [], "figures": FIGURES}, PYTHONHASHSEED="1")
        self.assertEqual(again.returncode, 0, again)
        self.assertEqual(self.picture.read_bytes(), first)

    def test_says_in_one_line_what_is_wrong_with_the_tables(self):
        for content, said in (
                ("# not JSON", "is no JSON"), ("[]", 'has no list "figures"'),
                ({"figures": []}, "nothing to draw"),
                ({"figures": [FIGURES[0], figure("A", 0, 1.0)]},
                 'figure 2 has no "published" that is a number above 0'),
                ({"figures": [figure("A", 1.0, 1.0, fitted=None)]}, 'figure 1 has no "fitted"'),
                ({"figures": [figure("A", 1.0, "1")]}, 'figure 1 has a "simulated" or "measured"')):
            with self.subTest(content=content):
                self.fails(self.draw(content), 1, said)

    def test_says_what_to_install_where_matplotlib_is_missing(self):
        (self.root / "matplotlib.py").write_text("raise ImportError('none here')\n")
        done = self.draw({"figures": FIGURES}, PYTHONPATH=str(self.root))
        self.fails(done, 2, "apt install python3-matplotlib")


if __name__ == "__main__":
    unittest.main()
