"""Llama-2-7B shape, FP16, batch 1: 30 prompt tokens, greedy decoding, 99 passes in all."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.base import Plan
from common.harness import main
from common.inference import Inference
from common.llama import Llama

PROMPT = 30
PASSES = 99
MAX_POSITIONS = 4096
# Enough for all passes, and a multiple of 8, which the attention kernel's mask needs.
READ_POSITIONS = 136


class Program(Inference):
    id = "llama-2-7b-infer"
    profiler_calls = 2
    trace_units = 2  # of 99 steps each

    def build(self) -> None:
        self.decodes = self.pick(PASSES - 1, 3)
        self.model = Llama(
            layers=self.layer_count(32),
            dim=self.pick(4096, 64),
            heads=self.pick(32, 4),
            ffn=self.pick(11008, 128),
            vocabulary=self.pick(32000, 100),
            cache_positions=self.pick(MAX_POSITIONS, READ_POSITIONS),
            read_positions=READ_POSITIONS,
            device=self.device,
            dtype=torch.float16,
        )
        self.prompt_host = self.host_buffer(1, PROMPT, dtype=torch.int64)
        self.prompt_host.copy_(torch.randint(0, self.pick(32000, 100), (1, PROMPT)))
        self.prompt = torch.zeros(1, PROMPT, dtype=torch.int64, device=self.device)
        self.prompt_positions = torch.arange(PROMPT, device=self.device)
        self.token = torch.zeros(1, 1, dtype=torch.int64, device=self.device)
        self.position = torch.full((1,), PROMPT, dtype=torch.int64, device=self.device)
        self.token_host = self.host_buffer(1, 1, dtype=torch.int64)
        self.tokens: list[int] = []
        self.eager_decode = self.eager(self.decode_pass)
        self.replay = self.capture(self.decode_pass)

    def decode_pass(self) -> None:
        self.token.copy_(self.model.next_token(self.token, self.position))
        self.position.add_(1)

    def finish_pass(self) -> None:
        self.token_host.copy_(self.token, non_blocking=True)
        self.sync()
        self.tokens.append(int(self.token_host))

    def prefill(self) -> None:
        self.tokens.clear()
        with torch.inference_mode():
            self.model.cache.zero_()
            self.position.fill_(PROMPT)
            self.prompt.copy_(self.prompt_host, non_blocking=True)
            self.token.copy_(self.model.next_token(self.prompt, self.prompt_positions))
        self.finish_pass()

    def decode(self) -> None:
        self.replay()
        self.finish_pass()

    def plan(self) -> Plan:
        return [("prefill", self.prefill), *[("decode", self.decode)] * self.decodes]

    def eager_plan(self) -> Plan:
        def decode() -> None:
            self.eager_decode()
            self.finish_pass()

        return [("prefill", self.prefill), ("decode", decode)]


if __name__ == "__main__":
    main(Program)
