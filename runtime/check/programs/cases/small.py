"""Matrix products and softmax, and one training step with a convolution: a quick comparison."""

import torch
from torch import nn
from torch.nn import functional


def outputs(options):
    device = torch.device(options.device)
    size = 32 if options.tiny else 1024
    with device:
        a, b = torch.randn(size, size), torch.randn(size, size)
        image = torch.randn(8, 3, size // 8, size // 8)
        model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
        labels = torch.arange(8) % 10
    for _ in range(3 if options.tiny else 50):
        a = torch.softmax(a @ b / size**0.5, dim=-1) * size**0.5
    yield "chain", a
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(image)
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(image), labels)
    loss.backward()
    optimizer.step()
    yield "loss", loss
    yield from model.state_dict().items()
