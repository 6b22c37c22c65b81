"""report.html in a headless browser: page_test.py PROGRAM

The program makes the reports of quickstart, of a simulated sweep, of an asynchronous comparison, of a hundred cases and
of simulated pipelines. They are opened on a desktop and a phone, light, dark and printed, read by axe, walked through with the keyboard, and
their buttons are pressed.
"""

import csv
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import browser

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
QUICKSTART = [word for setting in ("train.steps=8", "train.warmup=2", "compare.repeats=2", "compare.attempts=1",
                                   "device.peak_tflops=0.1") for word in ("--set", setting)]
EXPERIMENTS = {"quickstart": (ROOT / "experiments" / "quickstart.toml", *QUICKSTART), "sweep": (HERE / "sweep.toml",),
               "asynchronous": (HERE / "asynchronous.toml",), "hundred": (HERE / "hundred.toml",),
               "pipelines": (HERE / "pipelines.toml",)}
# Figures that a report has if its experiment has what they draw.
FIGURES = {
    "quickstart": {"speed-up", "step-time", "mfu", "bytes", "memory", "loss-samples", "loss-seconds", "loss-bytes"},
    "sweep": {"speed-up", "sweep-numbers-1", "sweep-numbers-2", "step-time", "mfu", "bytes", "memory"},
    "asynchronous": {"speed-up", "step-time", "bytes", "memory", "loss-samples", "loss-seconds", "loss-bytes",
                     "time-to-loss", "staleness"},
    "pipelines": {"speed-up", "sweep-names-1", "step-time", "mfu", "bytes", "memory"},
    "hundred": {"sweep-numbers-1", "step-time", "memory", "loss-samples", "loss-seconds", "loss-bytes"},
}
LARGEST = 6e6  # bytes of a report of a hundred cases
SLOWEST = 2.0  # seconds until all of its figures are drawn

MARKS = "path, line, rect, text"  # of SVG, below a group of marks


def figures_script():
    """scripts/report-figures as a module."""
    path = str(ROOT / "scripts" / "report-figures")
    loader = importlib.machinery.SourceFileLoader("report_figures", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        results = pathlib.Path(temporary.name)
        for experiment in EXPERIMENTS.values():
            cls.program("compare", *experiment, "--results", results)
        cls.pages = {name: results / name / "report.html" for name in EXPERIMENTS}
        for name in EXPERIMENTS:
            cls.program("report", results / name)
        cls.pages["together"] = results / "together.html"
        cls.program("report", results / "quickstart", results / "asynchronous", "--output", cls.pages["together"])
        cls.data = {name: figures_script().script(page.read_text(), "data") for name, page in cls.pages.items()}
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    @classmethod
    def program(cls, *arguments):
        done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=240)
        if done.returncode != 0:
            raise AssertionError(f"ringside {arguments} ended with {done.returncode}: {done.stderr}")

    def figures(self):
        """{name: number of marks} of the figures in the page."""
        return self.browser.run("""return Object.fromEntries([...document.querySelectorAll("figure")].map((figure) =>
            [figure.getAttribute("aria-labelledby").replace(/^report-\\d+-figure-/, ""),
             [...figure.querySelectorAll("svg g[class*=mark-]")].filter((group) => /role-mark/.test(group.className.baseVal))
               .flatMap((group) => [...group.querySelectorAll(arguments[0])]).length]))""", MARKS)

    def check_page(self, page):
        """Checks that hold however the page is shown."""
        self.assertEqual(self.browser.complaints(), [])
        asked = {url for url in self.browser.requests() if not url.startswith("data:")}
        self.assertEqual(asked, {page.as_uri()})
        self.assertEqual(self.browser.run("return performance.getEntriesByType('resource').map((one) => one.name)"), [])
        self.assertEqual(self.browser.grave_findings(), [])
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth - innerWidth"), 0)
        wide = self.browser.run("""return [...document.querySelectorAll(".plot svg")].filter((svg) =>
            svg.getBoundingClientRect().width > svg.closest(".plot").clientWidth + 1).map((svg) => svg.ariaLabel)""")
        self.assertEqual(wide, [])
        named = self.browser.run("""return [...document.querySelectorAll("figure")].map((figure) => {
            const plot = figure.querySelector("svg [role=graphics-document], svg[role=graphics-document]")
                ?? figure.querySelector("[role=graphics-document]");
            return [figure.querySelector("h4").textContent, plot?.getAttribute("aria-label"),
                    figure.querySelector("figcaption").textContent.length]; })""")
        for title, label, caption in named:
            self.assertEqual(label, title)
            self.assertGreater(caption, 40, title)
        twice = self.browser.run("""const ids = [...document.querySelectorAll("[id]")].filter((one) => !one.closest("svg"))
            .map((one) => one.id); return ids.filter((id, index) => ids.indexOf(id) !== index)""")
        self.assertEqual(twice, [])

    def test_every_figure_is_drawn_on_each_screen(self):
        for name in ("quickstart", "sweep", "asynchronous", "pipelines", "together"):
            for width, theme in ((1400, "light"), (1400, "dark"), (360, "light"), (360, "dark")):
                with self.subTest(report=name, width=width, theme=theme):
                    page = self.pages[name]
                    self.browser.open(page, width, theme=theme)
                    self.check_page(page)
                    figures = self.figures()
                    for figure, marks in figures.items():
                        self.assertGreater(marks, 0, figure)
                    expected = FIGURES.get(name) or FIGURES["quickstart"] | FIGURES["asynchronous"]
                    self.assertEqual(expected - set(figures), set())
                    ground = self.browser.run("return getComputedStyle(document.body).backgroundColor")
                    brightness = sum(map(int, re.findall(r"\d+", ground)[:3]))
                    (self.assertGreater if theme == "light" else self.assertLess)(brightness, 384)

    def test_the_page_and_the_script_for_papers_choose_the_same_figures(self):
        module = figures_script()
        for name in ("quickstart", "sweep", "asynchronous"):
            with self.subTest(report=name):
                summary = self.data[name]["reports"][0]["summary"]
                specs = module.script(self.pages[name].read_text(), "figures")
                self.browser.open(self.pages[name])
                expected = {figure for figure, _ in module.figures_of(specs, summary, module.families_of(summary))}
                self.assertEqual(set(self.figures()), expected)

    def test_every_schedule_of_a_pipeline_is_drawn_below_its_tables(self):
        self.browser.open(self.pages["pipelines"])
        report = self.data["pipelines"]["reports"][0]
        self.assertLessEqual({"pipelines", "stages"}, {table["id"] for table in report["tables"]})
        drawn = self.browser.run("""return [...document.querySelectorAll("section.card")].filter((card) =>
            card.querySelector(".scroll")?.shadowRoot).map((card) => {
              const svg = card.querySelector(".scroll").shadowRoot.querySelector("svg");
              return [card.querySelector("h4").textContent, svg.getBoundingClientRect().height,
                      [...svg.querySelectorAll("text")].map((one) => one.textContent)]; })""")
        self.assertEqual([title for title, _, _ in drawn], [picture["title"] for picture in report["pictures"]])
        self.assertEqual(len(drawn), 6, "a picture for each case with a pipeline")
        for title, height, texts in drawn:
            self.assertGreater(height, 20, title)
            self.assertLessEqual({"rank 0", "rank 1"}, set(texts), title)

    def test_a_scheme_has_one_colour_and_can_be_hidden(self):
        self.browser.open(self.pages["quickstart"])
        colours = self.browser.run("""return [...document.querySelectorAll("figure")].flatMap((figure) =>
            [...figure.querySelectorAll("g.role-legend-entry > g > g")].flatMap((entry) =>
              [...entry.querySelectorAll("g.role-legend-symbol path")].map((symbol, index) =>
                [entry.querySelectorAll("g.role-legend-label text")[index]?.textContent ?? "",
                 symbol.getAttribute("fill") !== "transparent" && symbol.getAttribute("fill") || symbol.getAttribute("stroke")])))""")
        series = {}
        for scheme, colour in colours:
            if "--series" in (colour or ""):
                series.setdefault(scheme, set()).add(colour)
        self.assertGreaterEqual(len(series), 5)
        for scheme, used in series.items():
            self.assertEqual(len(used), 1, scheme)

        before = self.figures()
        box = "[...document.querySelectorAll('#schemes label')].find((one) => one.textContent.includes('fsdp')).control"
        self.browser.run(f"{box}.click(); return new Promise((done) => setTimeout(done, 300))")
        hidden = self.figures()
        for figure, marks in before.items():
            self.assertLess(hidden[figure], marks, figure)
        self.browser.run(f"{box}.click(); return new Promise((done) => setTimeout(done, 300))")
        self.assertEqual(self.figures(), before)
        self.assertEqual(self.browser.complaints(), [])

    def test_values_are_shown_on_hover(self):
        self.browser.open(self.pages["quickstart"])
        for figure in self.figures():
            with self.subTest(figure=figure):
                place = self.browser.run("""const figure = document.querySelector(`figure[aria-labelledby$="-figure-${arguments[0]}"]`);
                    figure.scrollIntoView({behavior: "instant", block: "center"});
                    const marks = [...figure.querySelectorAll("g.role-mark path")].filter((one) => one.__data__?.tooltip);
                    return marks.map((one) => one.getBoundingClientRect()).filter((box) => box.width > 2 && box.height > 2)
                      .slice(0, 1).map((box) => [box.x + box.width / 2, box.y + box.height / 2])[0]""", figure)
                self.assertIsNotNone(place)
                for x in (1, place[0]):  # from outside onto the mark
                    self.browser.devtools("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=place[1])
                shown = self.browser.run("""const shown = document.querySelector("#vg-tooltip-element.visible");
                    return shown && getComputedStyle(shown).visibility === "visible" ? shown.textContent : ''""")
                self.assertRegex(shown, r"\d")

    def test_the_reader_chooses_light_or_dark(self):
        self.browser.open(self.pages["quickstart"], theme="light")
        choose = """const choice = document.getElementById("colours"); choice.value = arguments[0];
            choice.dispatchEvent(new Event("change")); const bar = document.querySelector("figure .mark-text text");
            return [getComputedStyle(document.body).backgroundColor, getComputedStyle(bar).fill]"""
        light, dark = self.browser.run(choose, "light"), self.browser.run(choose, "dark")
        self.assertNotEqual(light[0], dark[0])
        self.assertNotEqual(light[1], dark[1])
        self.assertEqual(self.browser.run(choose, ""), light)

    def test_the_keyboard_reaches_every_control_and_each_has_a_name(self):
        from selenium.webdriver.common.by import By
        from selenium.webdriver.common.keys import Keys
        self.browser.open(self.pages["quickstart"])
        controls = self.browser.driver.find_elements(By.CSS_SELECTOR, "a, button, input, select, summary, [tabindex='0']")
        self.assertGreater(len(controls), 20)
        for control in controls:
            if control.tag_name != "summary":  # a summary is named by its text
                self.assertNotEqual(control.accessible_name, "", control.get_attribute("outerHTML"))
            self.assertTrue(control.accessible_name or control.text)
        reached = []
        for _ in range(len(controls) + 5):
            self.browser.driver.switch_to.active_element.send_keys(Keys.TAB)
            reached.append(self.browser.driver.switch_to.active_element)
        self.assertEqual([one.get_attribute("outerHTML")[:200] for one in controls if one not in reached], [])
        self.assertEqual(reached[0].get_attribute("textContent"), "Skip to the results")
        reached[0].send_keys(Keys.ENTER)
        self.assertEqual(self.browser.run("return document.activeElement.id"), "results")

    def test_tables_are_copied_as_they_stand(self):
        for name, index in (("quickstart", 0), ("asynchronous", 0)):
            self.browser.open(self.pages[name])
            table = self.data[name]["reports"][0]["tables"][index]
            lines = [table["columns"], *table["rows"]]
            for clipboard in ("of the browser", "of selected text"):
                if clipboard == "of selected text":  # as where a browser refuses navigator.clipboard to a file
                    self.browser.run("navigator.clipboard.writeText = () => Promise.reject(new Error('refused'))")
                with self.subTest(report=name, clipboard=clipboard):
                    self.assertEqual(list(csv.reader(io.StringIO(self.copied(table, "CSV")))), lines)
                    markdown = self.copied(table, "Markdown").splitlines()
                    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in markdown]
                    self.assertEqual([cells[0], *cells[2:]], lines)
                    self.assertTrue(all(re.fullmatch("---|--:", cell) for cell in cells[1]))
                    latex = self.copied(table, "LaTeX").splitlines()
                    self.assertRegex(latex[0], r"^\\begin\{tabular\}\{[lr]{%d}\}$" % len(lines[0]))
                    self.assertEqual([latex[1], latex[3], latex[-2], latex[-1]],
                                     ["\\toprule", "\\midrule", "\\bottomrule", "\\end{tabular}"])
                    read = [[self.from_latex(cell) for cell in line.removesuffix(" \\\\").split(" & ")]
                            for line in [latex[2], *latex[4:-2]]]
                    self.assertEqual(read, lines)

    def copied(self, table, as_format):
        button = self.browser.run("""document.getElementById("status").textContent = "";
            return [...document.querySelectorAll("button[data-format]")].find((one) =>
              one.dataset.format === arguments[0] && one.ariaLabel.includes(arguments[1]))""", as_format, table["title"])
        button.click()  # as a reader does, or the browser would refuse
        said = self.browser.run("""return new Promise((done) =>
            setTimeout(() => done(document.getElementById("status").textContent), 100))""")
        self.assertIn("Copied", said)
        return self.browser.run("return navigator.clipboard.readText()")

    @staticmethod
    def from_latex(cell):
        for written, sign in (("\\textasciitilde{}", "~"), ("\\textasciicircum{}", "^"), ("\\textless{}", "<"),
                              ("\\textgreater{}", ">"), ("\\textbar{}", "|"), ("$\\pm$", "±"), ("{[}", "[")):
            cell = cell.replace(written, sign)
        return re.sub(r"\\([&%$#_{}])", r"\1", cell)

    def test_what_cannot_be_read_is_said_on_top(self):
        damaged = self.pages["quickstart"].parents[1] / "damaged"
        shutil.copytree(self.pages["quickstart"].parent, damaged)
        with open(damaged / "rows.jsonl", "a") as rows:
            rows.write('{"schema": 1}\n{"cut o')
        self.program("report", damaged)
        self.browser.open(damaged / "report.html")
        self.check_page(damaged / "report.html")
        alert = self.browser.run("return document.querySelector('[role=alert]').innerText")
        self.assertIn("rows.jsonl", alert)
        self.assertEqual(FIGURES["quickstart"] - set(self.figures()), set())

    def test_what_is_printed(self):
        for name in ("quickstart", "sweep", "asynchronous"):
            with self.subTest(report=name):
                self.browser.open(self.pages[name], theme="dark")
                printed = self.browser.printed()
                self.assertTrue(printed.startswith(b"%PDF-"))
                self.assertGreater(len(re.findall(rb"/Type\s*/Page\b", printed)), 1)
                self.browser.devtools("Emulation.setEmulatedMedia", media="print")
                ground, controls, cut = self.browser.run("""return [getComputedStyle(document.body).backgroundColor,
                    [...document.querySelectorAll("button, select, input")].filter((one) => one.offsetParent).length,
                    [...document.querySelectorAll(".scroll")].filter((one) => getComputedStyle(one).overflowX !== "visible").length]""")
                self.assertEqual((ground, controls, cut), ("rgb(255, 255, 255)", 0, 0))

    def test_a_hundred_cases_are_a_small_file_that_opens_fast(self):
        page = self.pages["hundred"]
        self.assertGreaterEqual(len(self.data["hundred"]["reports"][0]["summary"]["cases"]), 100)
        self.assertLess(page.stat().st_size, LARGEST)
        seconds = []
        for _ in range(3):  # the fastest: other work of the machine makes no page faster
            self.browser.open(page)
            seconds.append(self.browser.run("return performance.getEntriesByName('all figures drawn')[0].startTime") / 1e3)
        print(f"a hundred cases: {page.stat().st_size / 1e6:.1f} MB, drawn after {min(seconds):.2f} s")
        self.check_page(page)
        figures = self.figures()
        self.assertEqual(FIGURES["hundred"] - set(figures), set())
        self.assertTrue(all(figures.values()), figures)
        self.assertLess(min(seconds), SLOWEST)


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    lacking = browser.missing()
    if lacking:
        print(f"skipped: {lacking}")
        sys.exit(77)  # SKIP_RETURN_CODE of CTest
    unittest.main()
