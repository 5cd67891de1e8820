"""Records the solo profile of one workload: DIR/ID.parquet, DIR/ID.toml, DIR/ID.occupancy.csv.

Three phases, each of which can run alone: `trace` (clean timing, CUPTI trace,
launch survey) and `ncu` (memory traffic) need the GPU and leave raw files under
DIR/raw/ID; `aggregate` needs no GPU and turns the raw files into the profile.
"""

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

PHASES = ("trace", "ncu", "aggregate")


def say(workload: str, text: str) -> None:
    print(f"{workload}: {text}", flush=True)


def run_bounded(command: list[str], seconds: float, stdout: Path, stderr: Path) -> int | None:
    """Exit code, or None when the command and all that it started had to be ended."""
    with stdout.open("w") as out, stderr.open("w") as err:
        child = subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True)
        try:
            return child.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return None


def capture_command(phase: str, args: argparse.Namespace, raw: Path) -> list[str]:
    script = str(ROOT / "recorder" / "capture.py")
    return [
        sys.executable, script, phase, "--workload", args.workload, "--out", str(raw),
        "--build", str(args.out / "build"), "--lock", str(args.out / "gpu.lock"),
        "--stack", args.stack,
    ]  # fmt: skip


def tail(path: Path, lines: int = 12) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


def phase_trace(args: argparse.Namespace, raw: Path) -> bool:
    log = raw / "trace.log"
    code = run_bounded(capture_command("trace", args, raw), args.time_out, raw / "trace.out", log)
    say(args.workload, tail(log).replace("\n", f"\n{args.workload}: "))
    if code != 0:
        say(args.workload, f"trace: {'time-out' if code is None else f'exit code {code}'}")
    # The survey comes last: what was written before it failed is still good.
    return (raw / "meta.json").exists()


def phase_ncu(args: argparse.Namespace, raw: Path) -> bool:
    from recorder import ncu

    log, table = raw / "ncu.log", raw / "ncu.csv"
    end = time.monotonic() + args.ncu_time_out
    each = profiler_limits(args)["profiler_each"]
    for metrics in ncu.METRICS:
        left = end - time.monotonic()
        if left < 20:
            break
        limit = min(args.ncu_limit, left - 15)
        child = [*capture_command("ncu", args, raw), "--limit", f"{limit:.0f}"]
        try:
            code = run_bounded([*ncu.command(metrics, each), *child], left, table, log)
        except FileNotFoundError:
            say(args.workload, "ncu: not found")
            return False
        kernels = len(ncu.read(table))
        say(args.workload, f"ncu: exit code {code}, {kernels} kernels\n{tail(log, 4)}")
        if kernels:
            return True
        say(args.workload, tail(table, 5))
    return False


def write_occupancy(survey: Path, out: Path, names: dict[str, str]) -> int:
    with survey.open() as lines:
        header = next(lines).strip().split(",")
        rows = [dict(zip(header, line.rstrip("\n").split(",", 7), strict=True)) for line in lines]
    columns = {"name": "name", "block_threads": "threads", "smem_dynamic": "smem_dynamic"}
    columns |= {"smem_static": "smem_static", "regs": "regs", "blocks_per_sm": "blocks_per_sm"}
    columns |= {"max_threads": "max_threads", "binary_version": "binary"}
    with out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        seen = set()
        for row in rows:
            row["name"] = names.get(row["name"], row["name"])
            if int(row["blocks_per_sm"]) <= 0:
                row["blocks_per_sm"] = ""  # it ran, so this is no answer
            line = tuple(row[source] for source in columns.values())
            if line not in seen:
                writer.writerow(line)
            seen.add(line)
    return len(seen)


def phase_aggregate(args: argparse.Namespace, raw: Path) -> bool:
    from recorder import ncu
    from recorder.aggregate import aggregate
    from recorder.names import shorten
    from recorder.provenance import dump_toml, provenance
    from recorder.table import write_parquet

    meta = json.loads((raw / "meta.json").read_text())
    segments, checks = aggregate(raw / "trace.csv", meta["trace"]["marks"])
    rows = [row for segment in segments for row in segment.rows]
    if not rows:
        say(args.workload, "the trace holds no launches")
        return False
    kernels = ncu.read_all(raw)
    coverage = ncu.attach(rows, kernels, meta["clean"]["repeats"])
    layers = program_number(args.workload, "profiler_layers")
    if layers is not None and kernels:
        coverage["layers_in_pass"] = layers
    calls = profiler_limits(args)["profiler_calls"]
    if calls is not None and kernels:
        coverage["calls_of_each_operator"] = calls

    survey = raw / "survey.csv"
    surveyed = survey.read_text().splitlines()[1:] if survey.exists() else []
    names = shorten([r["name"] for r in rows] + [x.split(",", 7)[7] for x in surveyed])
    for row in rows:
        row["name"] = names[row["name"]]
    parquet = args.out / f"{args.workload}.parquet"
    write_parquet(rows, parquet)
    data = provenance(meta, segments, checks, coverage, parquet)
    if surveyed:
        occupancy = args.out / f"{args.workload}.occupancy.csv"
        data["occupancy_rows"] = write_occupancy(survey, occupancy, names)
    (args.out / f"{args.workload}.toml").write_text(dump_toml(data))
    say(args.workload, report(data, len(rows), parquet))
    return True


def profiler_limits(args: argparse.Namespace) -> dict[str, int | None]:
    each = program_number(args.workload, "artifact_profiler_each")
    if args.stack == "artifact" and each is not None:
        return {"profiler_each": each, "profiler_calls": None}
    names = ("profiler_each", "profiler_calls")
    return {name: program_number(args.workload, name) for name in names}


def program_number(workload: str, name: str) -> int | None:
    """Read from the program's text: importing it would need the framework."""
    for line in (ROOT / workload / "program.py").read_text().splitlines():
        if line.strip().startswith(f"{name} = "):
            return int(line.split("=")[1])
    return None


def report(data: dict, rows: int, parquet: Path) -> str:
    trace, ncu = data["trace"], data["ncu"]
    peak = data["memory"]["peak_allocated_bytes"] / 2**30
    return (
        f"rows={rows} clean={data['unprofiled']['median_ns'] / 1e6:.3f} ms"
        f" profiled={data['profiled_median_ns'] / 1e6:.3f} ms busy={data['busy_ns'] / 1e6:.3f} ms"
        f" scale={data['host_scale']:.3f} kept={data['iterations_recorded']}"
        f" dropped={data['iterations_dropped']} host-call={trace['with_host_call_pct']} %"
        f" ncu={ncu['gpu_time_covered_pct']} % ratio={ncu['median_time_ratio']}"
        f" occ={data.get('occupancy_rows', 0)} peak={peak:.1f} GiB"
        f" parquet={parquet.stat().st_size // 1024} KiB"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", required=True)
    parser.add_argument("--out", type=Path, required=True)
    # Not from common.base, which needs the framework.
    parser.add_argument("--stack", choices=("stock", "artifact"), default="stock")
    parser.add_argument("--phases", default=",".join(PHASES))
    parser.add_argument("--time-out", type=float, default=150, help="seconds for the trace")
    parser.add_argument("--ncu-time-out", type=float, default=150)
    parser.add_argument("--ncu-limit", type=float, default=60, help="seconds of profiled kernels")
    args = parser.parse_args()
    args.out = args.out.resolve()
    raw = args.out / "raw" / args.workload
    raw.mkdir(parents=True, exist_ok=True)
    failed = False
    for phase in args.phases.split(","):
        begin = time.monotonic()
        done = {"trace": phase_trace, "ncu": phase_ncu, "aggregate": phase_aggregate}[phase](
            args, raw
        )
        seconds = time.monotonic() - begin
        say(args.workload, f"phase {phase}: {'ok' if done else 'FAILED'} in {seconds:.1f} s")
        failed |= not done
        if phase == "trace" and not done:
            break
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
