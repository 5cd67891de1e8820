"""One process of study.py: a BERT-base server or a training job.

Commands come as JSON lines on stdin, answers go as JSON lines to stdout; what libraries print goes to stderr.
"""

import gc
import json
import os
import random
import select
import time

answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)


def say(**answer):
    answers.write(json.dumps(answer) + "\n")


import torch  # noqa: E402
import torchvision  # noqa: E402
from transformers import BertConfig, BertForSequenceClassification, BertModel  # noqa: E402

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
# CLOCK_MONOTONIC, which all processes share.
now = time.perf_counter


def quantiles(values):
    values = sorted(values)
    n = len(values)
    at = {"p50": values[n // 2], "p90": values[int(n * 0.9)], "p99": values[int(n * 0.99)], "max": values[-1]}
    return {"n": n, "mean": sum(values) / n, **at}


class Server:
    """BERT-base, fp16, batch 1 x 384 tokens, random weights; a request is one CUDA graph and a synchronisation."""

    def __init__(self):
        torch.manual_seed(0)
        model = BertModel(BertConfig()).half().cuda().eval()
        ids = torch.randint(0, 30000, (1, 384), device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        with torch.inference_mode():
            for _ in range(5):
                model(ids)
                torch.cuda.synchronize()
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(3):
                    model(ids)
            torch.cuda.synchronize()
            with torch.cuda.graph(self.graph):
                model(ids)
        self.keep = model, ids
        for _ in range(50):
            self.graph.replay()
            torch.cuda.synchronize()
        self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def closed(self, n, warm):
        """Service times of a closed loop, ms."""
        times = []
        for _ in range(warm + n):
            start = now()
            self.graph.replay()
            torch.cuda.synchronize()
            times.append((now() - start) * 1e3)
        return quantiles(times[warm:])

    def paced(self, rate, secs, seed, events):
        """Requests at Poisson arrivals of `rate` per second. Each is (planned arrival, start, launch returned, end,
        time on the device between two events), in us; the last is 0 without `events`."""
        draw = random.Random(seed)
        arrivals, t = [], 0.0
        while t < secs:
            t += draw.expovariate(rate)
            arrivals.append(t)
        requests = []
        gc.collect()
        gc.disable()
        t0 = now()
        for arrival in arrivals:
            while now() - t0 < arrival:
                pass
            start = now()
            if events:
                self.begin.record()
            self.graph.replay()
            launched = now()
            if events:
                self.end.record()
            torch.cuda.synchronize()
            end = now()
            device = self.begin.elapsed_time(self.end) * 1e3 if events else 0
            clock = [arrival, start - t0, launched - t0, end - t0]
            requests.append([*(round(s * 1e6, 1) for s in clock), round(device, 1)])
            if end - t0 > secs * 1.5:
                break
        gc.enable()
        return {"t0": t0, "t1": now(), "planned": len(arrivals), "requests": requests}


class Trainer:
    """Training with SGD in fp32, synchronised after each step: ResNet-50 (batch 128) or BERT-base (32 x 384)."""

    def __init__(self, kind):
        torch.manual_seed(1)
        if kind == "resnet50":
            model = torchvision.models.resnet50().cuda()
            x = torch.randn(128, 3, 224, 224, device="cuda")
            y = torch.randint(0, 1000, (128,), device="cuda")
            self.loss = lambda: torch.nn.functional.cross_entropy(model(x), y)
        else:
            model = BertForSequenceClassification(BertConfig(num_labels=2)).cuda()
            x = torch.randint(0, 30000, (32, 384), device="cuda")
            y = torch.randint(0, 2, (32,), device="cuda")
            self.loss = lambda: model(input_ids=x, labels=y).loss
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        for _ in range(8):
            self.step()

    def step(self):
        self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()
        torch.cuda.synchronize()

    def train(self):
        """Trains until a line comes on stdin; the ends of the steps in seconds of the shared clock."""
        say(ready="running")
        ends = [now()]
        while not select.select([0], [], [], 0)[0]:
            self.step()
            ends.append(now())
        return {"ends": [round(end, 6) for end in ends]}


class Lines:
    """stdin without Python's buffer, so that select tells of every line."""

    def __init__(self):
        self.read = b""

    def next(self):
        while b"\n" not in self.read:
            data = os.read(0, 65536)
            if not data:
                return {"do": "quit"}
            self.read += data
        line, self.read = self.read.split(b"\n", 1)
        return json.loads(line)


def main():
    say(ready="imported")
    server, trainers, lines = None, {}, Lines()
    while True:
        command = lines.next()
        do = command.pop("do")
        try:
            if do == "server":
                server = server or Server()
                say(ready=do)
            elif do == "trainer":
                trainers[command["kind"]] = trainers.get(command["kind"]) or Trainer(command["kind"])
                say(ready=do)
            elif do == "closed":
                say(result=server.closed(**command))
            elif do == "paced":
                say(result=server.paced(**command))
            elif do == "train":
                say(result=trainers[command["kind"]].train())
            elif do == "quit":
                return
        except Exception as error:  # the study goes on without this cell
            say(error=repr(error)[:500])


main()
