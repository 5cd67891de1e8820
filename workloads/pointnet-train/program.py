"""PointNet classification training, FP32, batch 128 of 2500 points, Adam."""

import sys
from pathlib import Path

import torch
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.harness import main
from common.pointnet import PointNet, regulariser
from common.training import Training

CLASSES = 16


class Program(Training):
    id = "pointnet-train"
    profiler_calls = 1
    artifact_trace_units = 10
    artifact_profiler_each = 2

    def build(self) -> None:
        batch, points = self.pick(128, 4), self.pick(2500, 64)
        self.model = PointNet(CLASSES).to(self.device)
        self.clouds = torch.randn(batch, 3, points, device=self.device)
        self.labels = torch.randint(0, CLASSES, (batch,), device=self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)

    def loss(self) -> torch.Tensor:
        scores, transform = self.model(self.clouds)
        # The reference applies cross-entropy to values that are log-probabilities already.
        return functional.cross_entropy(scores, self.labels) + 0.001 * regulariser(transform)


if __name__ == "__main__":
    main(Program)
