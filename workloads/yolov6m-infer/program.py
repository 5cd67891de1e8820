"""YOLOv6-m, FP32, batch 1, 640 x 640, one CUDA graph per request."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.harness import main
from common.inference import SingleGraph
from common.yolo import YoloV6


class Program(SingleGraph):
    id = "yolov6m-infer"
    # Upstream sets PyTorch's precision of products to "high" and leaves its default for
    # convolutions.
    matmul_tf32 = True
    convolution_tf32 = True
    profiler_calls = 1

    def build(self) -> None:
        side, width = self.pick(640, 64), self.pick(48, 12)
        with self.device:
            self.model = YoloV6(width=width).eval()
        self.image = torch.randn(1, 3, side, side, device=self.device)
        self.replay = self.capture(self.forward)

    def forward(self) -> None:
        self.detections = self.model(self.image)


if __name__ == "__main__":
    main(Program)
