#!/usr/bin/python3
"""Grad-CAM in PyTorch eager: attribution_peer.py ARCH IMAGES THREADS (vgg9-bn or resnet20) prints, once for each line that
it reads, the images per second. Only the part after the layer is differentiated, as pare does it."""
import os
import sys
import time
from types import SimpleNamespace

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "zoo"))
import reference  # noqa: E402

BATCH = 50


def main():
    arch, count, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    side = 56 if arch.startswith("vgg9") else 32
    options = SimpleNamespace(activation="relu", width=1.0, classes=10, input=[3, side, side], shortcut="", stem="",
                              bias=None)
    net = reference.build(arch, options).eval().requires_grad_(False)
    kept = {}

    def keep(_module, _inputs, output):
        kept["A"] = output.detach().requires_grad_()
        return kept["A"]

    (net.features[-2] if arch.startswith("vgg") else net.layer3).register_forward_hook(keep)
    images = torch.rand(count, 3, side, side)
    for _ in sys.stdin:
        start = time.perf_counter()
        for i in range(0, count, BATCH):
            scores = net(images[i:i + BATCH])
            a = kept["A"]
            g = torch.autograd.grad(scores.max(1).values.sum(), a)[0]
            torch.relu((g.sum((2, 3), keepdim=True) * a.detach()).sum(1))
        print(f"{count / (time.perf_counter() - start):.1f}", flush=True)


main()
