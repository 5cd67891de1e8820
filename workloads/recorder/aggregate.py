"""Turns a raw trace into one row per launch position of each segment."""

import bisect
import difflib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

COPY_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}
ALIGN_LIMIT = 40
# With fewer steps than this, quantiles of single launches would mean little.
FEW_STEPS = 10
QUANTILES = {"q00": 0, "q10": 10, "q25": 25, "q50": 50, "q75": 75, "q90": 90, "q100": 100}


@dataclass
class Launch:
    kind: str
    name: str  # mangled
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    regs: int
    smem_static: int
    smem_dynamic: int
    cluster: int
    copy_bytes: int | None
    stream: int
    start: int
    end: int
    correlation: int
    host_start: int | None = None
    host_end: int | None = None

    @property
    def signature(self) -> tuple:
        shape = (self.grid, self.block, self.smem_dynamic, self.copy_bytes)
        return (self.kind, self.name, *shape)


@dataclass
class Segment:
    name: str
    iterations: int = 0
    dropped: int = 0
    aligned: int = 0
    span_ns: int = 0  # median, host begin to host end of the step
    busy_ns: int = 0  # median, union of the launches' times
    tail_ns: int = 0  # median, last launch's end to the host's return
    rows: list[dict] = field(default_factory=list)


def read_trace(path: Path) -> tuple[list[Launch], dict[int, tuple[int, int]]]:
    """Launches on the device, and host call times by correlation id."""
    launches, calls = [], {}
    with path.open() as lines:
        next(lines)
        for line in lines:
            record, *numbers, name = line.rstrip("\n").split(",", 18)
            (start, end, correlation, stream, _node, size, copy, gx, gy, gz, bx, by, bz) = map(
                int, numbers[:13]
            )
            if record == "A":
                # A runtime call and the driver call inside it can share an id: keep the whole.
                old = calls.get(correlation, (start, end))
                calls[correlation] = (min(old[0], start), max(old[1], end))
                continue
            kind = {"K": "kernel", "C": "memcpy", "S": "memset"}[record]
            regs, smem_static, smem_dynamic, cluster = map(int, numbers[13:])
            if kind == "memcpy":
                name = f"memcpy {COPY_KINDS.get(copy, copy)}"
            launches.append(
                Launch(
                    kind, name, (gx, gy, gz), (bx, by, bz), regs, smem_static, smem_dynamic,
                    cluster, None if kind == "kernel" else size, stream, start, end, correlation,
                )
            )  # fmt: skip
    return launches, calls


def split(launches: list[Launch], marks: list) -> list[list[Launch]]:
    """Assigns each launch to the step during which the host issued it."""
    begins = [mark[2] for mark in marks]
    steps = [[] for _ in marks]
    for launch in launches:
        when = launch.start if launch.host_start is None else launch.host_start
        index = bisect.bisect_right(begins, when) - 1
        if index >= 0 and when <= marks[index][3]:
            steps[index].append(launch)
    for step in steps:
        # Ids rise with each call; the nodes of one graph launch share theirs.
        step.sort(key=lambda launch: (launch.correlation, launch.start))
    return steps


def busy_time(step: list[Launch]) -> int:
    total = 0
    reach = 0
    for launch in sorted(step, key=lambda x: x.start):
        total += max(0, launch.end - max(launch.start, reach))
        reach = max(reach, launch.end)
    return total


def gaps(step: list[Launch], begin: int) -> dict[int, int]:
    """Idle time before each launch, by identity; the first one's counts from the host's begin."""
    found = {}
    reach = begin
    for launch in sorted(step, key=lambda x: x.start):
        found[id(launch)] = max(0, launch.start - reach)
        reach = max(reach, launch.end)
    return found


def align(steps: list[list[Launch]]) -> tuple[list[list[Launch | None]], int, int]:
    """Puts all steps on the most common launch sequence.

    Returns the aligned steps, how many were dropped, and how many needed gaps. Steps
    that differ are dropped while enough equal ones remain.
    """
    sequences = [tuple(launch.signature for launch in step) for step in steps]
    reference, count = Counter(sequences).most_common(1)[0]
    equal = [step for step, seq in zip(steps, sequences, strict=True) if seq == reference]
    # Aligning is quadratic in the length, so it is kept for short recordings.
    if count * 2 >= len(steps) or len(steps) > ALIGN_LIMIT:
        return equal, len(steps) - count, 0
    aligned = list(equal)
    dropped = 0
    for step, sequence in zip(steps, sequences, strict=True):
        if sequence == reference:
            continue
        matcher = difflib.SequenceMatcher(None, reference, sequence, autojunk=False)
        placed: list[Launch | None] = [None] * len(reference)
        for a, b, size in matcher.get_matching_blocks():
            placed[a : a + size] = step[b : b + size]
        if sum(x is not None for x in placed) >= 0.95 * len(reference):
            aligned.append(placed)
        else:
            dropped += 1
    return aligned, dropped, len(aligned) - len(equal)


def median(values: list[int]) -> int | None:
    return round(float(np.median(values))) if values else None


def durations_by_position(aligned: list[list[Launch | None]]) -> list[list[int]]:
    """Device times of each position; few steps pool those of equal launches.

    Equal means the same signature as the neighbours have, too: the samples of a batch that a
    convolution goes through one by one, or the layers of a stack.
    """
    positions = [[x for x in position if x is not None] for position in zip(*aligned, strict=True)]
    times = [[launch.end - launch.start for launch in found] for found in positions]
    if len(aligned) >= FEW_STEPS:
        return times
    signatures = [None, *(found[0].signature for found in positions), None]
    keys = list(zip(signatures, signatures[1:], signatures[2:], strict=False))
    pools = defaultdict(list)
    for key, own in zip(keys, times, strict=True):
        pools[key] += own
    return [pools[key] for key in keys]


def summarise(name: str, steps: list[list[Launch]], marks: list) -> Segment:
    segment = Segment(name)
    segment.span_ns = median([mark[3] - mark[2] for mark in marks])
    segment.busy_ns = median([busy_time(step) for step in steps])
    begin_of, gap_of, tails = {}, {}, []
    for step, mark in zip(steps, marks, strict=True):
        tails.append(max(0, mark[3] - max((x.end for x in step), default=mark[3])))
        gap_of |= gaps(step, mark[2])
        begin_of |= {id(launch): mark[2] for launch in step}
    segment.tail_ns = median(tails)
    aligned, segment.dropped, segment.aligned = align(steps)
    segment.iterations = len(aligned)
    times = durations_by_position(aligned)
    for index, position in enumerate(zip(*aligned, strict=True)):
        found = [launch for launch in position if launch is not None]
        first = found[0]
        row = {"segment": name, "index": index, "kind": first.kind, "name": first.name}
        for prefix, shape in (("grid", first.grid), ("block", first.block)):
            row |= {f"{prefix}_{axis}": n for axis, n in zip("xyz", shape, strict=True)}
        for column in ("regs", "smem_static", "smem_dynamic", "stream", "cluster", "copy_bytes"):
            row[column] = getattr(first, column)
        quantiles = np.percentile(times[index], list(QUANTILES.values()))
        row |= {column: round(float(q)) for column, q in zip(QUANTILES, quantiles, strict=True)}
        called = [launch for launch in found if launch.host_start is not None]
        row["gap_ns"] = median([gap_of[id(x)] for x in found])
        row["host_ns"] = median([max(0, x.host_start - begin_of[id(x)]) for x in called])
        row["host_call_ns"] = median([x.host_end - x.host_start for x in called])
        segment.rows.append(row)
    return segment


def aggregate(trace: Path, marks: list) -> tuple[list[Segment], dict]:
    """All segments in the order in which they first run, and checks on the trace itself."""
    launches, calls = read_trace(trace)
    for launch in launches:
        if launch.correlation in calls:
            launch.host_start, launch.host_end = calls[launch.correlation]
    grouped = defaultdict(lambda: ([], []))
    for step, mark in zip(split(launches, marks), marks, strict=True):
        steps, own_marks = grouped[mark[1]]
        steps.append(step)
        own_marks.append(mark)
    segments = [summarise(name, *group) for name, group in grouped.items()]
    called = sum(launch.host_start is not None for launch in launches)
    checks = {
        "device_records": len(launches),
        "with_host_call_pct": round(100 * called / max(1, len(launches)), 2),
        "streams": len({launch.stream for launch in launches}),
    }
    return segments, checks
