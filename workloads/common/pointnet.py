"""PointNet classifier with input and feature transforms."""

import torch
from torch import nn
from torch.nn import functional


def point_layers(*widths: int) -> nn.Sequential:
    """1x1 convolutions over the points, each with batch norm and ReLU."""
    layers: list[nn.Module] = []
    for inner, outer in zip(widths, widths[1:], strict=False):
        layers += [nn.Conv1d(inner, outer, 1), nn.BatchNorm1d(outer), nn.ReLU()]
    return nn.Sequential(*layers)


class Transform(nn.Module):
    """Predicts a size x size matrix per cloud, near the identity."""

    def __init__(self, size: int):
        super().__init__()
        self.size = size
        self.points = point_layers(size, 64, 128, 1024)
        self.head = nn.Sequential(
            nn.Linear(1024, 512), nn.BatchNorm1d(512), nn.ReLU(),
            nn.Linear(512, 256), nn.BatchNorm1d(256), nn.ReLU(),
            nn.Linear(256, size * size),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.head(self.points(x).max(dim=2).values)
        # Built on the host and copied each step, as the reference does it: the copy
        # from pageable memory is part of the workload.
        identity = torch.eye(self.size, device="cpu").flatten().repeat(x.shape[0], 1)
        return (out + identity.to(x.device)).view(-1, self.size, self.size)


class PointNet(nn.Module):
    def __init__(self, classes: int):
        super().__init__()
        self.input_transform = Transform(3)
        self.first = point_layers(3, 64)
        self.feature_transform = Transform(64)
        self.middle = point_layers(64, 128)
        self.last = nn.Sequential(nn.Conv1d(128, 1024, 1), nn.BatchNorm1d(1024))
        self.head = nn.Sequential(
            nn.Linear(1024, 512), nn.BatchNorm1d(512), nn.ReLU(),
            nn.Linear(512, 256), nn.Dropout(0.3), nn.BatchNorm1d(256), nn.ReLU(),
            nn.Linear(256, classes),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and the feature transform, from clouds of shape (batch, 3, points)."""
        x = torch.bmm(x.transpose(1, 2), self.input_transform(x)).transpose(1, 2)
        x = self.first(x)
        features = self.feature_transform(x)
        x = torch.bmm(x.transpose(1, 2), features).transpose(1, 2)
        x = self.last(self.middle(x)).max(dim=2).values
        return functional.log_softmax(self.head(x), dim=1), features


def regulariser(transform: torch.Tensor) -> torch.Tensor:
    """Mean distance of T T' from the identity."""
    identity = torch.eye(transform.shape[1], device="cpu")[None].to(transform.device)
    product = torch.bmm(transform, transform.transpose(1, 2))
    return torch.linalg.matrix_norm(product - identity).mean()
