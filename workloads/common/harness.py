"""Runs a workload program on its own: closed loop, paced server loop, or training loop.

Start protocol, shared by all modes: when the program is warm it creates the file
given by --ready, then waits for the file given by --go. Training also stops early
when the file given by --stop appears. With --commands the program runs any number of
loops, one after another, so that its start is paid once. Times are integer nanoseconds.
"""

import argparse
import json
import os
import time
from pathlib import Path

from common.base import Options, Workload, add_stack_option
from common.loops import (
    closed_loop,
    command_loop,
    input_wait,
    poisson,
    server_loop,
    warm_up,
    write_atomically,
)


def parse(kind: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    modes = ("train",) if kind == "training" else ("closed", "paced")
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--units", type=int, help="end a closed or training loop after so many")
    parser.add_argument("--busy-share", type=float, default=1.0, help="wait after iterations")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--commands", type=Path, help="folder of commands; no --mode, no --out")
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
    args = parser.parse_args()
    if args.out is None and args.commands is None:
        parser.error("--out FILE is required, or --commands FOLDER")
    return args


def main(program: type[Workload]) -> None:
    args = parse(program.kind)
    workload = program(Options(device=args.device, tiny=args.tiny, stack=args.stack))
    warm_up(workload, args.warm_up, 0.0 if args.tiny else 2.0)
    if args.commands is not None:
        if args.ready is not None:
            write_atomically(args.ready, str(os.getpid()))
        command_loop(workload, args.commands)
        return
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
