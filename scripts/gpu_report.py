"""What scripts/gpu-check makes of what its programs wrote: checks, tables, files. Runs nothing."""

import dataclasses
import json
import math
import statistics

KERNEL_SHARE = 0.85  # of the copy bandwidth, that kernels bound by memory must reach
LOSS_LIMIT = 1e-4  # between devices, and between schemes on GPUs, in fp32, relative
MEMORY_LIMIT = 0.03  # between the ledger and the driver
SAME = ("reference", "bit-identical", "to rounding")
BOUND_BY_MEMORY = ("adamw", "layer norm", "cross-entropy")


@dataclasses.dataclass
class Check:
    name: str
    passed: bool | None  # None: could not be tried
    says: str
    figures: dict = dataclasses.field(default_factory=dict)

    def verdict(self):
        return {True: "pass", False: "FAIL", None: "not tried"}[self.passed]


def difference(a, b):
    """Largest |a - b| / |b|; infinite for curves of other lengths, or what is no number."""
    if not a or len(a) != len(b):
        return math.inf
    largest = 0.0
    for x, y in zip(a, b):
        if not (math.isfinite(x) and math.isfinite(y)):
            return math.inf
        if x != y:
            largest = max(largest, abs(x - y) / abs(y) if y else math.inf)
    return largest


def conformance(report):
    """Of GoogleTest's report (JSON)."""
    tests = [test for suite in report["testsuites"] for test in suite["testsuite"]]
    failed = [f"{t['classname']}.{t['name']}" for t in tests if t.get("failures")]
    ran = [t for t in tests if t.get("result") == "COMPLETED"]
    figures = {"ran": len(ran), "skipped": len(tests) - len(ran), "failed": failed}
    says = f"{len(ran)} tests ran, {len(tests) - len(ran)} were skipped"
    if failed:
        says += f", {len(failed)} FAILED: {', '.join(failed[:5])}"
    return Check("kernels against float64", bool(ran) and not failed, says, figures)


def schemes(summary, worlds=(1, 2, 4)):
    """Every scheme at every world must have computed what its reference did."""
    cases = summary["cases"]
    bad = [f"{c['label']} at world {c['world']}: {c['error'] or c['same_run']}" for c in cases
           if c["failed"] or c["same_run"] not in SAME]
    there = {(c["scheme"], c["world"]) for c in cases}
    for scheme in ("dp", "ps", "ddp", "fsdp"):
        bad += [f"{scheme} at world {world}: no run" for world in worlds
                if (scheme, world) not in there]
    largest = max((c["largest_difference"] or 0 for c in cases), default=0)
    says = f"{len(cases)} cases, losses within {largest:.1e} of their references"
    return Check("schemes at worlds 1, 2, 4 on one GPU", not bad,
                 "; ".join(bad) or says, {"cases": len(cases), "largest_difference": largest})


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
    """The ledger of the run's only rank against the driver: `used` is the most that was gone of
    the GPU while it ran; without it, what the allocator took counts."""
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


def flops_per_token(model):
    """Of a training step of a GPT: products of the layers and the head, and causal attention, 2
    operations each in forward and 4 in backward; what is computed twice counts once."""
    layers, width = model["layers"], model["width"]
    weights = 12 * layers * width**2 + width * model["vocabulary"]
    return 6 * weights + 6 * layers * width * (model["context"] + 1)


def ceilings(bench, torch):
    """Operations/s of products by dtype, bytes/s of a copy: the best that anybody measured."""
    best = {k["dtype"] if k["kernel"] == "product" else "copy": k["rate"] for k in bench or []
            if k["kernel"] in ("product", "copy")}
    for name, rate in (torch or {}).get("ceilings", {}).items():
        best[name] = max(best.get(name, 0), rate)
    return best


def speeds(ours, theirs, peak):
    """One line a precision: medians of tokens/s. `ours` is {precision: [rows]}, `theirs`
    {variant: [tokens/s]}."""
    lines = []
    for precision, rows in ours.items():
        good = [row for row in rows if row["status"] == "ok"]
        line = {"precision": precision, "runs": len(good), "failed": len(rows) - len(good)}
        for kind in ("eager", "compiled"):
            of_kind = {v: statistics.median(s) for v, s in theirs.items()
                       if s and v.startswith(precision) and v.endswith(kind)}
            line[kind], line[f"{kind}_variant"] = max(
                ((speed, v) for v, speed in of_kind.items()), default=(None, None))
        if good:
            line["tokens_per_s"] = statistics.median(r["tokens_per_s"] for r in good)
            line["step_ms"] = statistics.median(r["step_ms"]["median"] for r in good)
            if peak.get(precision):
                line["share"] = (line["tokens_per_s"] * flops_per_token(good[0]["model"]) /
                                 peak[precision])
        lines.append(line)
    return lines


def throughput(lines):
    bad = [line["precision"] for line in lines if not line["runs"] or line["failed"]]
    says = "; ".join(f"{line['precision']} {line['tokens_per_s']:.0f} tokens/s"
                     for line in lines if line["runs"])
    if bad:
        says += f"; FAILED: {', '.join(bad)}"
    return Check("throughput of GPT-2 124M", bool(lines) and not bad, says.lstrip("; "),
                 {"lines": lines})


def beside_pytorch(lines, precision="bf16"):
    """No less than compiled PyTorch."""
    name = f"{precision} beside compiled PyTorch"
    line = next((one for one in lines if one["precision"] == precision), None)
    if not line or not line["runs"]:
        return Check(name, False, "no run of ours")
    if not line["compiled"]:
        return Check(name, None, "compiled PyTorch was not measured")
    ratio = line["tokens_per_s"] / line["compiled"]
    return Check(name, ratio >= 1, f"{ratio:.3f} of its tokens/s ({line['compiled_variant']})",
                 {"ratio": ratio})


def bandwidth(bench, copy):
    """Kernels bound by memory must come near the copy, `copy` bytes/s."""
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


def _speed_table(lines):
    number = lambda value, form: "-" if value is None else format(value, form)
    rows = []
    for one in lines:
        eager, compiled = one["eager"], one["compiled"]
        ours = one.get("tokens_per_s")
        rows.append([one["precision"], one["runs"], number(one.get("step_ms"), ".1f"),
                     number(ours, ".0f"), number(one.get("share"), ".1%"), number(eager, ".0f"),
                     number(compiled, ".0f"),
                     number(ours / compiled if ours and compiled else None, ".3f")])
    return table(["precision", "runs", "step ms", "tokens/s", "of peak", "PyTorch eager",
                  "PyTorch compiled", "ours / compiled"], rows)


def text(report):
    """summary.md."""
    checks = [Check(**check) for check in report["checks"]]
    count = lambda passed: sum(check.passed is passed for check in checks)
    out = [f"# {report['environment'].get('gpu', 'GPU')}", "",
           f"{count(True)} checks passed, {count(False)} failed, {count(None)} could not be tried; "
           f"{report['seconds']:.0f} s.", ""]
    out += [f"- {key}: {value}" for key, value in report["environment"].items()]
    out += [""] + table(["check", "result", "what it says"],
                        [[check.name, check.verdict(), check.says] for check in checks])
    if report["speeds"]:
        out += ["", "## GPT-2 124M, one GPU", ""] + _speed_table(report["speeds"]) + [
            "", "Medians over runs, interleaved with PyTorch's. of peak: 6 operations a weight and "
            "token and 6 L C (T + 1) of causal attention, beside the largest product measured in "
            "this job."]
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
    """summary.json and summary.md. True if nothing failed."""
    report = {**report, "checks": [dataclasses.asdict(check) for check in report["checks"]]}
    (folder / "summary.json").write_text(json.dumps(report, indent=2) + "\n")
    (folder / "summary.md").write_text(text(report))
    return all(check["passed"] is not False for check in report["checks"])
