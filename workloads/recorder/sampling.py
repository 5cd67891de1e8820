"""Limits a kernel profiler to the first calls of each distinct operator."""

import time
from collections import Counter
from collections.abc import Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def describe(value) -> object:
    """What decides which kernels an operator launches: shapes and options, not contents."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.stride(), value.dtype, value.device.type
    if isinstance(value, list | tuple):
        return tuple(describe(item) for item in value)
    # Factors differ from step to step and change no kernel.
    return type(value) if isinstance(value, float) else repr(value)


class FirstCalls(TorchDispatchMode):
    """Switches the profiler on for the first `limit` calls of each operator and shape.

    ncu's own limits take launches of equal shape for equal, whatever the kernel. The
    mode reaches the threads of the backward pass, too. Nothing is profiled after `seconds`.
    """

    def __init__(
        self,
        limit: int,
        seconds: float,
        start: Callable[[], object],
        stop: Callable[[], object],
    ):
        super().__init__()
        self.limit, self.start, self.stop = limit, start, stop
        self.end = time.monotonic() + seconds
        self.calls: Counter = Counter()
        self.on = False

    def switch(self, on: bool) -> None:
        if on != self.on:
            self.start() if on else self.stop()
            self.on = on

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        options = tuple((name, describe(value)) for name, value in kwargs.items())
        key = (func, describe(args), options)
        self.calls[key] += 1
        self.switch(self.calls[key] <= self.limit and time.monotonic() < self.end)
        return func(*args, **kwargs)
