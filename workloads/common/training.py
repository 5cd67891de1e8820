"""A training workload: one iteration is one optimiser step and a device-wide wait."""

import torch

from common.base import Plan, Workload


def decay_groups(model: torch.nn.Module, weight_decay: float) -> list[dict]:
    """Biases and norm weights get no decay, as the usual trainers do it."""
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    return [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]


class Training(Workload):
    kind = "training"
    clip: float | None = None  # gradient norm limit

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer

    def loss(self) -> torch.Tensor:
        raise NotImplementedError

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.loss().backward()
        if self.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.sync()

    def plan(self) -> Plan:
        return [("step", self.step)]
