"""ResNet-50 training as in `resnet50-train`, at PyTorch's default precision of convolutions."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.harness import main
from common.resnet import ResNet50


class Program(ResNet50):
    id = "resnet50-tf32-train"
    learning_rate = 1e-3
    convolution_tf32 = True
    profiler_calls = 1


if __name__ == "__main__":
    main(Program)
