"""GPT-2 large language-model training, FP32, one sequence of 512 tokens, AdamW, clipping."""

import sys
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.harness import main
from common.training import Training


class Program(Training):
    id = "gpt2-large-train"
    profiler_layers = 2
    profiler_calls = 1
    clip = 1.0

    def build(self) -> None:
        tokens = self.pick(512, 32)
        config = GPT2Config(
            n_embd=self.pick(1280, 64),
            n_layer=self.layer_count(36),
            n_head=self.pick(20, 4),
            use_cache=False,
        )
        with self.device:
            self.model = GPT2LMHeadModel(config)
            self.ids = torch.randint(0, 50257, (1, tokens))
            self.mask = torch.ones_like(self.ids)
        self.model.train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=5e-5, weight_decay=0.0)

    def loss(self) -> torch.Tensor:
        return self.model(input_ids=self.ids, attention_mask=self.mask, labels=self.ids).loss


if __name__ == "__main__":
    main(Program)
