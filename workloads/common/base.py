"""What every workload program has in common: options, seeds, the shape of a unit of work."""

import argparse
import random
from collections.abc import Callable
from dataclasses import dataclass

import torch

from common.loops import SEED

# The artifact stack stands for upstream's: PyTorch without cuDNN, FP32 products without
# TF32. Its convolutions are ATen's own: im2col and a matrix product for each sample.
STACKS = ("stock", "artifact")

# One unit of work (a training iteration or an inference request) is a list of
# steps. Each step belongs to a named segment and ends with the device idle.
Plan = list[tuple[str, Callable[[], None]]]


@dataclass
class Options:
    """How to build a workload; the defaults are the real one."""

    device: str = "cuda"
    tiny: bool = False  # few layers and small tensors, to try the code without a GPU
    layers: int | None = None  # a shorter stack of the same layers, for slow profilers
    stack: str = "stock"  # one of STACKS


def add_stack_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stack", choices=STACKS, default="stock", help="artifact: no cuDNN")


def seed_everything() -> None:
    random.seed(SEED)
    torch.manual_seed(SEED)


class Workload:
    """One program of the set; subclasses fill in the model."""

    id: str
    kind: str  # "training" or "inference"
    # Layers to keep when a profiler replays every kernel; None keeps all of them.
    # Only set where all layers launch the same shapes.
    profiler_layers: int | None = None
    # Launches to profile of each launch shape; None takes all. A profiled kernel costs
    # about 0.2 s, so a unit of many hundred kernels needs this or the next one.
    profiler_each: int | None = None
    # Calls to profile of each operator with arguments of the same shapes. Unlike a limit
    # on launch shapes, it tells kernels of equal shape apart.
    profiler_calls: int | None = None
    trace_units: int = 20
    # The same on the artifact stack, where a convolution of a batch is many launches;
    # there `artifact_profiler_each` takes the place of both limits above.
    artifact_trace_units: int | None = None
    artifact_profiler_each: int | None = None
    # FP32 in this set means FP32: TF32 would change which kernels run. On the artifact
    # stack there is none: upstream's replacement of cuBLAS has no TF32 kernel.
    convolution_tf32: bool = False
    matmul_tf32: bool = False

    def __init__(self, options: Options):
        self.options = options
        self.device = torch.device(options.device)
        stock = options.stack == "stock"
        torch.backends.cudnn.enabled = stock
        torch.backends.cuda.enable_cudnn_sdp(stock)
        torch.backends.cuda.matmul.allow_tf32 = self.matmul_tf32 and stock
        torch.backends.cudnn.allow_tf32 = self.convolution_tf32 and stock
        seed_everything()
        self.build()
        self.sync()

    @classmethod
    def units_to_trace(cls, stack: str) -> int:
        if stack == "artifact" and cls.artifact_trace_units is not None:
            return cls.artifact_trace_units
        return cls.trace_units

    def pick(self, full: int, tiny: int) -> int:
        return tiny if self.options.tiny else full

    def layer_count(self, full: int) -> int:
        return 2 if self.options.tiny else (self.options.layers or full)

    def sync(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def build(self) -> None:
        raise NotImplementedError

    def plan(self) -> Plan:
        """One unit of work as it is measured."""
        raise NotImplementedError

    def eager_plan(self) -> Plan:
        """The same kernels as separate launches, each segment once."""
        return self.plan()

    def run_once(self) -> None:
        for _, step in self.plan():
            step()
