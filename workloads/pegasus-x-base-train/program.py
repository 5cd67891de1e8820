"""Dense Pegasus training, FP32, batch 4, source 1024 and target 80 tokens, AdamW, clipping."""

import sys
from pathlib import Path

import torch
from transformers import PegasusConfig, PegasusForConditionalGeneration

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.harness import main
from common.training import Training, decay_groups


class Program(Training):
    id = "pegasus-x-base-train"
    profiler_layers = 2
    profiler_calls = 1
    clip = 1.0

    def build(self) -> None:
        batch, source, target = self.pick(4, 2), self.pick(1024, 32), self.pick(80, 16)
        vocabulary = self.pick(96103, 200)
        layers = self.layer_count(12)
        config = PegasusConfig(
            vocab_size=vocabulary,
            # The released table is longer; only these rows are ever read.
            max_position_embeddings=source,
            d_model=self.pick(768, 48),
            encoder_layers=layers,
            decoder_layers=layers,
            encoder_attention_heads=12,
            decoder_attention_heads=12,
            encoder_ffn_dim=self.pick(3072, 96),
            decoder_ffn_dim=self.pick(3072, 96),
            scale_embedding=True,
            use_cache=False,
            # The reference's release of the library had no fused attention for this model.
            attn_implementation="eager",
        )
        with self.device:
            self.model = PegasusForConditionalGeneration(config)
            ids = torch.randint(2, vocabulary, (batch, source))
            used = torch.randint(source // 4, source + 1, (batch, 1))
            used[0] = source  # documents are padded to the longest one
            mask = torch.arange(source)[None, :] < used
            labels = torch.randint(2, vocabulary, (batch, target))
            # Padding (id 0) stays in the loss, as in the reference.
            short = torch.randint(target // 3, target + 1, (batch, 1))
            labels.masked_fill_(torch.arange(target)[None, :] >= short, 0)
            self.batch = {
                "input_ids": ids * mask,
                "attention_mask": mask.long(),
                "labels": labels,
            }
        self.model.train()
        self.optimizer = torch.optim.AdamW(decay_groups(self.model, 0.01), lr=5e-5)

    def loss(self) -> torch.Tensor:
        return self.model(**self.batch).loss


if __name__ == "__main__":
    main(Program)
