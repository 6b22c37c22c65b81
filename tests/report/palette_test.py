"""Colours of the report: they stand out from their ground, and stay apart for eyes without red, green or blue receptors.

Simulated as in Machado, Oliveira and Fernandes 2009 (severity 1); distances are those of the space Oklab
(Ottosson 2020), in which black and white are 1 apart and 0.02 is just noticeable.
"""

import itertools
import math
import pathlib
import re
import unittest

STYLE = pathlib.Path(__file__).resolve().parents[2] / "experiments/runner/report/page/report.css"
EYES = {
    "all receptors": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "no blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
APART = 0.10  # between any two colours of one figure


def linear(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def product(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def oklab(rgb):
    cones = product(((0.4122214708, 0.5363325363, 0.0514459929), (0.2119034982, 0.6806995451, 0.1073969566),
                     (0.0883024619, 0.2817188376, 0.6299787005)), rgb)
    return product(((0.2104542553, 0.7936177850, -0.0040720468), (1.9779984951, -2.4285922050, 0.4505937099),
                    (0.0259040371, 0.7827717662, -0.8086757660)), [max(0, part) ** (1 / 3) for part in cones])


def contrast(one, other):
    low, high = sorted(sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear(c))) for c in (one, other))
    return (high + 0.05) / (low + 0.05)


class Palette(unittest.TestCase):
    def setUp(self):
        found = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", STYLE.read_text())
        self.themes = {"light": {name: light for name, light, _ in found}, "dark": {name: dark for name, _, dark in found}}

    def group(self, theme, kind):
        colours = [colour for name, colour in self.themes[theme].items() if name.startswith(kind + "-")]
        self.assertGreaterEqual(len(colours), 7, kind)
        return colours

    def test_colours_stay_apart_for_all_eyes(self):
        for theme, kind, (eyes, matrix) in itertools.product(self.themes, ("series", "part", "kind"), EYES.items()):
            seen = {colour: oklab(product(matrix, linear(colour))) for colour in self.group(theme, kind)}
            for one, other in itertools.combinations(seen, 2):
                with self.subTest(theme=theme, kind=kind, eyes=eyes, colours=(one, other)):
                    self.assertGreaterEqual(math.dist(seen[one], seen[other]), APART)

    def test_colours_stand_out_from_their_ground(self):
        for theme, colours in self.themes.items():
            for kind, least in (("series", 3), ("part", 2.2), ("kind", 2.2)):  # parts and kinds touch each other
                for colour in self.group(theme, kind):
                    with self.subTest(theme=theme, kind=kind, colour=colour):
                        self.assertGreaterEqual(contrast(colour, colours["surface"]), least)
            for ground in ("surface", "page"):
                for text in ("ink", "ink-soft", "link"):
                    with self.subTest(theme=theme, text=text, ground=ground):
                        self.assertGreaterEqual(contrast(colours[text], colours[ground]), 4.5)


if __name__ == "__main__":
    unittest.main()
