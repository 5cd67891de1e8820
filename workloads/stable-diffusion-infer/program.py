"""Stable Diffusion v1.4, FP16, one 512 x 512 image: text, 51 denoising calls, decoder, checker."""

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional
from transformers import CLIPTextConfig, CLIPTextModel, CLIPVisionConfig, CLIPVisionModel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import pndm
from common.base import Plan
from common.diffusion import LATENT_CHANNELS, ImageDecoder, Unet
from common.harness import main
from common.inference import Inference

STEPS = 50
GUIDANCE = 7.5
TOKENS = 77
VOCABULARY = 49408
LATENT_SCALE = 0.18215
# Concepts that the safety checker looks for, and those that it treats with more care.
CONCEPTS = (17, 3)


class Program(Inference):
    id = "stable-diffusion-infer"
    profiler_calls = 1
    trace_units = 2  # of 51 calls each

    def build(self) -> None:
        half = torch.float16
        self.side = self.pick(64, 8)
        width = self.pick(768, 64)
        with self.device:
            self.build_text(width)
            self.build_checker(width)
            if self.options.tiny:
                self.unet, self.decoder = Unet((32, 64), width), ImageDecoder((64, 32))
            else:
                self.unet, self.decoder = Unet(), ImageDecoder()
        for model in (self.text_model, self.vision_model, self.projection):
            model.half().eval()
        self.unet.half().eval()
        self.decoder.half().eval()
        self.prompts_host = [self.host_buffer(1, TOKENS, dtype=torch.int64) for _ in range(2)]
        for prompt in self.prompts_host:
            prompt.copy_(torch.randint(0, VOCABULARY, (1, TOKENS)))
        table = pndm.table(self.pick(STEPS, 4))
        self.calls = len(table.times)
        self.times = torch.from_numpy(table.times).to(self.device)
        self.keep = torch.from_numpy(table.keep).float().to(self.device)
        self.weights = torch.from_numpy(table.weights).float().to(self.device)

        def buffer(*shape: int) -> torch.Tensor:
            return torch.zeros(*shape, dtype=half, device=self.device)

        self.call = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.text = buffer(2, TOKENS, width)
        self.latents = buffer(2, LATENT_CHANNELS, self.side, self.side)  # now, and a call ago
        self.noise = buffer(pndm.HISTORY, LATENT_CHANNELS, self.side, self.side)
        picture = self.side * 2 ** (len(self.decoder.levels) // 4)
        self.image_host = self.host_buffer(1, picture, picture, 3, dtype=torch.float32)
        self.flags_host = [self.host_buffer(1, n, dtype=torch.float32) for n in CONCEPTS]
        self.replay = self.capture(self.denoise)
        self.eager_denoise = self.eager(self.denoise)

    def build_text(self, width: int) -> None:
        config = CLIPTextConfig(
            vocab_size=VOCABULARY,
            hidden_size=width,
            intermediate_size=4 * width,
            num_hidden_layers=self.pick(12, 2),
            num_attention_heads=self.pick(12, 4),
            max_position_embeddings=TOKENS,
        )
        self.text_model = CLIPTextModel(config)

    def build_checker(self, width: int) -> None:
        side, hidden = self.pick(224, 28), self.pick(1024, 64)
        config = CLIPVisionConfig(
            hidden_size=hidden,
            intermediate_size=4 * hidden,
            num_hidden_layers=self.pick(24, 2),
            num_attention_heads=self.pick(16, 4),
            image_size=side,
            patch_size=14,
        )
        self.vision_model = CLIPVisionModel(config)
        self.projection = torch.nn.Linear(hidden, width, bias=False)
        self.concepts = [torch.randn(n, width).half() for n in CONCEPTS]
        self.pixels_host = self.host_buffer(1, 3, side, side, dtype=torch.float16)
        self.pixels_host.copy_(torch.randn(1, 3, side, side, device="cpu"))

    def encode_text(self) -> None:
        with torch.inference_mode():
            # The prompt and the empty one go through the encoder one after the other.
            for row, prompt in zip(self.text, self.prompts_host, strict=True):
                ids = prompt.to(self.device, non_blocking=True)
                row.copy_(self.text_model(input_ids=ids).last_hidden_state[0])
            self.call.zero_()
            self.noise.zero_()
            self.latents[:1].normal_()
        self.sync()

    def denoise(self) -> None:
        """One call of the network on the latents with and without the prompt, and the sampler."""
        both = self.latents[:1].expand(2, -1, -1, -1).contiguous()
        time = self.times.index_select(0, self.call)
        free, prompted = self.unet(both, time, self.text).chunk(2)
        noise = free + GUIDANCE * (prompted - free)
        self.noise.copy_(torch.cat((noise, self.noise[:-1])))
        keep = self.keep.index_select(0, self.call).view(-1, 1, 1, 1)
        weights = self.weights.index_select(0, self.call).view(-1, 1, 1, 1)
        latents = (keep * self.latents).sum(0, keepdim=True)
        latents = latents + (weights * self.noise).sum(0, keepdim=True)
        self.latents.copy_(torch.cat((latents.half(), self.latents[:1])))
        self.call.add_(1)

    def denoise_with(self, run: Callable[[], None]) -> None:
        run()
        self.sync()

    def make_image(self) -> None:
        with torch.inference_mode():
            image = self.decoder(self.latents[:1] / LATENT_SCALE)
            image = (image / 2 + 0.5).clamp(0, 1).permute(0, 2, 3, 1).float()
            # The checker's input is made from the image on the host.
            self.image_host.copy_(image, non_blocking=True)
            self.sync()
            pixels = self.pixels_host.to(self.device, non_blocking=True)
            features = self.projection(self.vision_model(pixels).pooler_output)
            features = functional.normalize(features)
            for host, concepts in zip(self.flags_host, self.concepts, strict=True):
                host.copy_(features @ functional.normalize(concepts).t(), non_blocking=True)
        self.sync()

    def plan(self) -> Plan:
        denoise = ("denoise", lambda: self.denoise_with(self.replay))
        return [("text", self.encode_text), *[denoise] * self.calls, ("image", self.make_image)]

    def eager_plan(self) -> Plan:
        denoise = ("denoise", lambda: self.denoise_with(self.eager_denoise))
        return [("text", self.encode_text), denoise, ("image", self.make_image)]


if __name__ == "__main__":
    main(Program)
