#!/usr/bin/python3
"""PyTorch eager's side of train_throughput.sh and of tests/peers/training.sh.

    train_peer.py ARCH DATA_DIRECTORY --batch N --threads N [--limit N]      answers each line on stdin with
        {"seconds", "images_per_second", "loss"} of one epoch, after a warm-up
    train_peer.py … --init FILE.safetensors --losses STEPS                   prints the loss of each step, one per line

The images are normalised tensors in memory before the clock starts. SGD with momentum, cross-entropy.
"""
import argparse
import json
import resource
import struct
import sys
import time

import torch
from torch.nn import functional as F

from peer_models import LeNet, LeNet5, ResNet20, cifar10, fashion_mnist


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = bytearray(file.read())
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(data, dtype=torch.float32, count=(e["data_offsets"][1] - e["data_offsets"][0]) // 4,
                                   offset=e["data_offsets"][0]).view(e["shape"]).clone()
            for name, e in header.items() if e["dtype"] == "F32"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("arch", choices=["resnet20", "lenet-300-100", "lenet-5"])
    parser.add_argument("data")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--weight-decay", type=float, default=5e-4)
    parser.add_argument("--init")
    parser.add_argument("--losses", type=int, default=0)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    colour = options.arch == "resnet20"
    images, labels, mean, std = (cifar10 if colour else fashion_mnist)(options.data, "train")
    if options.limit:
        images, labels = images[:options.limit], labels[:options.limit]
    if colour:
        mean, std = (torch.tensor(v).view(3, 1, 1) for v in ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)))
    images = (images.float() / 255 - mean) / std
    model = {"resnet20": ResNet20, "lenet-300-100": LeNet, "lenet-5": LeNet5}[options.arch]()
    if options.init:
        missing = model.load_state_dict(read_safetensors(options.init), strict=False)
        assert not missing.unexpected_keys and all("num_batches" in k for k in missing.missing_keys), missing
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9, weight_decay=options.weight_decay)

    def step(index):
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(images[index]), labels[index])
        loss.backward()
        optimizer.step()
        return loss.item()

    if options.losses:
        for i in range(options.losses):
            print(step(torch.arange(i * options.batch, (i + 1) * options.batch)))
        return

    def epoch(count):
        order, begin = torch.randperm(len(images))[:count], time.perf_counter()
        for i in range(0, len(order), options.batch):
            loss = step(order[i:i + options.batch])
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "images_per_second": len(order) / seconds, "loss": loss,
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}

    epoch(4 * options.batch)
    for _ in sys.stdin:
        print(json.dumps(epoch(len(images))), flush=True)


if __name__ == "__main__":
    main()
