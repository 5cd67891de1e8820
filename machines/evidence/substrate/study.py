"""Plain contexts or MPS below a launch gate: the cells of README.md.

study.py FOLDER --gate GATE.c [--seconds 6] writes FOLDER/cells.jsonl, requests.jsonl, clocks.jsonl and logs. GATE.c is
the source of a library to preload; README.md says what it must do. Takes five minutes, needs one GPU that nothing else
uses, gcc, nvcc, nvidia-cuda-mps-control and Python 3.10 with PyTorch, torchvision, transformers and nvidia-ml-py.
"""

import argparse
import contextlib
import json
import os
import queue
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = Path("/dev/shm/tally_gate")
SLOTS = Path("/dev/shm/tally_gate_slots")


class Process:
    """A child that is told what to do by JSON lines and answers so."""

    def __init__(self, name, arguments, log, environment=None, preload=None):
        environment = {**os.environ, **(environment or {})}
        environment.pop("LD_PRELOAD", None)
        if preload:
            environment["LD_PRELOAD"] = str(preload)
        self.name, self.answers = name, queue.Queue()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": open(log / f"{name}.txt", "w")}
        self.child = subprocess.Popen(arguments, env=environment, text=True, bufsize=1, **pipes)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.child.stdout:
            self.answers.put(json.loads(line))
        self.answers.put({"error": f"has ended with {self.child.wait()}"})

    def send(self, **command):
        self.child.stdin.write(json.dumps(command) + "\n")
        self.child.stdin.flush()

    def get(self, timeout):
        try:
            answer = self.answers.get(timeout=timeout)
        except queue.Empty:
            raise RuntimeError(f"{self.name} did not answer in {timeout} s") from None
        if "error" in answer:
            raise RuntimeError(f"{self.name}: {answer['error']}")
        return answer

    def ask(self, timeout, **command):
        self.send(**command)
        return self.get(timeout)

    def drain(self):
        """Drops answers that came after their time."""
        while not self.answers.empty():
            self.answers.get()

    def end(self):
        with contextlib.suppress(OSError, ValueError):  # it may have ended
            self.send(do="quit")
            self.child.stdin.close()
        try:
            self.child.wait(8)
        except subprocess.TimeoutExpired:
            self.child.kill()


class Mps:
    """An MPS daemon with folders of its own."""

    def __init__(self):
        # In /tmp, as the path of a socket has 107 bytes at most.
        self.folder = Path(tempfile.mkdtemp(prefix="tally-mps-", dir="/tmp"))
        folders = {"PIPE": self.folder / "pipe", "LOG": self.folder / "log"}
        self.environment = {f"CUDA_MPS_{name}_DIRECTORY": str(path) for name, path in folders.items()}
        for path in self.environment.values():
            os.mkdir(path)

    def start(self):
        # The daemon keeps what it inherits, so it gets no pipe.
        nothing = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env={**os.environ, **self.environment}, timeout=15, **nothing)

    def processes(self):
        ours = f"CUDA_MPS_PIPE_DIRECTORY={self.environment['CUDA_MPS_PIPE_DIRECTORY']}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "comm").read_text().strip() == "nvidia-cuda-mps":
                    if ours in (process / "environ").read_bytes().split(b"\0"):
                        yield int(process.name)

    def stop(self):
        control = {"input": "quit -t 5\n", "text": True, "stdout": subprocess.DEVNULL, "timeout": 15}
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(["nvidia-cuda-mps-control"], env={**os.environ, **self.environment}, **control)
        for _ in range(20):
            if not list(self.processes()):
                break
            time.sleep(0.2)
        for process in self.processes():
            os.kill(process, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


class Clocks:
    """Clocks, power and the reasons of lower clocks, ten times a second."""

    def __init__(self):
        self.ended, self.samples = threading.Event(), []
        self.thread = threading.Thread(target=self.sample, daemon=True)
        self.thread.start()

    def sample(self):
        import pynvml as nvml

        nvml.nvmlInit()
        device = nvml.nvmlDeviceGetHandleByIndex(0)
        while not self.ended.wait(0.1):
            sm, memory = (nvml.nvmlDeviceGetClockInfo(device, kind) for kind in (1, 2))
            watts = nvml.nvmlDeviceGetPowerUsage(device) / 1e3
            reasons = nvml.nvmlDeviceGetCurrentClocksEventReasons(device)
            self.samples.append((round(time.monotonic(), 3), sm, memory, round(watts, 1), reasons))

    def end(self):
        self.ended.set()
        self.thread.join(2)
        return self.samples


def steps_per_second(ends, start, end):
    """Steps within the server's span; those that stick out count by their part."""
    parts = ((min(b, end) - max(a, start)) / (b - a) for a, b in zip(ends, ends[1:]))
    return sum(part for part in parts if part > 0) / (end - start)


def clear(page, servers):
    """Nobody is active when a cell begins; what the page said before."""
    found = []
    with open(page, "r+b") as file:
        for slot in range(servers):
            file.seek(256 * slot)
            found.append(struct.unpack("I", file.read(4))[0])
            file.seek(256 * slot)
            file.write(struct.pack("I", 0))
    return found


class Study:
    def __init__(self, arguments):
        self.out, self.seconds = arguments.folder, arguments.seconds
        self.out.mkdir(parents=True)
        self.children, self.daemons, self.alone, self.rate = [], [Mps(), Mps()], {}, None
        gate = arguments.gate.read_text()
        (self.out / "gate.c").write_text(gate)
        (self.out / "gate_slots.c").write_text(with_slots(gate))
        shared = ["gcc", "-O2", "-w", "-shared", "-fPIC"]
        for name in ("gate", "gate_slots"):
            output = [self.out / f"{name}.so", self.out / f"{name}.c", "-ldl", "-lpthread"]
            subprocess.run([*shared, "-o", *output], check=True)
        subprocess.run(["nvcc", "-O2", "-arch=sm_90", "-o", self.out / "kernels", HERE / "kernels.cu"], check=True)
        for page in (PAGE, SLOTS):
            page.write_bytes(bytes(4096))

    def process(self, name, arguments=None, environment=None, preload=None):
        arguments = arguments or [sys.executable, str(HERE / "worker.py")]
        child = Process(name, arguments, self.out, environment, self.out / preload if preload else None)
        self.children.append(child)
        return child

    def record(self, file, row):
        with open(self.out / file, "a") as lines:
            lines.write(json.dumps(row) + "\n")

    def cell(
        self, name, servers, other=None, kind="", load=0.5, seeds=(1,), secs=None, sampled=False, page=PAGE, **row
    ):
        """One cell: servers paced at `load` each, beside `other` doing `kind`. A failed cell is a row."""
        try:
            print(name, *seeds, flush=True)
            for process in [*servers, *([other] if other else [])]:
                process.drain()
            row = {"cell": name, "best_effort": kind, "load": load, "stale": clear(page, len(servers)), **row}
            secs = secs or self.seconds
            if other:
                other.ask(10, do="train", kind=kind)
            clocks = Clocks() if sampled else None
            for server, seed in zip(servers, seeds):
                server.send(do="paced", rate=load * self.rate, secs=secs, seed=seed, events=sampled)
            results = [server.get(secs * 2 + 15)["result"] for server in servers]
            if clocks:
                self.record("clocks.jsonl", {"cell": name, "samples": clocks.end()})
            if other:
                done = other.ask(30, do="stop")["result"]
                span = results[0]["t0"], results[0]["t1"]
                row["per_second"] = (
                    steps_per_second(done["ends"], *span)
                    if "ends" in done
                    else done["count"] / (done["t1"] - done["t0"])
                )
                row["normalised"] = row["per_second"] / self.alone[kind] if kind in self.alone else None
            for index, (result, seed) in enumerate(zip(results, seeds)):
                label = {"cell": name, "seed": seed, "server": index}
                self.record("requests.jsonl", {**label, "requests": result.pop("requests")})
                self.record("cells.jsonl", {**row, **label, **result})
        except Exception as error:
            self.record("cells.jsonl", {"cell": name, "error": repr(error)[:300]})
            if other:
                with contextlib.suppress(Exception):
                    other.ask(20, do="stop")

    def training_alone(self, name, process, kind, secs):
        process.ask(60, do="trainer", kind=kind)
        process.ask(10, do="train", kind=kind)
        time.sleep(secs)
        ends = process.ask(30, do="stop")["result"]["ends"]
        per_second = (len(ends) - 1) / (ends[-1] - ends[0])
        self.record("cells.jsonl", {"cell": name, "best_effort": kind, "per_second": per_second})
        return per_second

    def run(self):
        high = {"GATE_ROLE": "hp"}
        best = {"GATE_ROLE": "be", "GATE_DEPTH": "1", "GATE_MINWAIT_US": "100"}
        daemons = self.daemons
        # All import first; a context comes with the first command.
        server = self.process("server", None, high, "gate.so")
        trainer = self.process("trainer", None, best, "gate.so")
        free = self.process("trainer-ungated")
        clients = []
        for number, mps in enumerate(daemons):
            first = {**high, **mps.environment, "CUDA_MPS_CLIENT_PRIORITY": "0"}
            second = {**best, **mps.environment, "CUDA_MPS_CLIENT_PRIORITY": "1"}
            pair = ("mps-server", first), ("mps-trainer", second)
            clients.append([self.process(f"{name}-{number}", None, env, "gate.so") for name, env in pair])
        two = [self.process(f"server-{i}", None, {**high, "GATE_SLOT": str(i)}, "gate_slots.so") for i in (0, 1)]
        beside_two = self.process("trainer-slots", None, best, "gate_slots.so")
        for child in self.children:
            child.get(120)

        server.ask(60, do="server")
        closed = server.ask(30, do="closed", n=1000, warm=1000)["result"]
        self.rate = 1e3 / closed["mean"]
        self.record("cells.jsonl", {"cell": "closed loop", "service_ms": closed})
        self.cell("solo, no other context", [server])
        for kind in ("resnet50", "bert"):
            self.alone[kind] = self.training_alone("training alone", free, kind, 4)
        self.training_alone("training alone, gated", trainer, "resnet50", 3)
        free.end()
        for seed, mps, (mps_server, mps_trainer) in zip((1, 2), daemons, clients):
            self.cell("contexts, gate, resnet50", [server], trainer, "resnet50", seeds=(seed,))
            mps.start()
            mps_server.send(do="server")
            mps_trainer.send(do="trainer", kind="resnet50")
            mps_server.get(60), mps_trainer.get(60)
            self.cell("mps, alone", [mps_server], seeds=(seed,))
            self.cell("mps, gate, resnet50", [mps_server], mps_trainer, "resnet50", seeds=(seed,))
            mps_server.end(), mps_trainer.end()
            mps.stop()
            self.cell("solo", [server], seeds=(seed,))
        trainer.ask(60, do="trainer", kind="bert")
        self.cell("contexts, gate, bert", [server], trainer, "bert")
        for each in two:
            each.ask(60, do="server")
        beside_two.ask(60, do="trainer", kind="resnet50")
        both = {"load": 0.25, "seeds": (11, 12), "secs": self.seconds * 1.25, "page": SLOTS}
        self.cell("two servers", two, **both)
        self.cell("two servers, gate, resnet50", two, beside_two, "resnet50", **both)
        for child in (*two, beside_two):
            child.end()

        def kernels(name, what, *gate):
            child = self.process(name, [str(self.out / "kernels"), what], *gate)
            child.get(30)
            return child

        spin, empty = kernels("spin", "spin", best, "gate.so"), kernels("empty", "empty", best, "gate.so")
        ungated = kernels("empty-ungated", "empty")
        self.cell("contexts, gate, 10 ms", [server], spin, "10 ms kernels")
        self.cell("contexts, gate, empty", [server], empty, "empty kernels")
        self.cell("contexts, no gate, empty", [server], ungated, "empty kernels")
        sampled = {"sampled": True, "secs": self.seconds * 5 / 6}
        self.cell("solo, sampled", [server], **sampled)
        self.cell("contexts, gate, resnet50, sampled", [server], trainer, "resnet50", **sampled)
        self.cell("contexts, gate, empty, sampled", [server], empty, "empty kernels", **sampled)
        self.cell("contexts, no gate, empty, sampled", [server], ungated, "empty kernels", **sampled)
        self.cell("solo, again", [server])
        for seed in (3, 4, 5):
            self.cell("solo", [server], seeds=(seed,))
            self.cell("contexts, gate, resnet50", [server], trainer, "resnet50", seeds=(seed,))
            self.cell("contexts, gate, empty", [server], empty, "empty kernels", seeds=(seed,))


def with_slots(gate):
    """The gate with one entry of the page for each of two servers, for the cells with two."""
    entry = "pg=mmap(0,4096,PROT_READ|PROT_WRITE,MAP_SHARED,fd,0);}"
    idle = "if(!atomic_load(&pg->active)){ uint64_t i=atomic_load(&pg->idle_ns);"
    if gate.count(entry) != 1 or gate.count(idle) != 1:
        raise SystemExit(
            "study.py: this gate's source has no page of the known form: give two servers their own entries"
        )
    slot = 'if(getenv("GATE_SLOT")) pg=(page_t*)((char*)pg+256*atoi(getenv("GATE_SLOT")));}'
    gate = gate.replace(str(PAGE), str(SLOTS)).replace(entry, entry[:-1] + " " + slot)
    both = (
        "page_t*p2=(page_t*)((char*)pg+256); if(!atomic_load(&pg->active)&&!atomic_load(&p2->active)){ "
        "uint64_t i=atomic_load(&pg->idle_ns),i2=atomic_load(&p2->idle_ns); if(i2>i) i=i2;"
    )
    return gate.replace(idle, both)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="created; gets the results")
    parser.add_argument("--gate", type=Path, required=True, metavar="GATE.c")
    parser.add_argument("--seconds", type=float, default=6, help="length of a cell")
    study = Study(parser.parse_args())
    try:
        study.run()
    finally:
        for child in study.children:
            child.end()
        for mps in study.daemons:
            if mps.folder.exists():
                mps.stop()
        for page in (PAGE, SLOTS):
            page.unlink(missing_ok=True)


main()
