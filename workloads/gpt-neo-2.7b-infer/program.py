"""GPT-Neo 2.7B, FP16, batch 1: 5 prompt tokens, greedily to 128 tokens, launch by launch."""

import sys
from pathlib import Path

import torch
from transformers import GPTNeoConfig, GPTNeoForCausalLM, StaticCache

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.base import Plan
from common.harness import main
from common.inference import Inference

PROMPT = 5
LENGTH = 128


class Program(Inference):
    id = "gpt-neo-2.7b-infer"
    profiler_calls = 2
    trace_units = 2  # of 123 passes each

    def build(self) -> None:
        layers = self.layer_count(32)
        self.length = self.pick(LENGTH, PROMPT + 4)
        config = GPTNeoConfig(
            hidden_size=self.pick(2560, 64),
            num_layers=layers,
            num_heads=self.pick(20, 4),
            attention_types=[[["global", "local"], layers // 2]],
            window_size=256,
        )
        with self.device:
            self.model = GPTNeoForCausalLM(config).half().eval()
        # Keys and values of fixed size, so that every pass launches the same kernels.
        self.cache = StaticCache(config, max_cache_len=self.length)
        self.prompt_host = self.host_buffer(1, PROMPT, dtype=torch.int64)
        self.prompt_host.copy_(torch.randint(0, config.vocab_size, (1, PROMPT)))
        self.prompt_positions = torch.arange(PROMPT, device=self.device)[None]
        self.position = torch.zeros(1, 1, dtype=torch.int64, device=self.device)
        self.token = torch.zeros(1, 1, dtype=torch.int64, device=self.device)
        self.tokens: list[int] = []

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> None:
        """One pass: the greedy token after `tokens` (1 x T), which stand at `positions`."""
        out = self.model(
            tokens, past_key_values=self.cache, position_ids=positions, logits_to_keep=1
        )
        self.token = out.logits[:, -1].argmax(dim=-1, keepdim=True)
        self.position.add_(tokens.shape[1])
        # Asking whether the text has ended makes the host wait for each token.
        self.tokens.append(int(self.token))

    def prefill(self) -> None:
        self.tokens.clear()
        with torch.inference_mode():
            for layer in self.cache.layers:
                layer.cumulative_length.zero_()
            self.position.zero_()
            prompt = self.prompt_host.to(self.device, non_blocking=True)
            self.forward(prompt, self.prompt_positions)

    def decode(self) -> None:
        with torch.inference_mode():
            self.forward(self.token, self.position)

    def plan(self) -> Plan:
        decodes = self.length - PROMPT - 1
        return [("prefill", self.prefill), *[("decode", self.decode)] * decodes]

    def eager_plan(self) -> Plan:
        return [("prefill", self.prefill), ("decode", self.decode)]


if __name__ == "__main__":
    main(Program)
