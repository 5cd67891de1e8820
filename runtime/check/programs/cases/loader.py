"""A DataLoader with forked workers and pinned memory feeds a small network."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    """Rows that follow from their index alone, so that workers need no seed."""

    def __init__(self, rows: int, width: int):
        self.rows, self.width = rows, width

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        row = torch.arange(self.width, dtype=torch.float32).add(index).mul(0.01).sin()
        return row, index % 10


def outputs(options):
    device = torch.device(options.device)
    width = 64
    with device:
        model = nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(
        Numbers(64 if options.tiny else 2048, width),
        batch_size=32,
        num_workers=2,
        pin_memory=device.type == "cuda",
        # The default on Linux in this Python, said here because it is what is tested: the
        # workers are forked after the parent has used the device.
        multiprocessing_context="fork",
    )
    losses = []
    for epoch in range(2):
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        yield f"losses of epoch {epoch}", torch.stack(losses)
    yield from model.state_dict().items()
