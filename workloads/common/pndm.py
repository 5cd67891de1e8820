"""The PNDM sampler of Stable Diffusion as a table: each step is one linear combination.

The linear multistep form without Runge-Kutta warm-up (Liu et al., ICLR 2022), with Stable
Diffusion v1.4's published settings: 1000 training steps, betas linear in the square root
from 0.00085 to 0.012, time steps shifted by one.
"""

from dataclasses import dataclass

import numpy as np

TRAINING_STEPS = 1000
# Noise predictions that a step may use: its own and four before it.
HISTORY = 5


@dataclass
class Table:
    """One row for each call of the network.

    latents' = latents * keep[0] + latents_before * keep[1] + sum(weights * predictions)
    """

    times: np.ndarray  # (calls), training step that the network is told
    keep: np.ndarray  # (calls, 2)
    weights: np.ndarray  # (calls, HISTORY), newest prediction first


# Adams-Bashforth weights by the number of predictions at hand.
WEIGHTS = {
    1: [1],
    2: [3 / 2, -1 / 2],
    3: [23 / 12, -16 / 12, 5 / 12],
    4: [55 / 24, -59 / 24, 37 / 24, -9 / 24],
}


def table(steps: int) -> Table:
    """The calls for `steps` sampling steps, one more than steps: the second one is done twice."""
    betas = np.linspace(0.00085**0.5, 0.012**0.5, TRAINING_STEPS) ** 2
    product = np.cumprod(1 - betas)
    stride = TRAINING_STEPS // steps
    descending = (np.arange(steps) * stride + 1)[::-1]
    times = np.concatenate((descending[:2], descending[1:]))
    keep = np.zeros((len(times), 2))
    weights = np.zeros((len(times), HISTORY))
    used: list[int] = []  # calls whose predictions later steps use
    for call, time in enumerate(times):
        start, target = int(time), int(time) - stride
        if call == 1:
            # The first step again, with the mean of the noise at its start and at its end.
            start, target = target + 2 * stride, start
            chosen, combination = [1, 0], [1 / 2, 1 / 2]
        else:
            used.append(call)
            chosen = used[: -1 - min(len(used), 4) : -1]
            combination = WEIGHTS[len(chosen)]
        now = product[start]
        then = product[target] if target >= 0 else product[0]
        keep[call, int(call == 1)] = (then / now) ** 0.5
        scale = (then - now) / (now * (1 - then) ** 0.5 + (now * (1 - now) * then) ** 0.5)
        for source, weight in zip(chosen, combination, strict=True):
            weights[call, call - source] = -scale * weight
    return Table(times, keep, weights)
