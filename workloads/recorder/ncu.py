"""Memory traffic and SM throughput per kernel, from Nsight Compute's table."""

import csv
import re
from collections import defaultdict
from pathlib import Path
from statistics import fmean, median

COMMON = ["sm__throughput.avg.pct_of_peak_sustained_elapsed", "gpu__time_duration.sum"]
PEAK_BYTES_PER_NS = 4800  # of an H200's memory
# Not every release or chip offers the sum of both directions.
METRICS = [
    ["dram__bytes.sum", *COMMON],
    ["dram__bytes_read.sum", "dram__bytes_write.sum", *COMMON],
]


def command(metrics: list[str], each: int | None = None) -> list[str]:
    # Caches and clocks are left as the program finds them: the traffic of a kernel
    # whose input is still in the cache is what the profile is about.
    # A launch shape is grid, block and shared memory, whatever the kernel's name.
    mode, count = ("global", 400) if each is None else ("per-launch-config", each)
    return [
        "ncu", "--metrics", ",".join(metrics), "--clock-control", "none",
        "--cache-control", "none", "--profile-from-start", "off",
        "--filter-mode", mode, "--launch-count", str(count),
        "--print-units", "base", "--print-kernel-base", "mangled", "--csv", "--page", "raw",
    ]  # fmt: skip


def number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None


def read(path: Path) -> list[dict]:
    """The kernels of the table in launch order; an empty list if there is no table."""
    lines = path.read_text(errors="replace").splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    kernels = []
    for row in csv.DictReader(lines[start:]):
        if not (row.get("ID") or "").isdigit():
            continue  # the line of units, or messages after the table
        traffic = [number(row.get(m)) for m in row if m and m.startswith("dram__bytes")]
        kernels.append(
            {
                "name": row["Kernel Name"],
                "grid": shape(row["Grid Size"]),
                "block": shape(row["Block Size"]),
                "dram_bytes": None if None in traffic or not traffic else round(sum(traffic)),
                "sm_pct": number(row.get(COMMON[0])),
                "time_ns": number(row.get(COMMON[1])),
            }
        )
    return kernels


def read_all(folder: Path) -> list[dict]:
    """The kernels of `ncu.csv`, and of `ncu-2.csv` and so on for shapes that it lacks.

    A pass that its limit ended can so be completed by another one.
    """
    kernels: list[dict] = []
    for path in sorted(folder.glob("ncu*.csv"), key=lambda path: (len(path.name), path.name)):
        known = {(k["name"], k["grid"], k["block"]) for k in kernels}
        kernels += [k for k in read(path) if (k["name"], k["grid"], k["block"]) not in known]
    return kernels


def shape(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", text))


def row_key(row: dict) -> tuple:
    grid = tuple(row[f"grid_{axis}"] for axis in "xyz")
    return (row["name"], grid, tuple(row[f"block_{axis}"] for axis in "xyz"))


def attach(rows: list[dict], kernels: list[dict], repeats: dict[str, int]) -> dict:
    """Fills dram_bytes, dram_source and sm_pct in place; `name` must still be mangled.

    Where a shape was launched as often as it was profiled, launches match in order; else
    each gets the mean of its shape in proportion to its duration, as launches of one shape
    can do more or less work. No launch gets more than the memory can deliver meanwhile.
    `repeats` of the segments weigh the share of GPU time that is covered.
    """
    measured = defaultdict(list)
    for kernel in kernels:
        if kernel["dram_bytes"] is not None:
            measured[kernel["name"], kernel["grid"], kernel["block"]].append(kernel)
    launched = defaultdict(list)
    for row in rows:
        row |= {"dram_bytes": None, "dram_source": "estimate", "sm_pct": None}
        if row["kind"] == "kernel":
            launched[row_key(row)].append(row)
    in_order = averaged = capped = 0
    ratios = []
    for key, positions in launched.items():
        answers = measured.get(key, [])
        if not answers:
            continue
        exact = len(answers) == len(positions)
        for index, row in enumerate(positions):
            chosen = [answers[index]] if exact else answers
            traffic = fmean(k["dram_bytes"] for k in chosen)
            times = [k["time_ns"] for k in chosen if k["time_ns"]]
            if not exact and times:
                traffic *= row["q50"] / fmean(times)
            limit = row["q50"] * PEAK_BYTES_PER_NS
            capped += traffic > limit
            row["dram_bytes"] = round(min(traffic, limit))
            row["dram_source"] = "ncu"
            shares = [k["sm_pct"] for k in chosen if k["sm_pct"] is not None]
            row["sm_pct"] = round(fmean(shares), 2) if shares else None
            if times and row["q50"]:
                ratios.append(fmean(times) / row["q50"])
        in_order += len(positions) if exact else 0
        averaged += 0 if exact else len(positions)
    times = [(repeats[row["segment"]] * row["q50"], row["dram_source"] == "ncu") for row in rows]
    total = sum(time for time, _ in times)
    covered = sum(time for time, measured in times if measured)
    return {
        "kernels_profiled": len(kernels),
        "positions_in_order": in_order,
        "positions_averaged": averaged,
        "positions_capped": capped,
        "gpu_time_covered_pct": round(100 * covered / max(1, total), 2),
        # Near 1 when the profiled kernels ran as they do in the program.
        "median_time_ratio": round(median(ratios), 3) if ratios else None,
    }
