"""A rank that no PyTorch runs: it reads its data from `ringside feed` as ranks of experiments/python do,
computes little, and reports what shows that it had the right data.

    other_program.py WHAT SCRIPT RINGSIDE SOCKET     # WHAT: report, fail, hang or wrong

Its loss of a micro-batch is the mean of the targets. It defines its runs in the same way; with `wrong` they differ
from their definition.
"""
import array
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "experiments/python"))
from ringside_peers.feed import Feed  # noqa: E402
from ringside_peers.launcher import Launcher  # noqa: E402


def targets_of(kind, data):
    """The int32 values of "targets" of a file of safetensors."""
    length = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + length]).get("targets")
    if entry is None:
        return None
    begin, end = entry["data_offsets"]
    return array.array("i", bytes(data[8 + length + begin : 8 + length + end]))


def main():
    what, _, ringside, number = sys.argv[1:]
    launcher = Launcher(int(number))
    train = launcher.plan["train"]
    if what == "fail" and launcher.rank == 1:
        launcher.fail("out of\nink")
        sys.exit(1)
    feed = Feed(ringside, launcher.told, targets_of)
    line, _ = feed.next("start")
    record = line["record"]
    if launcher.rank == 0:
        launcher.set("word", "hello")
    word = launcher.get("word")
    rates = []
    for step in range(train["steps"]):
        begin, loss = time.perf_counter(), 0.0
        for _ in range(train["accumulation"]):
            line, targets = feed.next("training")
            share = sum(targets) / len(targets)
            if what == "wrong" and launcher.plan["defines"] == 0:
                share *= 1.01
            loss += share
            record["losses"].append(share)
        rates.append(line["lr"])
        seconds = time.perf_counter() - begin
        launcher.progress(step + 1, loss, seconds)
        record["steps"].append({"total": seconds, "compute": seconds, "communication": 0.0,
                                "exposed": 0.0, "optimizer": 0.0, "data": 0.0, "encoding": 0.0})
        while what == "hang" and step == 1:
            time.sleep(3600)
    record["figures"] = [{"name": word, "unit": "", "value": sum(rates)}]
    record["memory"]["rss"] = 7 << 20
    launcher.finish(record)


main()
