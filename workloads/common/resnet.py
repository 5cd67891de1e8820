"""ResNet-50 training: batch 128, plain SGD, one random batch made once."""

import torch
import torchvision
from torch.nn import functional

from common.training import Training


class ResNet50(Training):
    learning_rate: float

    def build(self) -> None:
        batch, side = self.pick(128, 2), self.pick(224, 64)
        with self.device:
            self.model = torchvision.models.resnet50()
        self.images = torch.randn(batch, 3, side, side, device=self.device)
        self.labels = torch.randint(0, 1000, (batch,), device=self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=self.learning_rate)

    def loss(self) -> torch.Tensor:
        return functional.cross_entropy(self.model(self.images), self.labels)
