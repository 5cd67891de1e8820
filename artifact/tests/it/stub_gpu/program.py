"""Stands in for a workload's program: the same flags, files and result, and made-up times.

A request takes 1 ms alone and 2 ms beside others, an iteration 50 ms and 100 ms. Files in the
current folder tell it to go wrong: `die-<mode>`, `hang-<mode>` and, beside others, `hang-shared`.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

MS = 1_000_000

parser = argparse.ArgumentParser()
for name in ("mode", "arrivals", "stack", "busy-share", "ready", "go", "stop", "out"):
    parser.add_argument(f"--{name}")
parser.add_argument("--seconds", type=float)
parser.add_argument("--units", type=int)
args = parser.parse_args()

with open("pids", "a") as pids:
    pids.write(f"{os.getpid()}\n")
if Path(f"die-{args.mode}").exists():
    print("Traceback: CUDA error: out of memory", file=sys.stderr)
    sys.exit(1)
shared = "STUB_SHARED" in os.environ
while Path(f"hang-{args.mode}").exists() or (shared and Path("hang-shared").exists()):
    time.sleep(0.01)
Path(args.ready).write_text("")
while not Path(args.go).exists():
    time.sleep(0.001)

slower = 2 if shared else 1
begin = time.perf_counter_ns()
if args.mode == "train":
    # Beside a server, until it is told to stop, and long enough for any span of the tests.
    length = 50 * MS * slower
    elapsed = int(args.seconds * 1e9)
    if shared:
        while not Path(args.stop).exists():
            time.sleep(0.001)
        elapsed = 60_000 * MS
    starts = list(range(0, elapsed, length))
    samples = [length] * len(starts)
elif args.mode == "closed":
    starts = [k * MS for k in range(args.units)]
    samples = [MS] * args.units
    elapsed = args.units * MS
else:
    arrivals = [0] + [int(t * 1e9) for t in json.loads(Path(args.arrivals).read_text())]
    starts, free = [], 0
    for arrival in arrivals:
        starts.append(max(arrival, free))
        free = starts[-1] + slower * MS
    samples = [slower * MS] * len(starts)
    elapsed = max(free, int(args.seconds * 1e9))
result = {"begin_ns": begin, "elapsed_ns": elapsed, "starts_ns": starts, "samples_ns": samples}
Path(args.out).write_text(json.dumps(result))
