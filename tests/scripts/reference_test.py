"""The pages of docs/reference are what the program prints now; scripts/reference writes them."""

import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("RINGSIDE_PROGRAM", str(ROOT / "build/ringside"))


class Reference(unittest.TestCase):
    def test_the_pages_are_what_the_program_prints(self):
        ended = subprocess.run([sys.executable, "-B", ROOT / "scripts/reference", "--check", "--program", PROGRAM],
                               capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 0, ended.stderr)

    def test_every_key_and_every_option_has_a_row(self):
        keys = (ROOT / "docs/reference/keys.md").read_text()
        schemes = (ROOT / "docs/reference/schemes.md").read_text()
        for name in ("global_batch", "precision", "clip_norm", "target_loss"):
            self.assertRegex(keys, rf"(?m)^\| `{name}` \| `\S+` \| \S")
        for name in ("consistency", "bucket_mb", "shard", "sync_every"):
            self.assertRegex(schemes, rf"(?m)^\| `{name}` \| `\S+` \| \S")


if __name__ == "__main__":
    unittest.main()
