"""The specs of the report's figures, and scripts/report-figures, on a made-up report that has something of everything."""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "report-figures"
PAGE = ROOT / "experiments/runner/report/page"
SPECS = {path.stem: json.loads(path.read_text()) for path in sorted((PAGE / "figures").glob("*.json"))}
HAVE_VL_CONVERT = importlib.util.find_spec("vl_convert") is not None
SVG = "{http://www.w3.org/2000/svg}"


def case(family, world, scale, **more):
    """One of the summary's cases; `scale` sets it apart from others."""
    kinds = {kind: 1e6 * scale for kind in ("parameter", "gradient", "optimizer", "activation", "communication",
                                            "workspace", "data")}
    ranks = [{"rank": rank, "role": "worker", "host": "h", "peak": 7e6 * (scale + (rank == 0)), "at_peak": kinds}
             for rank in range(world)]
    steps = list(range(1, 31))
    curve = {"step": steps, "samples": [16 * step for step in steps], "seconds": [0.1 * step * scale for step in steps],
             "bytes": [1e6 * step * scale for step in steps], "loss": [5 / step + scale for step in steps]}
    return {"label": family, "family": family, "world": world, "purpose": "asked", "repeats": 2, "failed": 0,
            "samples_per_s": 100 * scale, "speed_up": scale, "speed_up_interval": [0.9 * scale, 1.1 * scale],
            "efficiency": scale / world, "step_ms": 10 / scale, "overlap": 0.5,
            "time_ms": {"compute": 8.0, "exposed": 1.0, "hidden": 2.0, "optimizer": 0.5, "data": 0.1, "encoding": 0.1,
                        "idle": 0.3},
            "bytes_sent_per_step": 2e6 * scale, "bytes_minimum_per_step": 1e6, "bytes_computed": False,
            "memory": {"peak": 7e6 * (scale + 1), "ranks": ranks}, "loss_curve": curve,
            "held_out_curve": {key: values[::10] for key, values in curve.items()}, "target_loss": 1.5,
            "time_to_loss": {"target": {"median": 1.5, "range": [1.5, 1.5]}, "seconds": {"median": scale, "range": [0.5, 3]},
                             "samples": {"median": 100, "range": [90, 110]}},
            "staleness": {"histogram": [5, 3, 1]},
            "mfu": {"value": 0.4, "hfu": None, "peak_flops": 1e11, "dtype": "fp32", "formula": "6 N", "peak_source": "table"},
            "predicted": {"step_ms": 9 / scale, "step_ms_error": -0.1, "memory_peak": 7e6 * (scale + 1),
                          "memory_peak_error": 0.0},
            "published": [{"figure": "step ms", "published": 11.0, "here": 10.0, "deviation": -0.09, "fitted": False,
                           "verdict": "within 10%"}], **more}


def sweep(key, values, numeric, quantity="samples/s"):
    lines = [{"family": family, "figures": [10.0 * (number + 1) for number in range(len(values))]}
             for family in ("single", "ddp")]
    changes = [{"after": values[0], "before": values[1], "from": "single", "to": "ddp"}]
    return {"quantity": quantity, "key": key, "fixed": "world 2", "values": values, "numeric": numeric, "lines": lines, "changes": changes}


SUMMARY = {"cases": [case("single", 1, 1.0), case("ddp", 2, 1.9), case("ps <a & b>", 4, 3.0)],
           "sweeps": [sweep("sim.network_gbit_s", [0, 1, 10], True), sweep("train.recompute", ["none", "full"], False),
                      sweep("sim.network_gbit_s", [0, 1, 10], True, "seconds to loss")]}


def report(*named):
    """A page with as much as the script reads of one. `named`: (name of the experiment, summary)."""
    def part(name, content):
        text = json.dumps(content).replace("<", "\\u003c")
        return f'<script type="application/json" id="report-{name}">{text}</script>\n'
    data = {"reports": [{"name": name, "summary": summary} for name, summary in named]}
    return ("<style>" + (PAGE / "report.css").read_text() + "</style>\n" + part("figures", SPECS)
            + part("theme", json.loads((PAGE / "theme.json").read_text())) + part("data", data))


class Figures(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def draw(self, text, **environment):
        (self.folder / "report.html").write_text(text)
        return subprocess.run([sys.executable, "-B", SCRIPT, self.folder / "report.html", self.folder / "figures"],
                              env={**os.environ, **environment}, capture_output=True, text=True, timeout=60)

    def test_every_spec_says_what_the_page_needs(self):
        topics = (PAGE / "report.js").read_text()
        for name, spec in SPECS.items():
            with self.subTest(figure=name):
                self.assertIn(f'"{name}"', topics)
                self.assertGreater(len(spec["title"]), 3)
                self.assertGreater(len(spec["description"]), 40)
                self.assertEqual(spec["data"], {"name": spec["usermeta"]["data"]})
                self.assertLessEqual({"families", "drawn", "hidden"}, {one["name"] for one in spec["params"]})
                self.assertLessEqual(set(spec["usermeta"]), {"data", "fields", "where", "each", "wide"})

    def test_colours_are_those_of_the_style(self):
        defined = set(re.findall(r"(--[\w-]+): light-dark", (PAGE / "report.css").read_text()))
        for text in (json.dumps(SPECS), (PAGE / "theme.json").read_text()):
            self.assertEqual(set(re.findall(r"var\((--[\w-]+)\)", text)) - defined, set())
            self.assertEqual(re.findall(r"#[0-9a-fA-F]{3,8}\b", text), [])

    @unittest.skipUnless(HAVE_VL_CONVERT, "vl-convert is missing (scripts/setup fetches it)")
    def test_every_figure_has_marks(self):
        import vl_convert
        loader = importlib.machinery.SourceFileLoader("report_figures", str(SCRIPT))
        script = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
        loader.exec_module(script)
        page = report(("made-up", SUMMARY))
        specs, theme = (script.coloured(script.script(page, part), script.light_colours(page)) for part in ("figures", "theme"))
        drawn = dict(script.figures_of(specs, SUMMARY, script.families_of(SUMMARY)))
        self.assertEqual({re.sub(r"-\d+$", "", name) for name in drawn}, set(SPECS))
        for name, spec in drawn.items():
            with self.subTest(figure=name):
                svg = vl_convert.vegalite_to_svg(spec, config=theme)
                self.assertNotIn("NaN", svg)
                self.assertNotIn("var(", svg)
                groups = [group for group in xml.etree.ElementTree.fromstring(svg).iter(f"{SVG}g")
                          if "role-mark" in group.get("class", "")]
                self.assertGreater(sum(len(group.findall(f"{SVG}{tag}")) for group in groups
                                       for tag in ("path", "line", "text", "rect")), 1)

    @unittest.skipUnless(HAVE_VL_CONVERT, "vl-convert is missing (scripts/setup fetches it)")
    def test_files_for_papers(self):
        bare = {"cases": [{"label": "ddp", "family": "ddp", "world": 2, "bytes_sent_per_step": 2e6,
                           "bytes_minimum_per_step": 1e6, "bytes_computed": False}]}
        done = self.draw(report(("a", bare), ("b", bare)))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        names = [f"{name}-bytes.{ending}" for name in "ab" for ending in ("svg", "png")]
        self.assertEqual(done.stdout.split(), [str(self.folder / "figures" / name) for name in names])
        png = (self.folder / "figures" / "a-bytes.png").read_bytes()
        self.assertTrue(png.startswith(b"\x89PNG"))
        dots_a_metre = int.from_bytes(png[png.index(b"pHYs") + 4:][:4], "big")
        self.assertAlmostEqual(dots_a_metre * 0.0254, 300, delta=1)

    def test_files_take_the_place_of_links(self):
        bare = {"cases": [{"label": "ddp", "family": "ddp", "world": 2, "bytes_sent_per_step": 2e6,
                           "bytes_minimum_per_step": 1e6, "bytes_computed": False}]}
        folder = self.folder / "drawing"
        folder.mkdir()
        (folder / "vl_convert.py").write_text("def vegalite_to_svg(spec, **more): return '<svg/>'\n"
                                              "def vegalite_to_png(spec, **more): return b'png'\n")
        private = self.folder / "private"
        private.write_text("private")
        (self.folder / "figures").mkdir()
        (self.folder / "figures" / "bytes.svg").symlink_to(private)
        done = self.draw(report(("a", bare)), PYTHONPATH=str(folder))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(private.read_text(), "private")
        written = {path.name: path.read_bytes() for path in (self.folder / "figures").iterdir()}
        self.assertEqual(written, {"bytes.svg": b"<svg/>", "bytes.png": b"png"})
        self.assertFalse((self.folder / "figures" / "bytes.svg").is_symlink())

    def test_what_is_no_report(self):
        folder = self.folder / "without"
        folder.mkdir()
        (folder / "vl_convert.py").write_text("raise ImportError")
        done = self.draw(report(("a", SUMMARY)), PYTHONPATH=str(folder))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^report-figures: vl-convert is missing: .*\n$")
        (folder / "vl_convert.py").write_text("")
        for text, cause in (("<p>no report", 'has no part "report-data"'),
                            ('<script type="application/json" id="report-data">{</script>', "is no JSON")):
            done = self.draw(text, PYTHONPATH=str(folder))
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, rf"^report-figures: .*report\.html: .*{cause}.*\n$")
        self.assertFalse((self.folder / "figures").exists())


if __name__ == "__main__":
    unittest.main()
