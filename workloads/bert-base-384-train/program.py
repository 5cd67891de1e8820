"""BERT-base sequence classification training, FP32, batch 32 of 384 tokens, plain SGD."""

import sys
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.harness import main
from common.training import Training


class Program(Training):
    id = "bert-base-384-train"
    profiler_layers = 2

    def build(self) -> None:
        batch, tokens = self.pick(32, 2), self.pick(384, 16)
        config = BertConfig(num_labels=2, num_hidden_layers=self.layer_count(12))
        self.model = BertForSequenceClassification(config).to(self.device)
        self.ids = torch.randint(0, 30000, (batch, tokens), device=self.device)
        self.labels = torch.randint(0, 2, (batch,), device=self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)

    def loss(self) -> torch.Tensor:
        return self.model(input_ids=self.ids, labels=self.labels).loss


if __name__ == "__main__":
    main(Program)
