"""BERT-base, FP16, batch 1, 384 tokens, one CUDA graph per request."""

import sys
from pathlib import Path

import torch
from transformers import BertConfig, BertModel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.harness import main
from common.inference import SingleGraph


class Program(SingleGraph):
    id = "bert-base-384-infer"
    profiler_each = 6

    def build(self) -> None:
        config = BertConfig(num_hidden_layers=self.layer_count(12))
        self.model = BertModel(config).half().to(self.device).eval()
        tokens = self.pick(384, 16)
        self.ids = torch.randint(0, 30000, (1, tokens), device=self.device)
        self.replay = self.capture(self.forward)

    def forward(self) -> None:
        self.output = self.model(self.ids).last_hidden_state


if __name__ == "__main__":
    main(Program)
