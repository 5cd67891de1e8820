"""A Llama-shaped decoder with a static key/value cache, written to be captured in a graph.

All positions are device tensors and all shapes are fixed, so one captured decode
step serves every position.
"""

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

EPSILON = 1e-5
# The other back ends choose plans by shape at run time, which a capture forbids.
BACKENDS = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


class Layer:
    def __init__(self, dim: int, ffn: int, new_weight):
        self.norm_attention = torch.ones_like(new_weight(1, dim)[0])
        self.norm_ffn = torch.ones_like(self.norm_attention)
        self.q, self.k, self.v, self.o = (new_weight(dim, dim) for _ in range(4))
        self.gate, self.up = (new_weight(ffn, dim) for _ in range(2))
        self.down = new_weight(dim, ffn)


class Llama:
    def __init__(
        self,
        *,
        layers: int,
        dim: int,
        heads: int,
        ffn: int,
        vocabulary: int,
        cache_positions: int,
        read_positions: int,
        device: torch.device,
        dtype: torch.dtype,
    ):
        def new_weight(rows: int, columns: int) -> torch.Tensor:
            return torch.empty(rows, columns, device=device, dtype=dtype).normal_(0.0, 0.02)

        self.heads, self.head_dim, self.dim = heads, dim // heads, dim
        self.embedding = new_weight(vocabulary, dim)
        self.layers = [Layer(dim, ffn, new_weight) for _ in range(layers)]
        self.norm = torch.ones(dim, device=device, dtype=dtype)
        self.head = new_weight(vocabulary, dim)
        shape = (layers, 2, 1, heads, cache_positions, self.head_dim)
        self.cache = torch.zeros(shape, device=device, dtype=dtype)
        # Attention reads this many positions whatever the current length is; the mask
        # hides those that are not written yet.
        self.read = read_positions
        steps = torch.arange(read_positions, device=device)
        rates = 10000.0 ** (-torch.arange(0, self.head_dim, 2, device=device) / self.head_dim)
        angles = torch.outer(steps.float(), rates).repeat(1, 2)
        self.cos, self.sin = angles.cos().to(dtype), angles.sin().to(dtype)
        hidden = steps[None, :] > steps[:, None]
        lowest = torch.finfo(dtype).min
        self.mask = torch.zeros(hidden.shape, device=device, dtype=dtype)
        self.mask.masked_fill_(hidden, lowest)

    def rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-second, first), dim=-1) * sin

    def attend(self, x: torch.Tensor, index: int, positions: torch.Tensor, tables) -> torch.Tensor:
        layer, (cos, sin, mask) = self.layers[index], tables
        tokens = x.shape[1]

        def split(weight: torch.Tensor) -> torch.Tensor:
            wide = functional.linear(x, weight)
            return wide.view(1, tokens, self.heads, self.head_dim).transpose(1, 2)

        q = self.rotate(split(layer.q), cos, sin)
        keys, values = self.cache[index, 0], self.cache[index, 1]
        keys.index_copy_(2, positions, self.rotate(split(layer.k), cos, sin))
        values.index_copy_(2, positions, split(layer.v))
        out = functional.scaled_dot_product_attention(
            q, keys[:, :, : self.read], values[:, :, : self.read], attn_mask=mask
        )
        return functional.linear(out.transpose(1, 2).reshape(1, tokens, self.dim), layer.o)

    def block(self, x: torch.Tensor, index: int, positions: torch.Tensor, tables) -> torch.Tensor:
        layer = self.layers[index]
        h = functional.rms_norm(x, (self.dim,), layer.norm_attention, EPSILON)
        x = x + self.attend(h, index, positions, tables)
        h = functional.rms_norm(x, (self.dim,), layer.norm_ffn, EPSILON)
        gated = functional.silu(functional.linear(h, layer.gate))
        return x + functional.linear(gated * functional.linear(h, layer.up), layer.down)

    def next_token(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Greedy next token after `tokens` (1 x T), which stand at `positions` (T)."""
        x = functional.embedding(tokens, self.embedding)
        cos, sin = self.cos.index_select(0, positions), self.sin.index_select(0, positions)
        tables = (cos, sin, self.mask.index_select(0, positions)[None, None])
        with sdpa_kernel(BACKENDS):
            for index in range(len(self.layers)):
                x = self.block(x, index, positions, tables)
        last = functional.rms_norm(x[:, -1:], (self.dim,), self.norm, EPSILON)
        return functional.linear(last, self.head).argmax(dim=-1)
