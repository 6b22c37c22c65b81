"""The code that docs/extending.md shows is the code of the project, line by line."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"<!-- from (\S+) -->\n+((?:    .*\n|\n)+)")


class Tutorial(unittest.TestCase):
    def test_every_block_is_in_the_file_that_it_names(self):
        text = (ROOT / "docs/extending.md").read_text()
        blocks = BLOCK.findall(text)
        self.assertGreaterEqual(len(blocks), 4)
        for name, block in blocks:
            code = "\n".join(line[4:] for line in block.rstrip().split("\n"))
            self.assertIn(code, (ROOT / name).read_text(), f"docs/extending.md shows other code than {name}")

    def test_every_file_that_it_names_is_there(self):
        text = (ROOT / "docs/extending.md").read_text()
        names = set(re.findall(r"`((?:core|peer|ps|experiments|tests)/[\w/.-]+\.\w+)`", text))
        names -= {"peer/schemes/all_at_once.cc", "peer/schemes/all_at_once.h"}  # which the reader writes
        self.assertGreater(len(names), 5)
        for name in names:
            self.assertTrue((ROOT / name).exists(), f"docs/extending.md names {name}, which is not there")


if __name__ == "__main__":
    unittest.main()
