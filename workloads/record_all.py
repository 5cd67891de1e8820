"""Records several workloads within a time budget and packs the results.

All traces come first, then the ncu passes with what is left of the budget. While
tracing, one workload imports as the other measures; a lock keeps their use of the
GPU apart. A workload that fails stops no other one.
"""

import argparse
import subprocess
import sys
import tarfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent
ORDER = (
    "bert-base-384-infer", "bert-infer", "resnet50-train", "bert-base-384-train",
    "llama-2-7b-infer", "bert-train", "pointnet-train", "gpt2-large-train",
    "pegasus-x-base-train", "whisper-train", "resnet50-tf32-train", "resnet50-infer",
    "yolov6m-infer", "gpt-neo-2.7b-infer", "stable-diffusion-infer",
)  # fmt: skip
printing = threading.Lock()


def run(workload: str, phases: str, out: Path, deadline: float, extra: list[str]) -> dict:
    left = deadline - time.monotonic()
    result = {"workload": workload, "phases": phases, "seconds": 0.0, "state": "no time left"}
    if left < 25:
        return result
    command = [sys.executable, str(ROOT / "record.py"), "--workload", workload]
    command += ["--out", str(out), "--phases", phases, *extra]
    begin = time.monotonic()
    log = out / f"{workload}.{phases.split(',')[0]}.log"
    with log.open("w") as file:
        try:
            code = subprocess.run(
                command, stdout=file, stderr=subprocess.STDOUT, timeout=left + 20
            ).returncode
            result["state"] = "ok" if code == 0 else f"exit {code}"
        except subprocess.TimeoutExpired:
            result["state"] = "time-out"
    result["seconds"] = time.monotonic() - begin
    with printing:
        print(f"--- {workload} {phases}: {result['state']}, {result['seconds']:.1f} s")
        print(log.read_text(errors="replace")[-3500:], flush=True)
    return result


def run_stage(
    workloads: list[str],
    phases: str,
    args: argparse.Namespace,
    deadline: float,
    limits,
    workers: int,
) -> list[dict]:
    def one(workload: str) -> dict:
        extra = ["--stack", args.stack, *limits(deadline - time.monotonic())]
        return run(workload, phases, args.out, deadline, extra)

    with ThreadPoolExecutor(max_workers=workers) as pool:
        return list(pool.map(one, workloads))


def trace_limits(left: float) -> list[str]:
    return ["--time-out", f"{max(20, min(150, left)):.0f}"]


def ncu_limits(args: argparse.Namespace):
    def limits(left: float) -> list[str]:
        time_out = max(20, min(150, left))
        limit = max(10, min(args.ncu_limit, time_out - 40))
        return ["--ncu-time-out", f"{time_out:.0f}", "--ncu-limit", f"{limit:.0f}"]

    return limits


def pack(out: Path) -> None:
    """One archive of the profiles, their logs and the small raw files."""
    with tarfile.open(out / "profiles.tar.gz", "w:gz") as archive:
        for path in sorted(out.iterdir()):
            if path.suffix in (".parquet", ".toml", ".csv", ".log"):
                archive.add(path, arcname=f"profiles/{path.name}")
        for path in sorted((out / "raw").glob("*/*")):
            if path.name != "trace.csv":
                archive.add(path, arcname=f"profiles/raw/{path.parent.name}/{path.name}")


def pack_raw(out: Path) -> None:
    """The traces, in two archives: with them a profile can be made again without the GPU."""
    traces = sorted((out / "raw").glob("*/trace.csv"))
    for part in range(2):
        # XZ folds the repeated names of a trace far better than gzip.
        with tarfile.open(out / f"raw-{part + 1}.tar.xz", "w:xz", preset=1) as archive:
            for path in traces[part::2]:
                archive.add(path, arcname=f"profiles/raw/{path.parent.name}/trace.csv")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default=",".join(ORDER), help="comma-separated ids, in order")
    parser.add_argument("--budget-s", type=float, default=480)
    parser.add_argument("--ncu-limit", type=float, default=60, help="profiled seconds a workload")
    parser.add_argument("--stack", choices=("stock", "artifact"), default="stock")
    parser.add_argument("--stage", choices=("all", "trace", "ncu"), default="all")
    args = parser.parse_args()
    out = args.out = args.out.resolve()
    (out / "raw").mkdir(parents=True, exist_ok=True)
    workloads = [w for w in args.only.split(",") if w]
    unknown = [w for w in workloads if not (ROOT / w / "program.py").exists()]
    if unknown:
        parser.error(f"no such workload: {', '.join(unknown)}")

    begin = time.monotonic()
    # Packing needs some seconds after the last measurement.
    deadline = begin + args.budget_s - 20
    results = []
    packing = threading.Thread(target=pack_raw, args=(out,))
    if args.stage in ("all", "trace"):
        results += run_stage(workloads, "trace,aggregate", args, deadline, trace_limits, workers=2)
        pack(out)  # so that an outer time limit during the next stage loses nothing
        packing.start()
    if args.stage in ("all", "ncu"):
        # One at a time: ncu has a lock of its own, which would wait on ours and ours on it.
        limits = ncu_limits(args)
        traced = {w for w in workloads if (out / "raw" / w / "meta.json").exists()}
        for workload in workloads:
            # Without a trace here, the tables are kept to be joined with one elsewhere.
            phases = "ncu,aggregate" if workload in traced else "ncu"
            if workload in traced or args.stage == "ncu":
                results += run_stage([workload], phases, args, deadline, limits, workers=1)
        pack(out)
    if packing.ident is not None:
        packing.join()

    print(f"\n{'workload':<24} {'phases':<18} {'s':>7}  state")
    for result in results:
        columns = (result["workload"], result["phases"], result["seconds"], result["state"])
        print("{:<24} {:<18} {:>7.1f}  {}".format(*columns))
    print(f"total {time.monotonic() - begin:.1f} s")
    for path in sorted(out.glob("*.tar.*")):
        print(f"{path.name}: {path.stat().st_size / 2**20:.1f} MiB")
    return int(any(result["state"] != "ok" for result in results))


if __name__ == "__main__":
    sys.exit(main())
