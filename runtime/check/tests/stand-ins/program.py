"""Stands in for a job: the real protocol of commands around a unit that sleeps a millisecond."""

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.loops import command_loop, write_atomically


class Sleep:
    def run_once(self) -> None:
        time.sleep(0.001)


parser = argparse.ArgumentParser()
parser.add_argument("--commands", type=Path)
parser.add_argument("--ready", type=Path)
args, _ = parser.parse_known_args()
write_atomically(args.ready, str(os.getpid()))
command_loop(Sleep(), args.commands)
