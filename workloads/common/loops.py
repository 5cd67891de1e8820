"""The loops that drive a workload: closed, paced by arrivals, and one after another as commanded.

Nothing here knows torch: a workload is anything with `run_once`. Times are integer nanoseconds
of `time.perf_counter_ns`, on Linux CLOCK_MONOTONIC: those of several processes can be compared.
"""

import json
import random
import statistics
import time
from pathlib import Path
from typing import Protocol

SEED = 42


class Runnable(Protocol):
    def run_once(self) -> None: ...


def percentile(ordered: list[int], q: float) -> float:
    """Linear interpolation at position q*(n-1), as NumPy does by default."""
    if not ordered:
        return float("nan")
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def summary(samples: list[int]) -> dict:
    ordered = sorted(samples)
    return {
        "n": len(ordered),
        "mean_ns": sum(ordered) / len(ordered) if ordered else None,
        "median_ns": percentile(ordered, 0.5) if ordered else None,
        "p90_ns": percentile(ordered, 0.9) if ordered else None,
        "p99_ns": percentile(ordered, 0.99) if ordered else None,
    }


def warm_up(workload: Runnable, units: int, seconds: float) -> None:
    """At least `units` and at least `seconds`: clocks need time to rise, caches need units."""
    begin = time.perf_counter()
    done = 0
    while done < units or time.perf_counter() - begin < seconds:
        workload.run_once()
        done += 1


def input_wait(workload: Runnable, busy_share: float) -> float:
    """Seconds to wait after an iteration so that the device alone is busy for this share.

    Stands for a loader that is slower than the device. The iterations are timed before
    the run begins, when nobody else should be using the device.
    """
    busy_ns = statistics.median(closed_loop(workload, 60.0, units=5)["samples_ns"])
    return busy_ns * (1.0 / busy_share - 1.0) / 1e9


def closed_loop(
    workload: Runnable,
    seconds: float,
    stop: Path | None = None,
    units: int | None = None,
    wait: float = 0.0,
) -> dict:
    """Ends after `seconds`, after `units`, or when `stop` appears. A sample includes `wait`."""
    starts, samples = [], []
    begin = time.perf_counter_ns()
    while time.perf_counter_ns() - begin < seconds * 1e9:
        if (stop is not None and stop.exists()) or len(samples) == units:
            break
        start = time.perf_counter_ns()
        workload.run_once()
        if wait > 0.0:
            time.sleep(wait)
        samples.append(time.perf_counter_ns() - start)
        starts.append(start - begin)
    elapsed = time.perf_counter_ns() - begin
    return {
        "begin_ns": begin,
        "elapsed_ns": elapsed,
        "starts_ns": starts,
        "samples_ns": samples,
        **summary(samples),
    }


def poisson(load: float, service_ns: float, seconds: float) -> list[float]:
    """Arrival times in seconds of a server that is busy for the fraction `load`."""
    draw = random.Random(SEED)
    times, now = [], 0.0
    while True:
        now += draw.expovariate(load / (service_ns / 1e9))
        if now >= seconds:
            return times
        times.append(now)


def server_loop(workload: Runnable, arrivals: list[float], seconds: float) -> dict:
    """One request in flight; request k+1 starts at max(arrival k, end of request k).

    The first request runs at once and stands for an arrival at time zero. Service
    time excludes waiting; end-to-end time counts from the nominal arrival.
    """
    starts, service, end_to_end = [], [], []
    zero = time.perf_counter_ns()
    limit = seconds * 1e9
    nominal = 0
    for arrival in [*arrivals, None]:
        start = time.perf_counter_ns()
        workload.run_once()
        end = time.perf_counter_ns()
        starts.append(start - zero)
        service.append(end - start)
        end_to_end.append(end - zero - nominal)
        if arrival is None or arrival >= seconds:
            break
        nominal = int(arrival * 1e9)
        # Spinning, as sleeping would add the scheduler's wake-up time to the request.
        while time.perf_counter_ns() - zero < nominal:
            pass
        if time.perf_counter_ns() - zero >= limit:
            break
    elapsed = time.perf_counter_ns() - zero
    return {
        "begin_ns": zero,
        "elapsed_ns": elapsed,
        "starts_ns": starts,
        "samples_ns": service,
        "end_to_end_ns": end_to_end,
        "end_to_end": summary(end_to_end),
        **summary(service),
    }


def write_atomically(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    partial.replace(path)


def run_command(workload: Runnable, command: dict) -> dict:
    """One command of `command_loop`: {"mode": "closed", "paced" or "train", "seconds": S}.

    `paced` needs "arrivals", the path of a JSON list in seconds; the others end early when
    the file "stop" is there.
    """
    mode, seconds = command["mode"], command["seconds"]
    if mode == "paced":
        arrivals = json.loads(Path(command["arrivals"]).read_text())
        return server_loop(workload, arrivals, seconds)
    if mode in ("closed", "train"):
        stop = command.get("stop")
        return closed_loop(workload, seconds, None if stop is None else Path(stop))
    raise ValueError(f"unknown mode {mode!r}; known are closed, paced and train")


def command_loop(workload: Runnable, folder: Path) -> None:
    """Runs the commands `0.json`, `1.json`, ... of a folder as they appear.

    {"mode": "quit"} ends the loop. Command N is answered by `N.out.json`: what its loop returns, or {"error": text}, which
    ends the process as well. Commands must appear whole, under a temporary name first.
    """
    number = 0
    while True:
        path = folder / f"{number}.json"
        while not path.exists():
            time.sleep(0.002)
        command = json.loads(path.read_text())
        if command["mode"] == "quit":
            return
        answer = folder / f"{number}.out.json"
        try:
            write_atomically(answer, json.dumps(run_command(workload, command)))
        except Exception as error:
            write_atomically(answer, json.dumps({"error": f"{type(error).__name__}: {error}"}))
            raise
        number += 1
