"""Runs a workload program on its own: closed loop, paced server loop, or training loop.

Start protocol, shared by all modes: when the program is warm it creates the file
given by --ready, then waits for the file given by --go. Training also stops early
when the file given by --stop appears. Times are integer nanoseconds.
"""

import argparse
import json
import os
import random
import statistics
import time
from pathlib import Path

from common.base import SEED, Options, Workload, add_stack_option


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


def warm_up(workload: Workload, units: int, seconds: float) -> None:
    """At least `units` and at least `seconds`: clocks need time to rise, caches need units."""
    begin = time.perf_counter()
    done = 0
    while done < units or time.perf_counter() - begin < seconds:
        workload.run_once()
        done += 1


def input_wait(workload: Workload, busy_share: float) -> float:
    """Seconds to wait after an iteration so that the device alone is busy for this share.

    Stands for a loader that is slower than the device. The iterations are timed before
    the run begins, when nobody else should be using the device.
    """
    busy_ns = statistics.median(closed_loop(workload, 60.0, units=5)["samples_ns"])
    return busy_ns * (1.0 / busy_share - 1.0) / 1e9


def closed_loop(
    workload: Workload,
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


def server_loop(workload: Workload, arrivals: list[float], seconds: float) -> dict:
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


def parse(kind: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    modes = ("train",) if kind == "training" else ("closed", "paced")
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--units", type=int, help="end a closed or training loop after so many")
    parser.add_argument("--busy-share", type=float, default=1.0, help="wait after iterations")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--arrivals", type=Path, help="JSON list of arrival times in seconds")
    parser.add_argument("--load", type=float, default=0.5, help="without --arrivals: Poisson")
    parser.add_argument("--service-ns", type=float, help="solo mean; measured if not given")
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--ready", type=Path)
    parser.add_argument("--go", type=Path)
    parser.add_argument("--stop", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    add_stack_option(parser)
    return parser.parse_args()


def main(program: type[Workload]) -> None:
    args = parse(program.kind)
    workload = program(Options(device=args.device, tiny=args.tiny, stack=args.stack))
    warm_up(workload, args.warm_up, 0.0 if args.tiny else 2.0)
    service_ns = args.service_ns
    if args.mode == "paced" and service_ns is None and args.arrivals is None:
        service_ns = closed_loop(workload, 1.0 if args.tiny else 3.0)["mean_ns"]
    wait = 0.0 if args.busy_share >= 1.0 else input_wait(workload, args.busy_share)
    if args.ready is not None:
        write_atomically(args.ready, str(os.getpid()))
    while args.go is not None and not args.go.exists():
        time.sleep(0.005)
    if args.mode == "paced":
        if args.arrivals is not None:
            arrivals = json.loads(args.arrivals.read_text())
        else:
            arrivals = poisson(args.load, service_ns, args.seconds)
        result = server_loop(workload, arrivals, args.seconds)
    else:
        result = closed_loop(workload, args.seconds, args.stop, args.units, wait)
    result = {"workload": program.id, "mode": args.mode, "service_ns": service_ns, **result}
    write_atomically(args.out, json.dumps(result))
