"""What a request met under the gate, and how short its tail can be when launches are not interrupted.

python3 analyse.py: reads corun.csv and stops.csv beside it. No GPU, no packages.
"""

import csv
import random
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
# See ../substrate: what a request pays after the other context had the device, and how long a slice is, ms.
SWITCH, SLICE = 0.14, 2.2
CLASSES = [(0.0, 0.1), (0.1, 0.5), (0.5, 1.0), (1.0, 2.0), (2.0, float("inf"))]
SPECS = {
    "gate-1": "gate:depth=1,idle_wait_us=100,budget_us=0",
    "gate": "gate:depth=64,idle_wait_us=50,budget_us=500,lead_us=20",
}


def read(name: str) -> list[dict]:
    with (HERE / name).open() as file:
        return list(csv.DictReader(file))


def main() -> None:
    cells, stops = read("corun.csv"), read("stops.csv")
    alone = [float(c["service_p50_ns"]) / 1e6 for c in cells if c["kind"] == "alone" and c["system"] == "none"]
    for short, spec in SPECS.items():
        for job in ("resnet50-train", "bert-base-384-train"):
            pairs = [
                c for c in cells
                if c["system"] == spec and c["best_effort"] == job and c["arrivals"] == "poisson"
            ]
            kernels = [
                (int(k["duration_ns"]) / 1e6, int(k["launches"]), int(k["stops"]), int(k["stop_ns"]) / 1e6)
                for k in stops
                if k["system"] == spec and k["best_effort"] == job and k["duration_ns"]
            ]
            repeats = len({k["repeat"] for k in stops if k["system"] == spec and k["best_effort"] == job})
            met = sum(k[2] for k in kernels)
            device = sum(d * n for d, n, _, _ in kernels)
            requests = sum(int(c["n"]) for c in pairs) / len(pairs)
            share = met / repeats / requests
            measured = sum(float(c["service_p99_ns"]) for c in pairs) / len(pairs) / 1e6
            # A request that meets a kernel waits for what is left of it, or to the end of the slice.
            draw = random.Random(1)
            picked = draw.choices([k[0] for k in kernels], [k[0] * k[1] for k in kernels], k=200_000)
            left = sorted(draw.random() * d for d in picked)
            floor = min(SLICE, left[int(len(left) * (1 - 0.01 / share))])
            floor += SWITCH + sum(alone) / len(alone)
            print(f"{short} beside {job}: {share:.0%} of the requests met a kernel")
            print(f"  p99 measured {measured:.2f} ms, of one kernel's rest alone {floor:.2f} ms")
            by_class = defaultdict(lambda: [0, 0.0, 0.0])
            for duration, launches, count, waited in kernels:
                row = by_class[next(c for c in CLASSES if duration <= c[1])]
                row[0] += count
                row[1] += waited
                row[2] += duration * launches
            for low, high in CLASSES:
                count, waited, time = by_class[low, high]
                mean = f"{waited / count:.2f} ms" if count else "-"
                print(f"  {low} to {high} ms: {time / device:4.0%} of the time, {count / met:4.0%} of the stops, mean {mean}")


if __name__ == "__main__":
    main()
