"""YOLOv6-m as a server runs it: norms folded into their convolutions, except those that
stand alone in the RepVGG blocks, whose branches stay apart."""

import torch
from torch import nn
from torch.nn import functional

CLASSES = 80
BINS = 17  # positions of a box side, in strides, that the head weighs
DEPTHS = (4, 7, 11, 4)
NECK_DEPTH = 7


def convolution(inner: int, outer: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inner, outer, kernel, stride, kernel // 2)


def activated(inner: int, outer: int, kernel: int, stride: int = 1, act=nn.ReLU) -> nn.Sequential:
    return nn.Sequential(convolution(inner, outer, kernel, stride), act(inplace=True))


class RepVgg(nn.Module):
    """ReLU of a 3x3 branch, a 1x1 branch, and a norm of the input where the shapes match."""

    def __init__(self, inner: int, outer: int, stride: int = 1):
        super().__init__()
        self.wide = convolution(inner, outer, 3, stride)
        self.narrow = convolution(inner, outer, 1, stride)
        self.same = nn.BatchNorm2d(inner) if inner == outer and stride == 1 else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.wide(x) + self.narrow(x)
        return functional.relu(out if self.same is None else out + self.same(x))


class BottleRep(nn.Module):
    """Two RepVGG blocks and a shortcut of learned scale."""

    def __init__(self, width: int):
        super().__init__()
        self.blocks = nn.Sequential(RepVgg(width, width), RepVgg(width, width))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(x) + self.scale * x


class Csp(nn.Module):
    """Two 1x1 branches of two thirds of the width, one of which goes through the units."""

    def __init__(self, inner: int, outer: int, depth: int):
        super().__init__()
        width = int(2 / 3 * outer)
        self.deep = activated(inner, width, 1)
        self.units = nn.Sequential(*(BottleRep(width) for _ in range(depth // 2)))
        self.flat = activated(inner, width, 1)
        self.out = activated(2 * width, outer, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(torch.cat((self.units(self.deep(x)), self.flat(x)), dim=1))


class PyramidPool(nn.Module):
    """Three chained 5x5 maxima, concatenated with their input."""

    def __init__(self, width: int):
        super().__init__()
        self.reduce = activated(width, width // 2, 1)
        self.pool = nn.MaxPool2d(5, stride=1, padding=2)
        self.out = activated(2 * width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        levels = [self.reduce(x)]
        for _ in range(3):
            levels.append(self.pool(levels[-1]))
        return self.out(torch.cat(levels, dim=1))


class BiFusion(nn.Module):
    """Joins a deeper map, the map of this level, and a shallower one."""

    def __init__(self, same: int, shallow: int, outer: int):
        super().__init__()
        self.up = nn.ConvTranspose2d(outer, outer, 2, 2)
        self.same = activated(same, outer, 1)
        self.shallow = activated(shallow, outer, 1)
        self.down = activated(outer, outer, 3, 2)
        self.out = activated(3 * outer, outer, 1)

    def forward(self, deep, same, shallow) -> torch.Tensor:
        maps = (self.up(deep), self.same(same), self.down(self.shallow(shallow)))
        return self.out(torch.cat(maps, dim=1))


class Head(nn.Module):
    """Class scores and box sides of one level."""

    def __init__(self, width: int):
        super().__init__()
        self.stem = activated(width, width, 1, act=nn.SiLU)
        self.class_features = activated(width, width, 3, act=nn.SiLU)
        self.box_features = activated(width, width, 3, act=nn.SiLU)
        self.classes = convolution(width, CLASSES, 1)
        self.sides = convolution(width, 4 * BINS, 1)
        self.projection = nn.Parameter(torch.arange(float(BINS)).view(1, BINS, 1, 1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores (1, CLASSES, places) and distances to the four sides (1, 4, places)."""
        x = self.stem(x)
        places = x.shape[2] * x.shape[3]
        scores = torch.sigmoid(self.classes(self.class_features(x)))
        sides = self.sides(self.box_features(x)).view(1, 4, BINS, places).permute(0, 2, 1, 3)
        sides = functional.conv2d(functional.softmax(sides, dim=1), self.projection)
        return scores.view(1, CLASSES, places), sides.view(1, 4, places)


class YoloV6(nn.Module):
    """The medium size has a width of 48 channels after the first convolution."""

    def __init__(self, width: int):
        super().__init__()
        widths = [width * 2**level for level in range(5)]
        self.stem = RepVgg(3, widths[0], 2)
        self.stages = nn.ModuleList(
            nn.Sequential(RepVgg(inner, outer, 2), Csp(outer, outer, depth))
            for inner, outer, depth in zip(widths, widths[1:], DEPTHS, strict=False)
        )
        _, c2, c3, c4, c5 = widths
        self.pool = PyramidPool(c5)
        self.reduce_5 = activated(c5, c3, 1)
        self.fuse_4 = BiFusion(c4, c3, c3)
        self.csp_4 = Csp(c3, c3, NECK_DEPTH)
        self.reduce_4 = activated(c3, c2, 1)
        self.fuse_3 = BiFusion(c3, c2, c2)
        self.csp_3 = Csp(c2, c2, NECK_DEPTH)
        self.down_3 = activated(c2, c2, 3, 2)
        self.csp_n4 = Csp(2 * c2, c3, NECK_DEPTH)
        self.down_4 = activated(c3, c3, 3, 2)
        self.csp_n5 = Csp(2 * c3, c4, NECK_DEPTH)
        self.heads = nn.ModuleList(Head(c) for c in (c2, c3, c4))

    def features(self, x: torch.Tensor) -> list[torch.Tensor]:
        maps = []
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        c2, c3, c4, c5 = maps
        top_5 = self.reduce_5(self.pool(c5))
        top_4 = self.reduce_4(self.csp_4(self.fuse_4(top_5, c4, c3)))
        out_3 = self.csp_3(self.fuse_3(top_4, c3, c2))
        out_4 = self.csp_n4(torch.cat((self.down_3(out_3), top_4), dim=1))
        out_5 = self.csp_n5(torch.cat((self.down_4(out_4), top_5), dim=1))
        return [out_3, out_4, out_5]

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Box centre and size, objectness (always 1) and scores: (1, places, 5 + CLASSES)."""
        maps = self.features(image)
        scores, sides = zip(*(head(x) for head, x in zip(self.heads, maps, strict=True)))
        points, strides = anchors(maps, image.shape[-1])
        near, far = torch.cat(sides, dim=-1).transpose(1, 2).chunk(2, dim=-1)
        low, high = points - near, points + far
        boxes = torch.cat(((low + high) / 2, high - low), dim=-1) * strides
        scores = torch.cat(scores, dim=-1).transpose(1, 2)
        return torch.cat((boxes, torch.ones_like(boxes[..., :1]), scores), dim=-1)


def anchors(maps: list[torch.Tensor], side: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cell centres in strides (places, 2) and the strides (places, 1), made again each call."""
    points, strides = [], []
    for x in maps:
        rows, columns = (torch.arange(n, device=x.device) + 0.5 for n in x.shape[2:])
        row, column = torch.meshgrid(rows, columns, indexing="ij")
        points.append(torch.stack((column, row), dim=-1).view(-1, 2))
        stride = side // x.shape[3]
        strides.append(torch.full((len(points[-1]), 1), float(stride), device=x.device))
    return torch.cat(points), torch.cat(strides)
