"""Makes checks, tables and files of what the programs of scripts/gpu-check wrote. Runs nothing."""

import dataclasses
import json
import math
import re
import statistics

from gpu_models import FLOPS, MODELS, units_per_sample

KERNEL_SHARE = 0.85  # share of the copy bandwidth that kernels bound by memory must reach
LOSS_LIMIT = 1e-4  # relative, in fp32: between devices, and between schemes on GPUs
MEMORY_LIMIT = 0.03  # relative, between the ledger and the driver
# The variants of PyTorch that do the work that Ringside does: fp32 masters beside bf16 parameters.
SAME_WORK = {"bf16": "bf16 masters", "tf32": "tf32", "fp32": "fp32"}
SAME = ("reference", "bit-identical to single", "bit-identical to its definition", "to rounding")
BOUND_BY_MEMORY = ("adamw", "layer norm", "cross-entropy")


@dataclasses.dataclass
class Check:
    name: str
    passed: bool | None  # None if the check could not be tried
    says: str
    figures: dict = dataclasses.field(default_factory=dict)

    def verdict(self):
        return {True: "pass", False: "FAIL", None: "not tried"}[self.passed]


def difference(a, b):
    """Largest |a - b| / |b|; infinite if the curves differ in length or contain a NaN."""
    if not a or len(a) != len(b):
        return math.inf
    largest = 0.0
    for x, y in zip(a, b):
        if not (math.isfinite(x) and math.isfinite(y)):
            return math.inf
        if x != y:
            largest = max(largest, abs(x - y) / abs(y) if y else math.inf)
    return largest


def conformance(reports):
    """The check that no kernel test failed of GoogleTest's reports (JSON), one of each process."""
    tests = [test for report in reports for suite in report["testsuites"]
             for test in suite["testsuite"]]
    failed = [f"{t['classname']}.{t['name']}" for t in tests if t.get("failures")]
    ran = [t for t in tests if t.get("result") == "COMPLETED"]
    figures = {"ran": len(ran), "skipped": len(tests) - len(ran), "failed": failed}
    says = f"{len(ran)} tests ran, {len(tests) - len(ran)} were skipped"
    if failed:
        says += f", {len(failed)} FAILED: {', '.join(failed[:5])}"
    return Check("kernels against float64", bool(ran) and not failed, says, figures)


def tests_so_far(outputs):
    """The progress of processes of GoogleTest, by their output."""
    here, passed, failed, running = 0, 0, set(), []
    for text in outputs:
        here += int((re.search(r"^\[=+\] Running (\d+) tests?", text, re.M) or [0, 0])[1])
        last = None
        for state, name in re.findall(r"^\[ *(RUN|OK|FAILED|SKIPPED) *\] (\w\S*\.\S*?)(?=[,\s]|$)",
                                      text, re.M):
            last = name if state == "RUN" else None
            passed += state == "OK"
            failed |= {name} if state == "FAILED" else set()
        running += [last] if last else []
    told = f"{passed} of {here} tests passed"
    told += f", {len(failed)} FAILED ({', '.join(sorted(failed)[:3])})" if failed else ""
    return told + (f", running: {', '.join(running)}" if running else "")


def schemes(summary, worlds=(1, 2, 4), names=("dp", "ps", "ddp", "fsdp"),
            title="schemes at worlds 1, 2, 4 on one GPU"):
    """Every scheme at every world must have the results of its reference."""
    cases = summary["cases"]
    bad = [f"{c['label']} at world {c['world']}: {c['error'] or c['proof']}" for c in cases
           if c["failed"] or c["proof"] not in SAME]
    there = {(c["scheme"], c["world"]) for c in cases}
    for name in names:
        bad += [f"{name} at world {world}: no run" for world in worlds
                if (name, world) not in there]
    largest = max((c["largest_difference"] or 0 for c in cases), default=0)
    says = f"{len(cases)} cases, losses within {largest:.1e} of their references"
    return Check(title, not bad, "; ".join(bad) or says,
                 {"cases": len(cases), "largest_difference": largest})


def pipelines(summary, title):
    """Every schedule must have the bits of `single`, or of the definition of the scheme over data."""
    cases = [c for c in summary["cases"] if c["world"] > 1]
    bad = [f"{c['label']} at world {c['world']}: {c['error'] or c['proof']}" for c in cases
           if c["failed"] or c["proof"] not in SAME[:3]]
    return Check(title, bool(cases) and not bad,
                 "; ".join(bad) or f"{len(cases)} cases, all bit-identical",
                 {"cases": len(cases)})


def apart(summary, world):
    """Every rank of runs at this world must have had a GPU of its own."""
    shared = [c["label"] for c in summary["cases"] if c["world"] == world and c["shared_device"]]
    return Check(f"a GPU for each of {world} ranks", not shared,
                 f"shared by {', '.join(shared)}" if shared else "none is shared")


def collectives(told, title):
    """`ringside bench comm --json`: results must be right everywhere."""
    rows = told["results"]
    wrong = [f"{r['operation']} of {r['size']} bytes at world {r['world']}" for r in rows
             if r["in_place"]["nwrong"] != 0]
    best = max(rows, key=lambda r: r["in_place"]["bus_bw"], default=None)
    says = f"wrong: {', '.join(wrong)}" if wrong else f"{len(rows)} rows, all results right"
    if best:
        says += (f"; at most {best['in_place']['bus_bw']:.1f} GB/s of bus ({best['operation']} of "
                 f"{best['size']} bytes at world {best['world']})")
    return Check(title, bool(rows) and not wrong, says, {"rows": rows})


def offload(cases):
    """A run whose optimizer state lies in the host's memory beside the run without: the same bits,
    less of the GPU's memory. `cases` are those of a summary, the run without offload first."""
    title = "GPT-2 1.5B with its optimizer state in the host's memory"
    bad = [f"{c['label']}: {c['error'] or c['proof']}" for c in cases
           if c["failed"] or c["proof"] not in SAME[:3]]
    if bad or len(cases) < 2:
        return Check(title, False, "; ".join(bad) or "a run is missing")
    plain, moved = cases[0], cases[-1]
    peaks = [case["memory"]["peak"] for case in (plain, moved)]
    says = (f"{moved['proof']}; {moved['step_ms']:.0f} ms a step and {peaks[1] / 1e9:.1f} GB of the "
            f"GPU, without {plain['step_ms']:.0f} ms and {peaks[0] / 1e9:.1f} GB")
    return Check(title, peaks[1] < peaks[0], says,
                 {"step_ms": [plain["step_ms"], moved["step_ms"]], "peak": peaks})


def predictions(rows):
    """Steps beside what was predicted of them before they were measured."""
    title, limit = "steps as predicted", 0.1
    if not rows:
        return Check(title, None, "nothing was predicted")
    says, values = [], {}
    for row in rows:
        name = f"{row['experiment']} {row['label']}"
        if row["status"] != "ok" or not row["predicted"]:
            return Check(title, False, f"{name}: {row['error'] or 'no prediction'}")
        here, there = row["predicted"]["step_ms"], row["step_ms"]["median"]
        values[name] = [here, there]
        says.append(f"{name}: {here:.1f} ms, measured {there:.1f} ({here / there - 1:+.1%})")
    good = all(abs(here / there - 1) <= limit for here, there in values.values())
    return Check(title, good, "; ".join(says), values)


def finished(rows, scheme, world):
    for row in rows:
        if row["scheme"] == scheme and row["world"] == world and row["status"] == "ok":
            return row
    return None


def curves(name, row, other, steps=50, limit=LOSS_LIMIT):
    """Two rows must have the same losses."""
    if not row or not other:
        return Check(name, False, "a run failed")
    far = difference(row["loss"], other["loss"])
    says = f"{len(row['loss'])} losses within {far:.1e}, relatively (at most {limit:.0e})"
    return Check(name, far <= limit and len(row["loss"]) >= steps, says,
                 {"difference": far if math.isfinite(far) else None, "steps": len(row["loss"])})


def memory(name, row, used=None):
    """Compares the ledger of the run's only rank with the driver. `used` is the most memory of the
    GPU that was used during the run; if it is None, what the allocator took counts."""
    if row["status"] != "ok":
        return Check(f"memory, {name}", False, row["error"])
    of_rank = row["ranks"][0]["memory"]
    device = of_rank["device"]
    if not device:
        return Check(f"memory, {name}", False, "the row has no figures of the driver")
    taken = device["reserved"] if used is None else used - device["outside"]
    off = taken / of_rank["peak"] - 1
    says = (f"ledger {of_rank['peak'] / 1e6:.0f} MB, driver {taken / 1e6:.0f} MB "
            f"({100 * off:+.1f}%), outside {device['outside'] / 1e6:.0f} MB")
    if used is None:
        says += "; the driver's figure is that of its pool"
    return Check(f"memory, {name}", abs(off) <= MEMORY_LIMIT, says,
                 {"ledger": of_rank["peak"], "driver_used": used, "off": off, **device})


def ceilings(bench):
    """The operations/s of products by dtype and the bytes/s of a copy, as gpu_bench measured them."""
    return {k["dtype"] if k["kernel"] == "product" else "copy": k["rate"] for k in bench
            if k["kernel"] in ("product", "copy")}


def highest(*ceilings):
    """The best that was measured of each, by whichever program."""
    kinds = [kind for some in ceilings for kind in some]
    return {kind: max(some.get(kind, 0) for some in ceilings) for kind in kinds}


def speeds(name, ours, theirs, peak):
    """One line for each precision of a model, with medians of its units/s. `ours` is {precision:
    [rows]} of Ringside, `theirs` is {variant: [samples/s]} of PyTorch."""
    model, lines = MODELS[name], []
    for precision, rows in ours.items():
        good = [row for row in rows if row["status"] == "ok"]
        line = {"precision": precision, "runs": len(good), "failed": len(rows) - len(good)}
        rates = {v: units_per_sample(name) * statistics.median(s) for v, s in theirs.items()
                 if s and v.startswith(precision)}
        same = f"{SAME_WORK[precision]} compiled"
        line["beside"], line["compiled"] = same, rates.get(same)
        line["fastest"], line["fastest_variant"] = max(
            ((speed, v) for v, speed in rates.items()), default=(None, None))
        if good:
            line["rate"] = units_per_sample(name) * statistics.median(
                r["samples_per_s"] for r in good)
            line["step_ms"] = statistics.median(r["step_ms"]["median"] for r in good)
            line["data_ms"] = statistics.median(r["time_ms"]["data"] for r in good)
            line["other"] = other_shape(name, good[0])
            if peak.get(precision):
                operations = FLOPS[model.unit](good[0]["model"])
                line["share"] = line["rate"] * operations / peak[precision]
        lines.append(line)
    return lines


def other_shape(name, row):
    """The differences of a run's model and batch from PyTorch's; empty if they agree."""
    model = MODELS[name]
    wanted = {**model.shape, "global_batch": model.batch}
    got = {**row["model"], "global_batch": row["global_batch"]}
    return [f"{key} {got[key]} instead of {value}" for key, value in wanted.items()
            if got[key] != value]


def throughput(name, lines):
    model = MODELS[name]
    bad = [line["precision"] for line in lines if not line["runs"] or line["failed"]]
    says = "; ".join(f"{line['precision']} {line['rate']:.0f} {model.unit}/s"
                     for line in lines if line["runs"])
    if bad:
        says += f"; FAILED: {', '.join(bad)}"
    return Check(f"throughput of {model.title}", bool(lines) and not bad, says.lstrip("; "),
                 {"lines": lines})


def beside_pytorch(name, lines, precision="bf16"):
    """Ringside must reach the model's least share of the throughput of compiled PyTorch that does
    the same work."""
    model = MODELS[name]
    title = f"{model.title}, {precision}, beside compiled PyTorch"
    line = next((one for one in lines if one["precision"] == precision), None)
    if not line or not line["runs"]:
        return Check(title, False, "Ringside made no run")
    if line["other"]:
        return Check(title, False, f"other shapes than PyTorch's: {', '.join(line['other'])}")
    fastest = (f"; {line['rate'] / line['fastest']:.3f} of its fastest ({line['fastest_variant']})"
               if line["fastest"] else "")
    if not line["compiled"]:
        return Check(title, None, f"{line['beside']} was not measured{fastest}")
    ratio = line["rate"] / line["compiled"]
    return Check(title, ratio >= model.least,
                 f"{ratio:.3f} of its {model.unit}/s ({line['beside']}); at least {model.least}"
                 f"{fastest}", {"ratio": ratio})


def bandwidth(bench, copy):
    """Kernels bound by memory must come near the bandwidth of a copy: `copy` bytes/s."""
    bound = [k for k in bench if k["kernel"].startswith(BOUND_BY_MEMORY)]
    shares = {f"{k['kernel']} {k['dtype']}": k["rate"] / copy for k in bound}
    slow = [f"{name} {100 * share:.0f}%" for name, share in shares.items() if share < KERNEL_SHARE]
    least = min(shares.values(), default=0)
    says = (f"below {100 * KERNEL_SHARE:.0f}% of the copy: " + ", ".join(slow) if slow else
            f"{len(shares)} kernels at {100 * least:.0f}% of the copy or more")
    return Check("kernels bound by memory", bool(shares) and not slow, says, shares)


def table(head, lines):
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return out + ["| " + " | ".join(str(cell).replace("|", "/").replace("\n", " ")
                                    for cell in line) + " |" for line in lines]


def _speed_table(unit, lines):
    number = lambda value, form: "-" if value is None else format(value, form)
    rows = []
    for one in lines:
        ours, compiled = one.get("rate"), one["compiled"]
        rows.append([one["precision"], one["runs"], number(one.get("step_ms"), ".1f"),
                     number(one.get("data_ms"), ".1f"), number(ours, ".0f"),
                     number(one.get("share"), ".1%"), number(compiled, ".0f"), one["beside"],
                     number(ours / compiled if ours and compiled else None, ".3f"),
                     number(one["fastest"], ".0f"), one["fastest_variant"] or "-"])
    return table(["precision", "runs", "step ms", "waits for data, ms", f"{unit}/s", "of peak",
                  "PyTorch, same work", "which", "ours / it", "PyTorch's fastest", "which"], rows)


def text(report):
    """The text of summary.md."""
    checks = [Check(**check) for check in report["checks"]]
    count = lambda passed: sum(check.passed is passed for check in checks)
    out = [f"# {report['environment'].get('gpu', 'GPU')}", "",
           f"{count(True)} checks passed, {count(False)} failed, {count(None)} could not be tried; "
           f"{report['seconds']:.0f} s.", ""]
    out += [f"- {key}: {value}" for key, value in report["environment"].items()]
    out += [""] + table(["check", "result", "what it says"],
                        [[check.name, check.verdict(), check.says] for check in checks])
    for name, lines in report["speeds"].items():
        model = MODELS[name]
        out += ["", f"## {model.title}, one GPU, {model.batch} samples a step", ""]
        out += _speed_table(model.unit, lines)
    if report["speeds"]:
        out += ["", "Medians over runs, interleaved with PyTorch's, whose data are on the GPU from "
                "the start. Same work: compiled, in bf16 with fp32 masters beside the parameters. of "
                "peak: what a step needs (products and attention, 2 operations each in forward and "
                "4 in backward; scripts/gpu_models.py), beside the largest product measured in this "
                "job."]
        out += [f"PyTorch left out {name}: {why}" for name, why in report["left_out"].items()]
    if report["ceilings"]:
        rates = {k: f"{v * 1e-12:.2f} TB/s" if k == "copy" else f"{v * 1e-12:.0f} TFLOP/s"
                 for k, v in report["ceilings"].items()}
        out += ["", "## Ceilings", ""] + table(list(rates), [rates.values()])
    if report["kernels"]:
        copy = report["ceilings"]["copy"]
        peak = lambda k: copy if k["bound"] == "copy" else report["ceilings"][k["dtype"]]
        rate = lambda k: (f"{k['rate'] * 1e-9:.0f} GB/s" if k["bound"] == "copy" else
                          f"{k['rate'] * 1e-12:.0f} TFLOP/s")
        out += ["", "## Kernels", ""] + table(
            ["kernel", "dtype", "ms", "achieved", "of ceiling"],
            [[k["kernel"], k["dtype"], f"{k['ms']:.3f}", rate(k), f"{k['rate'] / peak(k):.1%}"]
             for k in report["kernels"]])
    return "\n".join(out) + "\n"


def write(report, folder):
    """Writes summary.json and summary.md. Returns True if no check failed."""
    report = {**report, "checks": [dataclasses.asdict(check) for check in report["checks"]]}
    (folder / "summary.json").write_text(json.dumps(report, indent=2) + "\n")
    (folder / "summary.md").write_text(text(report))
    return all(check["passed"] is not False for check in report["checks"])
