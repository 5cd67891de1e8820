"""ResNet-50 training, FP32, batch 128, plain SGD, one random batch made once."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.harness import main
from common.resnet import ResNet50


class Program(ResNet50):
    id = "resnet50-train"
    learning_rate = 0.01
    profiler_each = 2
    artifact_trace_units = 4
    artifact_profiler_each = 2


if __name__ == "__main__":
    main(Program)
