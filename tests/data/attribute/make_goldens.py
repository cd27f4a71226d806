#!/usr/bin/python3
"""Attribution maps by PyTorch's autograd, for tests/attribute/goldens_test.cpp: writes *.npy beside this file.

The network's weights and images follow from a formula, so that the test makes the same ones.
"""
import os

import numpy
import torch
from torch.nn import functional as F


def wave(shape, phase):
    count = int(numpy.prod(shape))
    return torch.sin(1.3 * torch.arange(count, dtype=torch.float64) + phase).reshape(shape)


W1, B1 = wave((4, 3, 3, 3), 0.1) / 2, wave((4,), 0.2) / 4
W2, B2 = wave((5, 4, 3, 3), 0.3) / 2, wave((5,), 0.4) / 4
W3, B3 = wave((3, 80), 0.5) / 2, wave((3,), 0.6)
X = wave((2, 3, 8, 8), 0.7) + 0.25
CLASSES = torch.tensor([2, 0])


def layer(x):
    return F.relu(F.conv2d(F.max_pool2d(F.relu(F.conv2d(x, W1, B1, padding=1)), 2), W2, B2, padding=1))


def score(a):
    return F.linear(a.flatten(1), W3, B3).gather(1, CLASSES[:, None]).sum()


def gradient(x):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(score(layer(x)), x)[0]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    a = layer(X).detach().requires_grad_()
    g = torch.autograd.grad(score(a), a)[0]
    nodes, weights = numpy.polynomial.legendre.leggauss(7)
    integral = sum(float(w) / 2 * gradient((float(n) + 1) / 2 * X) for n, w in zip(nodes, weights))
    maps = {
        "gradcam": F.relu((g.sum((2, 3), keepdim=True) * a).sum(1)),
        "hirescam": F.relu((g * a).sum(1)),
        "input-x-gradient": (X * gradient(X)).sum(1),
        "gradient": gradient(X).abs().amax(1),
        "ig": (X * integral).sum(1),
    }
    for name, value in maps.items():
        numpy.save(os.path.join(here, name + ".npy"), value.detach().numpy())


main()
