#!/usr/bin/python3
"""PyTorch eager's side of eval_throughput.sh: evaluates a checkpoint and prints {"seconds", "images_per_second", "top1"}.

    eval_peer.py resnet20|lenet-300-100 CHECKPOINT DATA_DIRECTORY --batch N --threads N

The images are normalised tensors in memory before the clock starts: the peer pays for no decoding and no loading. The
model is in eval mode, under torch.no_grad(). One process serves many measurements: it answers each line on stdin, after
one warm-up, so that starting Python and reading the data are not measured either.
"""
import argparse
import gzip
import json
import sys
import time

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

    def forward(self, x):
        shortcut = x if self.plain else F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad))
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + shortcut)


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


def cifar10(directory):
    """The PNG packing: 10,000 rows of 32·32 RGB pixels."""
    from PIL import Image
    Image.MAX_IMAGE_PIXELS = None
    pixels = np.asarray(Image.open(f"{directory}/test_batch.png").convert("RGB")).reshape(-1, 32, 32, 3)
    labels = np.array(json.load(open(f"{directory}/test_lables.json")))
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    return torch.from_numpy(pixels.copy()).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(labels), mean, std


def fashion_mnist(directory):
    def read(name, offset):
        return np.frombuffer(gzip.open(f"{directory}/{name}.gz").read(), np.uint8, offset=offset)

    pixels = torch.from_numpy(read("t10k-images-idx3-ubyte", 16).copy()).view(-1, 1, 28, 28)
    return pixels, torch.from_numpy(read("t10k-labels-idx1-ubyte", 8).copy()).long(), 0.5, 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("arch", choices=["resnet20", "lenet-300-100"])
    parser.add_argument("checkpoint")
    parser.add_argument("data")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--limit", type=int, default=10000)
    parser.add_argument("--images", choices=["bytes", "ready"], default="bytes",
                        help="bytes: converted batch by batch, as pare does it; ready: normalised beforehand")
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    model = (ResNet20 if options.arch == "resnet20" else LeNet)().eval()
    state = torch.load(options.checkpoint, map_location="cpu")["state_dict"]
    model.load_state_dict({name.removeprefix("module."): value for name, value in state.items()})
    images, labels, mean, std = (cifar10 if options.arch == "resnet20" else fashion_mnist)(options.data)
    images, labels = images[:options.limit].contiguous(), labels[:options.limit]

    def normalised(pixels):
        return (pixels.float() / 255 - mean) / std

    if options.images == "ready":
        images = normalised(images)

    def evaluate():
        correct, begin = 0, time.perf_counter()
        with torch.no_grad():
            for i in range(0, len(images), options.batch):
                batch = images[i:i + options.batch]
                if options.images == "bytes":
                    batch = normalised(batch)
                correct += (model(batch).argmax(1) == labels[i:i + options.batch]).sum().item()
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "images_per_second": len(images) / seconds, "top1": correct / len(images)}

    evaluate()
    for _ in sys.stdin:
        print(json.dumps(evaluate()), flush=True)


if __name__ == "__main__":
    main()
