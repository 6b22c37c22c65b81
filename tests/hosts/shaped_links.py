"""A comparison on two hosts of one core each, whose links are shaped: calibrated, predicted, measured.

    python3 -B tests/hosts/shaped_links.py --mbit 1000 --output results/1-gbit [FILE] [-- OPTION ...]

`ringside calibrate FILE` writes OUTPUT/hosts.toml, and `ringside compare FILE` with the options then predicts every
case and measures it. Needs root, two cores, and a machine that does nothing else.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from hosts import Stage  # noqa: E402
from hosts.comparisons import finish, program  # noqa: E402

EXPERIMENT = pathlib.Path(__file__).resolve().parents[2] / "experiments/measured/two-hosts.toml"


class ShapedLinks:
    """Hosts with a core each; `mbit` of Ethernet frames a second go over every link, None is as fast as it can."""

    def __init__(self, stage, mbit):
        self.stage = stage
        if mbit:
            stage.shape(mbit=mbit, burst="256k", largest=65536)
        stage.host(0).run([program(), "keys", stage.shared / "keys", "--workers", "16"])

    def together(self, *words, timeout=900):
        """Runs `ringside WORDS` as a job of one agent a host; what agent 0 printed. Ends the program on a failure."""
        started = []
        for agent in range(self.stage.count):
            job = ["--keys", self.stage.shared / "keys", "--results", self.stage.shared / "results"]
            started.append(self.stage.host(agent).start(
                ["taskset", "-c", agent, program(), *words, *job], text=True, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={"RANK": agent, "WORLD_SIZE": self.stage.count, "MASTER_ADDR": "host0", "MASTER_PORT": 29500}))
        printed, statuses = finish(started, timeout)
        if any(statuses):
            raise SystemExit("\n".join(printed))
        return printed[0]


def main():
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("file", nargs="?", default=EXPERIMENT, type=pathlib.Path)
    asked.add_argument("--mbit", type=int)
    asked.add_argument("--output", type=pathlib.Path, required=True)
    asked.add_argument("options", nargs="*", default=[])
    asked = asked.parse_args()
    with Stage(hosts=2) as stage:
        links = ShapedLinks(stage, asked.mbit)
        print(links.together("calibrate", asked.file.resolve()), flush=True)
        print(links.together("compare", asked.file.resolve(), *asked.options), flush=True)
        shutil.copytree(stage.folder / "results", asked.output, dirs_exist_ok=True)


if __name__ == "__main__":
    main()
