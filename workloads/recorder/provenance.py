"""The TOML file beside a profile: where it comes from and how far to trust it."""

import hashlib
import math
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

ESTIMATE = "dram_bytes empty: assume the median duration times 30 % of 4.8e12 bytes/s"


def toml_value(value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(round(value, 6)) if math.isfinite(value) else "nan"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(toml_value(v) for v in value) + "]"
    text = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


def dump_toml(data: dict, prefix: str = "") -> str:
    """Plain values first, then tables, as TOML needs it; missing values are left out."""
    lines = [
        f"{key} = {toml_value(value)}"
        for key, value in data.items()
        if value is not None and not isinstance(value, dict)
    ]
    text = "".join(f"{line}\n" for line in lines)
    for key, value in data.items():
        if isinstance(value, dict):
            name = f"{prefix}{key}"
            inner = dump_toml(value, f"{name}.")
            # A table that holds only tables needs no header of its own.
            text += inner if inner.startswith("\n[") else f"\n[{name}]\n{inner}"
    return text


def host_scale(clean_ns: float, profiled_ns: float, busy_ns: float) -> float:
    """Factor on the profiled gaps that brings the unit back to its unprofiled time."""
    gaps = profiled_ns - busy_ns
    if gaps <= 0:
        return 1.0
    return min(2.0, max(0.0, (clean_ns - busy_ns) / gaps))


def rounded(summary: dict) -> dict:
    return {key: round(value) for key, value in summary.items() if value is not None}


def command(workload: str, stack: str) -> str:
    option = "" if stack == "stock" else f" --stack {stack}"
    return f"python3 workloads/record.py --workload {workload}{option} --out profiles"


def provenance(meta: dict, segments: list, checks: dict, ncu: dict, parquet: Path) -> dict:
    # Raw files from before there were two stacks do not say.
    stack = meta.get("stack", "stock")
    clean = meta["clean"]
    repeats = clean["repeats"]
    profiled = round(median(meta["trace"]["profiled_unit_ns"]))
    busy = sum(repeats[s.name] * s.busy_ns for s in segments)
    data = {
        "workload": meta["workload"],
        "kind": meta["kind"],
        "stack": stack,
        "seed": meta["seed"],
        "date": datetime.now(UTC).date().isoformat(),
        "command": command(meta["workload"], stack),
        "parquet_sha256": hashlib.sha256(parquet.read_bytes()).hexdigest(),
        "iterations_recorded": sum(s.iterations for s in segments),
        "iterations_dropped": sum(s.dropped for s in segments),
        "profiled_median_ns": profiled,
        "busy_ns": busy,
        "host_scale": host_scale(clean["unit"]["median_ns"], profiled, busy),
        "estimate": ESTIMATE,
        "unprofiled": rounded(clean["unit"]),
        "segment": {},
    }
    for s in segments:
        own = clean["segments"][s.name]
        data["segment"][s.name] = {
            "repeats": repeats[s.name],
            "launches": len(s.rows),
            "kernels": sum(row["kind"] == "kernel" for row in s.rows),
            "iterations_recorded": s.iterations,
            "iterations_dropped": s.dropped,
            "iterations_aligned": s.aligned,
            "profiled_median_ns": s.span_ns,
            "busy_ns": s.busy_ns,
            "tail_ns": s.tail_ns,
            "host_scale": host_scale(own["median_ns"], s.span_ns, s.busy_ns),
            "unprofiled": rounded(own),
        }
    data["trace"] = checks | {"lost_records": meta["trace"]["lost_records"]}
    data["ncu"] = ncu
    data["memory"] = meta["memory"]
    data["versions"] = meta["versions"]
    return data
