"""Networks and data sets as PyTorch has them, for the peers of the measurements."""
import gzip
import json

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, inputs, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.pad = (channels - inputs) // 2
        self.plain = stride == 1 and inputs == channels

    def shortcut(self, x):
        return x if self.plain else F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad))

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.shortcut(x))


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*[Block(16, 16, 1) for _ in range(3)])
        self.layer2 = nn.Sequential(Block(16, 32, 2), Block(32, 32, 1), Block(32, 32, 1))
        self.layer3 = nn.Sequential(Block(32, 64, 2), Block(64, 64, 1), Block(64, 64, 1))
        self.linear = nn.Linear(64, 10)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        return self.linear(x.mean((2, 3)))


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.ip1, self.ip2, self.ip3 = nn.Linear(784, 300), nn.Linear(300, 100), nn.Linear(100, 10)

    def forward(self, x):
        return self.ip3(F.relu(self.ip2(F.relu(self.ip1(x.flatten(1))))))


class LeNet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5)
        self.ip1, self.ip2 = nn.Linear(800, 500), nn.Linear(500, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.ip2(F.relu(self.ip1(x.flatten(1))))


def cifar10(directory, split="test"):
    """The PNG packing: 10,000 rows of 32·32 RGB pixels a file."""
    from PIL import Image
    Image.MAX_IMAGE_PIXELS = None
    names = ["test_batch"] if split == "test" else [f"data_batch_{i}" for i in range(1, 6)]
    pixels = np.concatenate([np.asarray(Image.open(f"{directory}/{name}.png").convert("RGB")).reshape(-1, 32, 32, 3)
                             for name in names])
    labels = np.array(json.load(open(f"{directory}/{split}_lables.json")))
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    return torch.from_numpy(pixels.copy()).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(labels), mean, std


def fashion_mnist(directory, split="test"):
    prefix = "t10k" if split == "test" else "train"

    def read(name, offset):
        return np.frombuffer(gzip.open(f"{directory}/{name}.gz").read(), np.uint8, offset=offset)

    pixels = torch.from_numpy(read(f"{prefix}-images-idx3-ubyte", 16).copy()).view(-1, 1, 28, 28)
    return pixels, torch.from_numpy(read(f"{prefix}-labels-idx1-ubyte", 8).copy()).long(), 0.5, 0.5
