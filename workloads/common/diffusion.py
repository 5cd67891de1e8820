"""The networks of Stable Diffusion v1.4 beside CLIP: the denoising U-net and the image decoder.

Written from the published configuration: widths 320 to 1280, two residual blocks a level,
8 heads, cross-attention to 77 tokens of width 768 on the first three levels.
"""

import torch
from torch import nn
from torch.nn import functional

GROUPS = 32
HEADS = 8
LATENT_CHANNELS = 4


def wide(inner: int, outer: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inner, outer, 3, stride, 1)


class Residual(nn.Module):
    """Two normed 3x3 convolutions; the embedding of the time, if any, is added between them."""

    def __init__(self, inner: int, outer: int, time: int | None, epsilon: float):
        super().__init__()
        self.norm_in = nn.GroupNorm(GROUPS, inner, epsilon)
        self.conv_in = wide(inner, outer)
        self.time = None if time is None else nn.Linear(time, outer)
        self.norm_out = nn.GroupNorm(GROUPS, outer, epsilon)
        self.conv_out = wide(outer, outer)
        self.shortcut = nn.Identity() if inner == outer else nn.Conv2d(inner, outer, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor | None = None) -> torch.Tensor:
        h = self.conv_in(functional.silu(self.norm_in(x)))
        if self.time is not None:
            h = h + self.time(functional.silu(time))[:, :, None, None]
        h = self.conv_out(functional.silu(self.norm_out(h)))
        return self.shortcut(x) + h


class Attention(nn.Module):
    def __init__(self, width: int, context: int, heads: int, bias: bool):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width, bias)
        self.k, self.v = (nn.Linear(context, width, bias) for _ in range(2))
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        def split(wide: torch.Tensor) -> torch.Tensor:
            return wide.unflatten(2, (self.heads, -1)).transpose(1, 2)

        q, k, v = split(self.q(x)), split(self.k(context)), split(self.v(context))
        out = functional.scaled_dot_product_attention(q, k, v)
        return self.out(out.transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    """Self-attention, attention to the text, and a gated linear unit, over the places of a map."""

    def __init__(self, width: int, context: int):
        super().__init__()
        self.norm = nn.GroupNorm(GROUPS, width, 1e-6)
        self.proj_in, self.proj_out = (nn.Conv2d(width, width, 1) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.self_attention = Attention(width, width, HEADS, bias=False)
        self.text_attention = Attention(width, context, HEADS, bias=False)
        self.gated = nn.Linear(width, 8 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, image: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        x = self.proj_in(self.norm(image))
        shape = x.shape[2:]
        x = x.flatten(2).transpose(1, 2)
        h = self.norms[0](x)
        x = x + self.self_attention(h, h)
        x = x + self.text_attention(self.norms[1](x), text)
        value, gate = self.gated(self.norms[2](x)).chunk(2, dim=-1)
        x = x + self.narrow(value * functional.gelu(gate))
        return image + self.proj_out(x.transpose(1, 2).unflatten(2, shape).contiguous())


class Unit(nn.Module):
    """A residual block and, on the levels that look at the text, a transformer."""

    def __init__(self, inner: int, outer: int, time: int, context: int | None):
        super().__init__()
        self.residual = Residual(inner, outer, time, 1e-5)
        self.transformer = None if context is None else Transformer(outer, context)

    def forward(self, x, time, text) -> torch.Tensor:
        x = self.residual(x, time)
        return x if self.transformer is None else self.transformer(x, text)


class Upsample(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.conv = wide(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(functional.interpolate(x, scale_factor=2.0, mode="nearest"))


class Unet(nn.Module):
    """Predicts the noise in latents of shape (batch, 4, side, side)."""

    def __init__(self, widths: tuple[int, ...] = (320, 640, 1280, 1280), context: int = 768):
        super().__init__()
        time = 4 * widths[0]
        last = len(widths) - 1
        exponents = torch.arange(widths[0] // 2) / (widths[0] // 2)
        self.register_buffer("rates", 10000.0**-exponents, persistent=False)
        self.time = nn.Sequential(nn.Linear(widths[0], time), nn.SiLU(), nn.Linear(time, time))
        self.conv_in = wide(LATENT_CHANNELS, widths[0])
        skips = [widths[0]]
        self.down = nn.ModuleList()
        width = widths[0]
        for level, outer in enumerate(widths):
            text = None if level == last else context
            for _ in range(2):
                self.down.append(Unit(width, outer, time, text))
                width = outer
                skips.append(width)
            if level != last:
                self.down.append(wide(width, width, 2))
                skips.append(width)
        self.middle = Unit(width, width, time, context)
        self.middle_out = Residual(width, width, time, 1e-5)
        self.up = nn.ModuleList()
        for level, outer in reversed(list(enumerate(widths))):
            text = None if level == last else context
            for _ in range(3):
                self.up.append(Unit(width + skips.pop(), outer, time, text))
                width = outer
            if level != 0:
                self.up.append(Upsample(width))
        self.norm_out = nn.GroupNorm(GROUPS, width, 1e-5)
        self.conv_out = wide(width, LATENT_CHANNELS)

    def forward(self, x: torch.Tensor, time: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """`time` holds one training step; `text` is (batch, tokens, context)."""
        angles = time[:, None].float() * self.rates.float()
        time = self.time(torch.cat((angles.cos(), angles.sin()), dim=-1).to(x.dtype))
        x = self.conv_in(x)
        skips = [x]
        for part in self.down:
            x = part(x, time, text) if isinstance(part, Unit) else part(x)
            skips.append(x)
        x = self.middle_out(self.middle(x, time, text), time)
        for part in self.up:
            if isinstance(part, Unit):
                x = part(torch.cat((x, skips.pop()), dim=1), time, text)
            else:
                x = part(x)
        return self.conv_out(functional.silu(self.norm_out(x)))


class ImageDecoder(nn.Module):
    """The autoencoder's decoder: latents (1, 4, side, side) to pixels (1, 3, 8 side, 8 side)."""

    def __init__(self, widths: tuple[int, ...] = (512, 512, 256, 128)):
        super().__init__()
        width = widths[0]
        self.conv_in = nn.Sequential(
            nn.Conv2d(LATENT_CHANNELS, LATENT_CHANNELS, 1), wide(LATENT_CHANNELS, width)
        )
        self.middle = nn.ModuleList(Residual(width, width, None, 1e-6) for _ in range(2))
        self.norm = nn.GroupNorm(GROUPS, width, 1e-6)
        self.attention = Attention(width, width, 1, bias=True)
        levels: list[nn.Module] = []
        for level, outer in enumerate(widths):
            for _ in range(3):
                levels.append(Residual(width, outer, None, 1e-6))
                width = outer
            if level != len(widths) - 1:
                levels.append(Upsample(width))
        self.levels = nn.Sequential(*levels)
        self.norm_out = nn.GroupNorm(GROUPS, width, 1e-6)
        self.conv_out = wide(width, 3)

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        x = self.middle[0](self.conv_in(latents))
        places = self.norm(x).flatten(2).transpose(1, 2)
        x = x + self.attention(places, places).transpose(1, 2).unflatten(2, x.shape[2:])
        x = self.levels(self.middle[1](x))
        return self.conv_out(functional.silu(self.norm_out(x)))
