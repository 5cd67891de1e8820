"""BERT-base question-answering training, FP32, batch 32 of 384 tokens, AdamW."""

import sys
from pathlib import Path

import torch
from transformers import BertConfig, BertForQuestionAnswering

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.harness import main
from common.training import Training


class Program(Training):
    id = "bert-train"
    profiler_calls = 1

    def build(self) -> None:
        batch, tokens = self.pick(32, 2), self.pick(384, 32)
        with self.device:
            config = BertConfig(num_hidden_layers=self.layer_count(12))
            self.model = BertForQuestionAnswering(config)
            ids = torch.randint(0, 30000, (batch, tokens))
            # Question, passage, padding: real examples rarely fill all positions.
            used = torch.randint(tokens // 3, tokens + 1, (batch, 1))
            place = torch.arange(tokens)[None, :]
            start = torch.randint(16, tokens // 3 + 16, (batch,)).clamp_(max=tokens - 1)
            self.batch = {
                "input_ids": ids,
                "attention_mask": (place < used).long(),
                "token_type_ids": ((place >= 16) & (place < used)).long(),
                "start_positions": start,
                "end_positions": (start + 3).clamp(max=tokens - 1),
            }
        # One parameter at a time, as the optimiser that the reference used does it.
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=5e-5, eps=1e-8, weight_decay=0.0, foreach=False
        )

    def loss(self) -> torch.Tensor:
        return self.model(**self.batch).loss


if __name__ == "__main__":
    main(Program)
