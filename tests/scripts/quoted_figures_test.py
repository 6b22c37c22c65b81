"""Figures that pages quote in tables are those of the committed results.

A table of a page is held against the folder that its section has named last: results/reference/NAME, or the experiment
file of that name. A row is found by its label, and by its world if both tables have that column; columns are found by
their headings, without a unit behind them. Cells are compared by the number with which they begin, to the digits that
the page has. What a page leaves out, and labels that it words otherwise, are not compared.
"""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "results").glob("*.md")),
         *(page for folder in ("docs", "core", "ps", "peer", "experiments") for page in sorted((ROOT / folder).rglob("*.md")))]
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
RESULTS = re.compile(r"results/reference/([\w./-]*\w)|experiments/(?:\w+/)*([\w.-]+)\.toml")
NUMBER = re.compile(r"[+-]?\d[\d,]*(?:\.(\d+))?")


def rows_of(table: str) -> list[dict[str, str]]:
    """The rows of a Markdown table, each with its label under 'scheme'."""
    lines = [[cell.strip(" *~`") for cell in line.strip("| ").split("|")] for line in table.splitlines()]
    names = ["scheme", *(re.sub(r" (ms|MB|GB)$", "", heading) for heading in lines[0][1:])]
    return [dict(zip(names, line)) for line in lines[2:] if len(line) == len(names)]


def folder_before(section: str, place: int) -> pathlib.Path | None:
    """The folder of results that the section has named last before a place."""
    named = [found[1] or found[2] for found in RESULTS.finditer(section, 0, place)]
    folder = ROOT / "results/reference" / named[-1] if named else None
    return folder if folder and (folder / "summary.md").exists() else None


def agree(quoted: str, made: str) -> bool | None:
    """Whether both begin with the same number, to the digits of the quoted one; None without numbers."""
    one, other = NUMBER.match(quoted), NUMBER.match(made)
    if not one or not other:
        return None
    return abs(float(one[0].replace(",", "")) - float(other[0].replace(",", ""))) <= 0.501 * 10 ** -len(one[1] or "")


class QuotedFigures(unittest.TestCase):
    def compare(self, page: pathlib.Path, quoted: dict, made: list[dict], folder: pathlib.Path) -> int:
        """Compares a row of a page with the rows of a summary; returns how many of its figures are there."""
        compared = 0
        same = [row for row in made if row["scheme"] == quoted["scheme"]
                and row.get("world", quoted.get("world")) == quoted.get("world", row.get("world"))]
        for name in sorted(quoted.keys() - {"scheme", "world"}):
            figures = [row[name] for row in same if name in row]
            agreed = [one for one in (agree(quoted[name], figure) for figure in figures) if one is not None]
            if agreed and not any(agreed):
                self.wrong.append(f"{page.relative_to(ROOT)}: {quoted['scheme']}, {name}: {quoted[name]}; "
                                  f"{folder.relative_to(ROOT)} has {', '.join(figures)}")
            compared += bool(agreed)
        return compared

    def test_are_those_of_the_results(self):
        compared, self.wrong = 0, []
        for page in PAGES:
            for section in re.split(r"^#+ ", page.read_text(), flags=re.MULTILINE):
                for table in TABLE.finditer(section):
                    if folder := folder_before(section, table.start()):
                        made = [row for one in TABLE.findall((folder / "summary.md").read_text()) for row in rows_of(one)]
                        for row in rows_of(table[0]):
                            compared += self.compare(page, row, made, folder)
        self.assertEqual("\n".join(self.wrong), "")
        self.assertGreater(compared, 800)

    def test_results_in_git_stay_within_10_mb(self):
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--", "results"], capture_output=True, text=True,
                                check=False)
        if listed.returncode != 0 or not listed.stdout:
            self.skipTest("no git repository")
        files = [ROOT / name for name in listed.stdout.split("\0") if name]
        sizes = {path.relative_to(ROOT).as_posix(): path.stat().st_size for path in files if path.exists()}
        largest = sorted(sizes, key=sizes.get, reverse=True)[:5]
        self.assertLess(sum(sizes.values()), 10e6, f"results/README.md says what stays; the largest: {largest}")


if __name__ == "__main__":
    unittest.main()
