"""ResNet, VGG, AlexNet and Inception v3."""

import torch
from torch import nn
from torch.nn import functional as F


class ResNetBlock(nn.Module):
    def __init__(self, n_in, inner, stride, bottleneck, groups=1, group_width=64):
        super().__init__()
        out = 4 * inner if bottleneck else inner
        width = inner * group_width // 64 * groups
        path = [(1, 1, width, 1), (3, stride, width, groups), (1, 1, out, 1)]
        if not bottleneck:
            path = [(3, stride, inner, 1), (3, 1, out, 1)]
        channels, self.length = n_in, len(path)
        for i, (size, by, to, parts) in enumerate(path, 1):
            convolution = nn.Conv2d(channels, to, size, by, size // 2, bias=False, groups=parts)
            setattr(self, f"conv{i}", convolution)
            setattr(self, f"bn{i}", nn.BatchNorm2d(to))
            channels = to
        self.downsample = None
        if stride != 1 or n_in != out:
            self.downsample = nn.Sequential(
                nn.Conv2d(n_in, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x):
        around = self.downsample(x) if self.downsample else x
        for i in range(1, self.length + 1):
            x = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x))
            x = F.relu(x + around if i == self.length else x, inplace=True)
        return x


class ResNet(nn.Module):
    BLOCKS = {10: (1, 1, 1, 1), 14: (1, 1, 1, 1), 18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}

    def __init__(self, c):
        super().__init__()
        bottleneck = c["layers"] in (14, 50)
        groups = (c.get("groups", 1), c.get("group_width", 64))
        self.pool = nn.MaxPool2d(3, 2, 1) if c["stem"] == "imagenet" else nn.Identity()
        size, stride = (7, 2) if c["stem"] == "imagenet" else (3, 1)
        channels = c["filters"]
        self.conv1 = nn.Conv2d(c["channels"], channels, size, stride, size // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        for stage, count in enumerate(self.BLOCKS[c["layers"]]):
            inner, layer = c["filters"] << stage, []
            for i in range(count):
                stride = 2 if stage and not i else 1
                layer.append(ResNetBlock(channels, inner, stride, bottleneck, *groups))
                channels = 4 * inner if bottleneck else inner
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layer))
        self.fc = nn.Linear(channels, c["classes"])

    def forward(self, images):
        x = images.to(self.conv1.weight.dtype)  # images come in fp32, as in Ringside
        x = self.pool(F.relu(self.bn1(self.conv1(x)), inplace=True))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return [self.fc(x.mean((2, 3)))]


class Vgg(nn.Module):
    def __init__(self, c):
        super().__init__()
        filters, layers, channels = c["filters"], [], c["channels"]
        for stage, count in enumerate({11: [1, 1, 2, 2, 2]}[c["layers"]]):
            for _ in range(count):
                out = filters << min(stage, 3)
                layers += [nn.Conv2d(channels, out, 3, 1, 1), nn.ReLU()]
                channels = out
            layers.append(nn.MaxPool2d(2))
        hidden, side, dropout = 8 * filters, c["image"] // 32, c.get("dropout", 0.0)
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(channels * side * side, hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(hidden, c["classes"]),
        )

    def forward(self, images):
        return [self.classifier(self.features(images).flatten(1))]


class AlexNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        filters, layers, channels = c["filters"], [], c["channels"]
        shapes = [(1, 11, 4, 2), (3, 5, 1, 2), (6, 3, 1, 1), (4, 3, 1, 1), (4, 3, 1, 1)]
        for i, (times, size, stride, padding) in enumerate(shapes):
            layers += [nn.Conv2d(channels, times * filters, size, stride, padding), nn.ReLU()]
            channels = times * filters
            if i in (0, 1, 4):
                layers.append(nn.MaxPool2d(3, 2))
        side = (c["image"] - 7) // 4 + 1
        for _ in range(3):
            side = (side - 3) // 2 + 1
        hidden, dropout = 64 * filters, c.get("dropout", 0.0)
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), nn.Linear(channels * side * side, hidden), nn.ReLU(),
            nn.Dropout(dropout), nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, c["classes"]),
        )

    def forward(self, images):
        return [self.classifier(self.features(images).flatten(1))]


class InceptionConv(nn.Module):
    def __init__(self, n_in, out, **kernel):
        super().__init__()
        self.conv = nn.Conv2d(n_in, out, bias=False, **kernel)
        self.bn = nn.BatchNorm2d(out, eps=0.001)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)), inplace=True)


class InceptionBlock(nn.Module):
    """Branches that are joined along the channels. A branch is a list of steps; a step is a pool, or
    a name with channels and a kernel, or a list of such, which see the same input."""

    def __init__(self, n_in, branches):
        super().__init__()
        self.branches, self.out = branches, 0
        for branch in branches:
            channels = n_in
            for step in branch:
                if callable(step):
                    continue
                steps = step if isinstance(step, list) else [step]
                for name, out, kernel in steps:
                    setattr(self, name, InceptionConv(channels, out, **kernel))
                channels = sum(out for _, out, _ in steps)
            self.out += channels

    def forward(self, x):
        results = []
        for branch in self.branches:
            y = x
            for step in branch:
                if callable(step):
                    y = step(y)
                elif isinstance(step, list):
                    y = torch.cat([getattr(self, name)(y) for name, _, _ in step], 1)
                else:
                    y = getattr(self, step[0])(y)
            results.append(y)
        return torch.cat(results, 1)


class Inception(nn.Module):
    """Inception-v3 without its auxiliary classifier. 24 layers: one block of each kind."""

    def __init__(self, c):
        super().__init__()

        def wide(published):
            return -(-published * c["filters"] // 32)

        one, three = {"kernel_size": 1}, {"kernel_size": 3, "padding": 1}
        halving = {"kernel_size": 3, "stride": 2}

        def long(rows, columns):
            return {"kernel_size": (rows, columns), "padding": (rows // 2, columns // 2)}

        def average(x):
            return F.avg_pool2d(x, 3, 1, 1)

        def largest(x):
            return F.max_pool2d(x, 3, 2)

        def chain(prefix, *steps):
            return [(f"{prefix}_{i}", wide(out), kernel) for i, (out, kernel) in enumerate(steps, 1)]

        def alone(name, out, kernel):
            return (name, wide(out), kernel)

        def a(pooled):
            return [
                [alone("branch1x1", 64, one)],
                chain("branch5x5", (48, one), (64, {"kernel_size": 5, "padding": 2})),
                chain("branch3x3dbl", (64, one), (96, three), (96, three)),
                [average, alone("branch_pool", pooled, one)],
            ]

        def b():
            return [
                [alone("branch3x3", 384, halving)],
                chain("branch3x3dbl", (64, one), (96, three), (96, halving)),
                [largest],
            ]

        def seven(n):
            return [
                [alone("branch1x1", 192, one)],
                chain("branch7x7", (n, one), (n, long(1, 7)), (192, long(7, 1))),
                chain("branch7x7dbl", (n, one), (n, long(7, 1)), (n, long(1, 7)), (n, long(7, 1)),
                      (192, long(1, 7))),
                [average, alone("branch_pool", 192, one)],
            ]

        def d():
            return [
                chain("branch3x3", (192, one), (320, halving)),
                chain("branch7x7x3", (192, one), (192, long(1, 7)), (192, long(7, 1)), (192, halving)),
                [largest],
            ]

        def ends(prefix):
            return [alone(prefix + "a", 384, long(1, 3)), alone(prefix + "b", 384, long(3, 1))]

        def e():
            return [
                [alone("branch1x1", 320, one)],
                [*chain("branch3x3", (384, one)), ends("branch3x3_2")],
                [*chain("branch3x3dbl", (448, one), (384, three)), ends("branch3x3dbl_3")],
                [average, alone("branch_pool", 192, one)],
            ]

        blocks = {"5b": a(32), "5c": a(64), "5d": a(64), "6a": b(), "6b": seven(128), "6c": seven(160),
                  "6d": seven(160), "6e": seven(192), "7a": d(), "7b": e(), "7c": e()}
        if c["layers"] == 24:
            blocks = {key: blocks[key] for key in ("5b", "6a", "6b", "7a", "7b")}
        self.Conv2d_1a_3x3 = InceptionConv(c["channels"], wide(32), **halving)
        self.Conv2d_2a_3x3 = InceptionConv(wide(32), wide(32), kernel_size=3)
        self.Conv2d_2b_3x3 = InceptionConv(wide(32), wide(64), **three)
        self.Conv2d_3b_1x1 = InceptionConv(wide(64), wide(80), **one)
        self.Conv2d_4a_3x3 = InceptionConv(wide(80), wide(192), kernel_size=3)
        channels, self.names = wide(192), []
        for key, branches in blocks.items():
            block = InceptionBlock(channels, branches)
            setattr(self, f"Mixed_{key}", block)
            self.names.append(f"Mixed_{key}")
            channels = block.out
        self.dropout = nn.Dropout(c.get("dropout", 0.0))
        self.fc = nn.Linear(channels, c["classes"])

    def forward(self, images):
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(images)))
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(F.max_pool2d(x, 3, 2)))
        x = F.max_pool2d(x, 3, 2)
        for name in self.names:
            x = getattr(self, name)(x)
        return [self.fc(self.dropout(x.mean((2, 3))))]
