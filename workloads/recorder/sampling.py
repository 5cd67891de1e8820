"""Limits a kernel profiler to the first calls of the operators that take the most time."""

import time
from collections import Counter, defaultdict
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


def operator_key(func, args: tuple, kwargs: dict) -> tuple:
    options = tuple((name, describe(value)) for name, value in kwargs.items())
    return func, describe(args), options


class OperatorTimes(TorchDispatchMode):
    """Measures each operator and shape, with the device idle before and after it.

    `weight` says how often the step that runs now is part of a unit of work.
    """

    def __init__(self, sync: Callable[[], None]):
        super().__init__()
        self.sync, self.weight = sync, 1
        self.seconds: defaultdict = defaultdict(float)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self.sync()
        begin = time.perf_counter()
        result = func(*args, **kwargs)
        self.sync()
        key = operator_key(func, args, kwargs)
        self.seconds[key] += self.weight * (time.perf_counter() - begin)
        return result

    def costliest(self, count: int) -> set:
        return set(sorted(self.seconds, key=self.seconds.get, reverse=True)[:count])


class FirstCalls(TorchDispatchMode):
    """Switches the profiler on for the first `limit` calls of each operator in `wanted`.

    ncu's own limits take launches of equal shape for equal, whatever the kernel. The
    mode reaches the threads of the backward pass, too. Nothing is profiled after `seconds`.
    """

    def __init__(
        self,
        wanted: set,
        limit: int,
        seconds: float,
        start: Callable[[], object],
        stop: Callable[[], object],
    ):
        super().__init__()
        self.wanted, self.limit, self.start, self.stop = wanted, limit, start, stop
        self.end = time.monotonic() + seconds
        self.calls: Counter = Counter()
        self.on = False

    def switch(self, on: bool) -> None:
        if on != self.on:
            self.start() if on else self.stop()
            self.on = on

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        key = operator_key(func, args, kwargs)
        self.calls[key] += 1
        first = key in self.wanted and self.calls[key] <= self.limit
        self.switch(first and time.monotonic() < self.end)
        return func(*args, **kwargs)
