"""The measured process: runs one workload solo and leaves raw measurements in a folder.

Started by record.py as `capture.py trace|ncu`. The clean timing comes before
CUPTI is touched; the launch survey comes last, as it asks the driver about handles
that only the framework knows to be valid.
"""

import argparse
import fcntl
import importlib.util
import json
import platform
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

BEGIN = time.monotonic()
# A profiled operator: a few kernels, each replayed once per group of metrics.
OPERATOR_SECONDS = 0.6


def say(text: str) -> None:
    # On stderr: under a kernel profiler stdout belongs to its table.
    print(f"[{time.monotonic() - BEGIN:6.1f} s] {text}", file=sys.stderr, flush=True)


def load_program(workload: str):
    path = ROOT / workload / "program.py"
    spec = importlib.util.spec_from_file_location(workload.replace("-", "_"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Program


def measure(workload, units: int, seconds: float, cap: float) -> dict:
    """Clean closed loop: at least `units` and `seconds`, never much longer than `cap`."""
    from common.loops import summary

    totals, segments = [], defaultdict(list)
    begin = time.perf_counter()
    while True:
        elapsed = time.perf_counter() - begin
        if (len(totals) >= units and elapsed >= seconds) or elapsed >= cap:
            break
        parts = defaultdict(list)
        start = previous = time.perf_counter_ns()
        for segment, step in workload.plan():
            step()
            now = time.perf_counter_ns()
            parts[segment].append(now - previous)
            previous = now
        totals.append(previous - start)
        for segment, times in parts.items():
            segments[segment] += times
    return {
        "unit": summary(totals),
        "segments": {name: summary(times) for name, times in segments.items()},
        "repeats": {name: len(times) // len(totals) for name, times in segments.items()},
    }


def trace(workload, cupti, units: int) -> dict:
    """Runs `units` traced units; returns host times of every step in CUPTI's clock."""
    marks, totals = [], []
    cupti.call("trace_start")
    # The first units after the start pay for CUPTI's own buffers.
    for _ in range(2 if units > 5 else 1):
        workload.run_once()
    for unit in range(units):
        start = time.perf_counter_ns()
        for segment, step in workload.plan():
            begin = cupti.now()
            step()
            marks.append((unit, segment, begin, cupti.now()))
        totals.append(time.perf_counter_ns() - start)
    cupti.call("trace_stop")
    return {"marks": marks, "profiled_unit_ns": totals, "lost_records": cupti.lost()}


def versions() -> dict:
    import torch

    found = {
        "gpu": torch.cuda.get_device_name(),
        "compute_capability": ".".join(map(str, torch.cuda.get_device_capability())),
        "sm_count": torch.cuda.get_device_properties(0).multi_processor_count,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": str(torch.backends.cudnn.version()),
    }
    for name in ("transformers", "torchvision"):
        module = sys.modules.get(name)
        if module is not None:
            found[name] = module.__version__
    try:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20)
        found["driver"] = answer.stdout.split()[0]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        found["driver"] = "unknown"
    return found


def memory() -> dict:
    import torch

    free, total = torch.cuda.mem_get_info()
    return {
        "peak_allocated_bytes": torch.cuda.max_memory_allocated(),
        "peak_reserved_bytes": torch.cuda.max_memory_reserved(),
        # Everything on the card, so the context and the libraries' code too.
        "device_used_bytes": total - free,
        "device_total_bytes": total,
    }


def run_trace(program, args: argparse.Namespace) -> None:
    from common.base import SEED, Options
    from common.loops import warm_up
    from recorder.cupti import Cupti, build

    workload = program(Options(stack=args.stack))
    say("built")
    units = program.units_to_trace(args.stack)
    long_request = program.kind == "inference" and units < 20
    if program.kind == "training":
        warm_up(workload, 5, 2.0)
        clean = measure(workload, units=30, seconds=5.0, cap=25.0)
    elif long_request:
        warm_up(workload, 3, 2.0)
        clean = measure(workload, units=15, seconds=5.0, cap=25.0)
    else:
        warm_up(workload, 50, 2.0)
        clean = measure(workload, units=300, seconds=5.0, cap=15.0)
    unit = clean["unit"]
    say(f"clean: n={unit['n']} median={unit['median_ns'] / 1e6:.3f} ms")
    meta = {"workload": program.id, "kind": program.kind, "stack": args.stack, "seed": SEED}
    meta["clean"] = clean
    meta |= {"versions": versions(), "memory": memory()}

    cupti = Cupti(build(args.build))
    meta["trace"] = trace(workload, cupti, units)
    rows = cupti.dump("trace_dump", args.out / "trace.csv")
    say(f"traced {units} units, {rows} rows, {meta['trace']['lost_records']} lost")
    (args.out / "meta.json").write_text(json.dumps(meta))

    cupti.call("survey_start")
    for _, step in workload.eager_plan():
        step()
    cupti.call("survey_stop")
    rows = cupti.dump("survey_dump", args.out / "survey.csv")
    say(f"surveyed {rows} launch configurations")


def run_ncu(program, args: argparse.Namespace) -> None:
    import torch
    from common.base import Options

    workload = program(Options(layers=program.profiler_layers, stack=args.stack))
    plan = workload.eager_plan()
    for _ in range(2):
        for _, step in plan:
            step()
    say("warm")
    cudart = torch.cuda.cudart()
    by_shape = args.stack == "artifact" and program.artifact_profiler_each is not None
    if program.profiler_calls is not None and not by_shape:
        from recorder.sampling import FirstCalls, OperatorTimes

        often = Counter(segment for segment, _ in workload.plan())
        with OperatorTimes(workload.sync) as times:
            for segment, step in plan:
                times.weight = often[segment]
                step()
        wanted = times.costliest(int(args.limit / OPERATOR_SECONDS / program.profiler_calls))
        start, stop = cudart.cudaProfilerStart, cudart.cudaProfilerStop
        with FirstCalls(wanted, program.profiler_calls, args.limit, start, stop) as sampling:
            for _, step in plan:
                step()
        sampling.switch(False)
        late = ", limit reached" if time.monotonic() >= sampling.end else ""
        say(f"profiled {len(wanted)} of {len(sampling.calls)} distinct operators{late}")
        return

    # Kernels run one by one and several times each; past the limit the rest of the
    # unit runs unprofiled, so that the table of what was measured still comes out.
    def stop_late() -> None:
        say("limit reached")
        cudart.cudaProfilerStop()

    timer = threading.Timer(args.limit, stop_late)
    timer.daemon = True
    cudart.cudaProfilerStart()
    timer.start()
    for _, step in plan:
        step()
    timer.cancel()
    cudart.cudaProfilerStop()
    say("profiled")


def main() -> None:
    from common.base import add_stack_option

    parser = argparse.ArgumentParser()
    parser.add_argument("phase", choices=("trace", "ncu"))
    parser.add_argument("--workload", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--lock", type=Path, required=True)
    parser.add_argument("--limit", type=float, default=60.0)
    add_stack_option(parser)
    args = parser.parse_args()
    program = load_program(args.workload)
    say("imported")
    # Imports of two processes may overlap, their use of the GPU may not.
    with args.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        say("holds the GPU")
        (run_trace if args.phase == "trace" else run_ncu)(program, args)
    say("done")


if __name__ == "__main__":
    main()
