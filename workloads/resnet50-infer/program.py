"""ResNet-50, FP16, batch 1, 224 x 224, one CUDA graph per request."""

import sys
from pathlib import Path

import torch
import torchvision
from torch.fx.experimental.optimization import fuse

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.harness import main
from common.inference import SingleGraph


class Program(SingleGraph):
    id = "resnet50-infer"
    profiler_calls = 1

    def build(self) -> None:
        side = self.pick(224, 64)
        with self.device:
            model = torchvision.models.resnet50().eval()
        # Compilers fold a batch norm that is fixed into the convolution before it.
        self.model = fuse(model).half()
        self.image = torch.randn(1, 3, side, side, dtype=torch.float16, device=self.device)
        self.replay = self.capture(self.forward)

    def forward(self) -> None:
        self.scores = self.model(self.image)


if __name__ == "__main__":
    main(Program)
