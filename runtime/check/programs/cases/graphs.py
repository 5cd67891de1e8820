"""CUDA graphs: capture, 100 replays with changing input, and a second graph from the same pool."""

import torch
from torch import nn

from common.base import seed_everything
from common.inference import Inference


class Chain(Inference):
    id = "graph-chain"

    def build(self) -> None:
        width = self.pick(2048, 32)
        with self.device:
            layers = [
                nn.Linear(width, width),
                nn.GELU(),
                nn.LayerNorm(width),
                nn.Linear(width, width),
            ]
            self.model = nn.Sequential(*layers, nn.Softmax(dim=-1)).eval()
        self.x = torch.randn(64, width, device=self.device)
        self.sum = torch.zeros(64, width, device=self.device)
        self.first = self.capture(self.forward)
        self.second = self.capture(self.accumulate)
        # The warm-up before a capture runs the captured code, too.
        self.sum.zero_()

    def forward(self) -> None:
        self.y = self.model(self.x)

    def accumulate(self) -> None:
        self.sum.add_(self.y)


def outputs(options):
    seed_everything()
    chain = Chain(options)
    for step in range(5 if options.tiny else 100):
        chain.x.mul_(0.99).add_(0.01 * step)
        chain.first()
        chain.second()
    chain.sync()
    yield "last", chain.y
    yield "sum", chain.sum
