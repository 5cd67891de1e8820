"""The table of README.md: analyse.py FOLDER, of study.py, writes it to stdout as CSV. Times are ms.

A request is `burst` if it began less than 20 us after the end of the one before, `gap` if 150 us or more after.
"""

import csv
import json
import sys
from pathlib import Path

COLUMNS = (
    "cell best_effort seed server load n service_p50 service_p90 service_p99 service_max end_to_end_p50 "
    "end_to_end_p90 end_to_end_p99 end_to_end_max burst_n burst_p50 burst_p99 gap_n gap_p50 gap_p99 device_p50 "
    "sm_mhz_min sm_mhz_max watts_p50 per_second normalised"
).split()


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def quantiles(prefix, times, *at):
    """Of times in us; the smallest value that at least this part does not exceed. Nothing for no times."""
    times = sorted(times)
    names = {0.5: "p50", 0.9: "p90", 0.99: "p99", 1: "max"}
    return {f"{prefix}_{names[q]}": f"{times[min(int(len(times) * q), len(times) - 1)] / 1e3:.3f}" for q in at if times}


def summary(requests):
    service = [end - start for _, start, _, end, _ in requests]
    gaps = [b[1] - a[3] for a, b in zip(requests, requests[1:], strict=False)]
    burst = [time for gap, time in zip(gaps, service[1:], strict=True) if gap < 20]
    gap = [time for gap, time in zip(gaps, service[1:], strict=True) if gap >= 150]
    return {
        "n": len(requests),
        **quantiles("service", service, 0.5, 0.9, 0.99, 1),
        **quantiles("end_to_end", [end - arrival for arrival, _, _, end, _ in requests], 0.5, 0.9, 0.99, 1),
        "burst_n": len(burst),
        **quantiles("burst", burst, 0.5, 0.99),
        "gap_n": len(gap),
        **quantiles("gap", gap, 0.5, 0.99),
        **quantiles("device", [device for *_, device in requests if device], 0.5),
    }


def clocks(samples):
    sm, watts = (sorted(sample[i] for sample in samples) for i in (1, 3))
    return {"sm_mhz_min": sm[0], "sm_mhz_max": sm[-1], "watts_p50": watts[len(watts) // 2]} if sm else {}


def main(folder):
    requests = {(r["cell"], r["seed"], r["server"]): r["requests"] for r in rows(folder / "requests.jsonl")}
    sampled = {r["cell"]: r["samples"] for r in rows(folder / "clocks.jsonl")}
    table = csv.DictWriter(sys.stdout, COLUMNS, extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    for cell in rows(folder / "cells.jsonl"):
        if "error" in cell:
            print(f"{cell['cell']}: {cell['error']}", file=sys.stderr)
        if "service_ms" in cell:
            of = cell["service_ms"]
            cell |= {"n": of["n"], **{f"service_{q}": f"{of[q]:.3f}" for q in ("p50", "p90", "p99", "max")}}
        for key in ("per_second", "normalised"):
            if isinstance(cell.get(key), float):
                cell[key] = f"{cell[key]:.4g}" if key == "per_second" else f"{cell[key]:.3f}"
        which = (cell["cell"], cell.get("seed"), cell.get("server"))
        measured = summary(requests[which]) if which in requests else {}
        table.writerow(cell | measured | clocks(sampled.get(cell["cell"], [])))


main(Path(sys.argv[1]))
