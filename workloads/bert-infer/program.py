"""BERT-large question answering, FP16, batch 1, 128 tokens, copies in and out included."""

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import BertConfig, BertForQuestionAnswering

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.base import Plan
from common.harness import main
from common.inference import Inference


class Program(Inference):
    id = "bert-infer"

    def build(self) -> None:
        config = BertConfig(
            hidden_size=self.pick(1024, 64),
            num_hidden_layers=self.layer_count(24),
            num_attention_heads=self.pick(16, 4),
            intermediate_size=self.pick(4096, 128),
        )
        with self.device:
            self.model = BertForQuestionAnswering(config).half().eval()
        tokens = self.pick(128, 16)
        # A question of 14 tokens and its passage; the rest is padding.
        used = tokens - tokens // 8
        ids = torch.randint(1000, 30000, (1, tokens), dtype=torch.int64, device="cpu")
        mask = torch.zeros(1, tokens, dtype=torch.int64)
        mask[:, :used] = 1
        segments = torch.zeros(1, tokens, dtype=torch.int64)
        segments[:, 14:used] = 1
        self.inputs_host = []
        for value in (ids, mask, segments):
            buffer = self.host_buffer(1, tokens, dtype=torch.int64)
            buffer.copy_(value)
            self.inputs_host.append(buffer)
        self.inputs = [torch.empty_like(x, device=self.device) for x in self.inputs_host]
        self.logits = [
            torch.empty(1, tokens, dtype=torch.float16, device=self.device) for _ in range(2)
        ]
        self.logits_host = [self.host_buffer(1, tokens, dtype=torch.float16) for _ in range(2)]
        self.copy_in()
        self.replay = self.capture(self.forward)

    def forward(self) -> None:
        ids, mask, segments = self.inputs
        # The mask is given ready to add: the library's own preparation asks the
        # device whether any position is padded, and waits for the answer.
        bias = (1.0 - mask[:, None, None, :].half()) * torch.finfo(torch.float16).min
        bias = bias.expand(1, 1, mask.shape[1], mask.shape[1])
        out = self.model(input_ids=ids, attention_mask=bias, token_type_ids=segments)
        self.logits[0].copy_(out.start_logits)
        self.logits[1].copy_(out.end_logits)

    def copy_in(self) -> None:
        for device, host in zip(self.inputs, self.inputs_host, strict=True):
            device.copy_(host, non_blocking=True)

    def request(self, run: Callable[[], None]) -> None:
        self.copy_in()
        run()
        for host, device in zip(self.logits_host, self.logits, strict=True):
            host.copy_(device, non_blocking=True)
        self.sync()

    def plan(self) -> Plan:
        return [("request", lambda: self.request(self.replay))]

    def eager_plan(self) -> Plan:
        return [("request", lambda: self.request(self.eager(self.forward)))]


if __name__ == "__main__":
    main(Program)
