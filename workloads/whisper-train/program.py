"""Whisper-small training, FP32, batch 16 of 80 x 3000 features, gradient checkpointing, AdamW."""

import sys
from pathlib import Path

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.harness import main
from common.training import Training


class Program(Training):
    id = "whisper-train"
    profiler_layers = 2
    profiler_calls = 1
    clip = 1.0

    def build(self) -> None:
        batch, frames, target = self.pick(16, 2), self.pick(3000, 40), self.pick(64, 8)
        layers = self.layer_count(12)
        config = WhisperConfig(
            vocab_size=51865,
            d_model=self.pick(768, 48),
            encoder_layers=layers,
            decoder_layers=layers,
            encoder_attention_heads=12,
            decoder_attention_heads=12,
            encoder_ffn_dim=self.pick(3072, 96),
            decoder_ffn_dim=self.pick(3072, 96),
            max_source_positions=frames // 2,
            use_cache=False,
        )
        with self.device:
            self.model = WhisperForConditionalGeneration(config)
            self.features = torch.randn(batch, 80, frames)
            self.labels = torch.randint(0, 50257, (batch, target))
        self.model.gradient_checkpointing_enable()
        self.model.train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5, weight_decay=0.0)

    def loss(self) -> torch.Tensor:
        return self.model(input_features=self.features, labels=self.labels).loss


if __name__ == "__main__":
    main(Program)
