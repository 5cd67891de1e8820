"""What every workload program has in common: options, seeds, the shape of a unit of work."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch

SEED = 42

# One unit of work (a training iteration or an inference request) is a list of
# steps. Each step belongs to a named segment and ends with the device idle.
Plan = list[tuple[str, Callable[[], None]]]


@dataclass
class Options:
    """How to build a workload; the defaults are the real one."""

    device: str = "cuda"
    tiny: bool = False  # few layers and small tensors, to try the code without a GPU
    layers: int | None = None  # a shorter stack of the same layers, for slow profilers


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
    # FP32 in this set means FP32: TF32 would change which kernels run.
    convolution_tf32: bool = False

    def __init__(self, options: Options):
        self.options = options
        self.device = torch.device(options.device)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = self.convolution_tf32
        seed_everything()
        self.build()
        self.sync()

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
