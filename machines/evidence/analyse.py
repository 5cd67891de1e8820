"""Samples of mps_dispatch to the columns of mps-dispatch.csv: analyse.py FOLDER > mps-dispatch.csv

FOLDER is that of mps_dispatch.sh: run-RUN/PRIORITY-REPEAT/neighbour.csv and chains.csv. What README.md says beyond the
table goes to stderr. Times are nanoseconds of the device's timer until they are printed. Needs nothing but Python 3.10.
"""

import argparse
import csv
import math
import re
import sys
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

COLUMNS = (
    "run", "neighbour_priority", "neighbour", "waves", "block_us", "chain", "neighbour_period_us", "chain_p50_us",
    "wait_p50_us", "wait_p90_us", "wait_max_us", "placing_p50_us", "repeats", "waits", "contested", "overtook",
)  # fmt: skip
NEIGHBOUR = ("neighbour", "waves", "block_us", "kernel", "first_start_ns", "last_start_ns", "end_ns")
CHAINS = (*NEIGHBOUR[:3], "chain", "number", "launch_ns", *NEIGHBOUR[3:])
PRIORITIES = ("equal", "below")

# Differences below this do not tell who came first: blocks of one kernel start one after the other, too.
CERTAIN_NS = 1000
# Kernels that started this long before the first chain was launched had the device for themselves. Well above the drift
# of the host's clock, which gives the time of the launch.
ALONE_NS = 1_000_000


@dataclass
class Kernels:
    """Those of one stream in their order."""

    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)

    def add(self, times: list[str]) -> None:
        first, last, end = map(int, times)
        self.first.append(first)
        self.last.append(last)
        self.end.append(end)


@dataclass
class Chain:
    launch: int
    kernels: Kernels = field(default_factory=Kernels)


@dataclass
class Pass:
    """What one pass says of one chain beside one neighbour. Lists hold one value per kernel but the first of a chain,
    whose ready time comes from the host's clock; counts[0] is of the first kernels, counts[1] of the others."""

    chains: list[int]
    gaps: list[int]
    gaps_alone: list[int]
    periods: list[int]
    waits: list[int] = field(default_factory=list)
    placing: list[int] = field(default_factory=list)
    began: list[int] = field(default_factory=list)
    seen: list[int] = field(default_factory=lambda: [0, 0])
    contested: list[int] = field(default_factory=lambda: [0, 0])
    overtook: list[int] = field(default_factory=lambda: [0, 0])


def rows(path: Path, columns: tuple[str, ...]):
    with path.open(newline="") as file:
        lines = csv.reader(file)
        if next(lines, None) != list(columns):
            sys.exit(f"{path}: the columns are not {','.join(columns)}; is it of this version of mps_dispatch?")
        for row in lines:
            if len(row) != len(columns) or row[-1] == "0":
                sys.exit(f"{path}, line {lines.line_num}: {','.join(row)} is no kernel that ran; run the pass again")
            yield row


def read_neighbour(path: Path) -> dict[tuple, Kernels]:
    found: dict[tuple, Kernels] = {}
    for row in rows(path, NEIGHBOUR):
        found.setdefault(tuple(row[:3]), Kernels()).add(row[4:])
    return found


def read_chains(path: Path) -> dict[tuple, list[Chain]]:
    found: dict[tuple, list[Chain]] = {}
    for row in rows(path, CHAINS):
        chains = found.setdefault(tuple(row[:4]), [])
        if row[6] == "0":
            chains.append(Chain(int(row[5])))
        chains[-1].kernels.add(row[7:])
    return found


def measure(chains: list[Chain], neighbour: Kernels, first_launch: int) -> Pass:
    """`first_launch` is that of any chain beside this neighbour."""
    gaps = [later - end for later, end in zip(neighbour.first[1:], neighbour.end, strict=False)]
    alone = sum(first < first_launch - ALONE_NS for first in neighbour.first[:-1])
    result = Pass(
        chains=[chain.kernels.end[-1] - chain.launch for chain in chains],
        gaps=gaps,
        gaps_alone=gaps[:alone],
        periods=[later - earlier for earlier, later in pairwise(neighbour.first)],
    )
    for chain in chains:
        ready_times = [chain.launch, *chain.kernels.end[:-1]]
        for position, ready in enumerate(ready_times):
            first, last = chain.kernels.first[position], chain.kernels.last[position]
            # The neighbour's kernel that began last before this one was ready, and before it started.
            present = bisect_right(neighbour.first, ready) - 1
            latest = bisect_right(neighbour.first, first) - 1
            # Before the neighbour's first kernel and after its last one there may be no neighbour.
            if neighbour.first and (present < 0 or latest >= len(neighbour.first) - 1):
                continue
            later = min(position, 1)
            result.seen[later] += 1
            if neighbour.first and neighbour.last[present] > ready + CERTAIN_NS:
                result.contested[later] += 1
                result.overtook[later] += first < neighbour.last[present] - CERTAIN_NS
            if later:
                result.waits.append(first - ready)
                result.placing.append(last - first)
                result.began.append(latest - present)
    return result


def percentile(values: list[int], percent: int) -> float | None:
    """Linear between neighbouring values."""
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = math.floor(place)
    above = math.ceil(place)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median_us(passes: list[Pass], values: str, percent: int) -> str:
    """The median over passes of a percentile of each; empty without values."""
    found = [percentile(getattr(one, values), percent) for one in passes]
    us = [round(value / 1e3, 2) for value in found if value is not None]
    return str(round(median(us), 2)) if us else ""


def table_row(run: str, priority: str, key: tuple, passes: list[Pass]) -> list:
    return [
        run, priority, *key,
        median_us(passes, "periods", 50), median_us(passes, "chains", 50), median_us(passes, "waits", 50),
        median_us(passes, "waits", 90), median_us(passes, "waits", 100), median_us(passes, "placing", 50), len(passes),
        *(sum(sum(getattr(one, count)) for one in passes) for count in ("seen", "contested", "overtook")),
    ]  # fmt: skip


def tell(run: str, priority: str, passes: list[Pass]) -> None:
    """The numbers that README.md has and the table lacks."""
    every = [sum(sum(getattr(one, count)) for one in passes) for count in ("overtook", "contested")]
    later = [sum(getattr(one, count)[1] for one in passes) for count in ("overtook", "contested")]
    begun = max((max(one.began, default=0) for one in passes), default=0)
    print(
        f"run {run}, {priority}: {every[0]} of {every[1]} contested kernels overtook, {later[0]} of {later[1]}"
        f" without the first of each chain; at most {begun} of the neighbour's began between two of a chain",
        file=sys.stderr,
    )
    for name, what in (("gaps_alone", "alone"), ("gaps", "in the whole pass")):
        medians = [percentile(getattr(one, name), 50) for one in passes if getattr(one, name)]
        if medians:
            span = f"{min(medians) / 1e3:.2f} to {max(medians) / 1e3:.2f} us"
            print(f"run {run}, {priority}: gap between the neighbour's kernels, {what}: {span}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    passes: dict[tuple, dict[tuple, list[Pass]]] = {}
    for place in sorted(folder.glob("run-*/*-*")):
        run, priority = place.parent.name.removeprefix("run-"), place.name.split("-")[0]
        if not re.fullmatch(r"\d+", run) or priority not in PRIORITIES:
            sys.exit(f"{place}: not a folder like run-1/equal-1")
        neighbours = read_neighbour(place / "neighbour.csv")
        chains = read_chains(place / "chains.csv")
        group = passes.setdefault((int(run), PRIORITIES.index(priority)), {})
        for key, found in chains.items():
            first_launch = min(one.launch for other, ones in chains.items() if other[:3] == key[:3] for one in ones)
            group.setdefault(key, []).append(measure(found, neighbours.get(key[:3], Kernels()), first_launch))
    if not passes:
        sys.exit(f"{folder}: no run-*/*-* in it; give the folder that mps_dispatch.sh wrote")
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(COLUMNS)
    for (run, index), group in sorted(passes.items()):
        for key, repeats in group.items():
            table.writerow(table_row(str(run), PRIORITIES[index], key, repeats))
        tell(str(run), PRIORITIES[index], [one for repeats in group.values() for one in repeats])


if __name__ == "__main__":
    main()
