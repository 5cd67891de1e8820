"""torch.compile (inductor: Triton on a GPU) of a small network, five training steps."""

import torch
from torch import nn
from torch.nn import functional


def outputs(options):
    device = torch.device(options.device)
    width = 32 if options.tiny else 512
    with device:
        model = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        x, target = torch.randn(256, width), torch.randn(256, width)

    @torch.compile(backend="inductor")
    def loss_of(x: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(torch.softmax(model(x), dim=-1) * x.sin(), target)

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = loss_of(x)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    yield "losses", torch.stack(losses)
    yield from model.state_dict().items()
