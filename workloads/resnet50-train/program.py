"""ResNet-50 training, FP32, batch 128, plain SGD, one random batch made once."""

import sys
from pathlib import Path

import torch
import torchvision
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.harness import main
from common.training import Training


class Program(Training):
    id = "resnet50-train"
    profiler_each = 2

    def build(self) -> None:
        batch, side = self.pick(128, 2), self.pick(224, 64)
        with self.device:
            self.model = torchvision.models.resnet50()
        self.images = torch.randn(batch, 3, side, side, device=self.device)
        self.labels = torch.randint(0, 1000, (batch,), device=self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def loss(self) -> torch.Tensor:
        return functional.cross_entropy(self.model(self.images), self.labels)


if __name__ == "__main__":
    main(Program)
