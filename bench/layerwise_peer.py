"""Layer by layer least squares in Python, as `pare prune --widths PLAN.toml --compensate calibrated` does it: torch for the
networks, numpy for what is solved.
    layerwise_peer.py NETWORK.onnx WIDTHS.toml CIFAR_DIRECTORY SAMPLES OUT.onnx
Prints the wall and the CPU seconds of the method, start and reading not counted. Needs python3-torch, python3-onnx,
python3-pil.

Both networks go on block by block: what they give at the block's beginning is kept, and a layer costs one run from there up
to it, with hooks. The rows of a layer are patches at a few hundred random places of every image, of the image and its
mirror image; a layer whose input channels are cut chooses them by elimination; the ridge is chosen on every fifth pair of
images; what a shortcut lost is asked of the layer beside it.
"""
import json
import math
import sys
import time
import tomllib

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch.nn import functional as F

from peer_models import Block, ResNet20, cifar10

BATCH, PLACES, ROWS_PER_UNKNOWN = 64, 196, 1000
RIDGE, OWN_RIDGE, CHOICES = 1e-2, 0.1, (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1, 3, 10, 1e6)


# --- solving


class Moments:
    """Sums of rows and of their products, in double."""

    def __init__(self):
        self.count, self.x, self.y, self.xx, self.xy = 0, 0, 0, 0, 0

    def add(self, x, y):
        self.count += len(x)
        self.x = self.x + x.sum(0).double().numpy()
        self.y = self.y + y.sum(0).double().numpy()
        self.xx = self.xx + (x.T @ x).double().numpy()
        self.xy = self.xy + (x.T @ y).double().numpy()

    def __add__(self, other):
        both = Moments()
        for name in vars(self):
            setattr(both, name, getattr(self, name) + getattr(other, name))
        return both

    def centred(self, rows):
        x, y = self.x[rows] / self.count, self.y / self.count
        return (self.xx[np.ix_(rows, rows)] / self.count - np.outer(x, x), self.xy[rows] / self.count - np.outer(x, y), x, y)


def ridge_towards(G, R, ridge, prior):
    penalty = ridge * np.trace(G) / len(G)
    return np.linalg.solve(G + penalty * np.eye(len(G)), R + penalty * prior.T).T


def chosen_ridge(fitted, checked, rows, prior, choices):
    """The one whose solution on the fitted rows does best on the checked ones."""
    G, R, x, y = fitted.centred(rows)
    H, S, x2, y2 = checked.centred(rows)
    values, U = np.linalg.eigh(G)
    D, C = U.T @ (R - G @ prior.T), U.T @ H @ U
    B, shift = U.T @ (S - H @ prior.T), x2 - x
    own, turned = y2 - y - prior @ shift, U.T @ shift
    scale = np.trace(G) / len(G)

    def error(ridge):
        V = D / (np.maximum(values, 0) + ridge * scale)[:, None]
        return (V * (C @ V)).sum() - 2 * (V * B).sum() + ((own - turned @ V) ** 2).sum()

    return min(choices, key=error)


def solve(fitted, checked, rows, prior, choices):
    ridge = chosen_ridge(fitted, checked, rows, prior, choices)
    G, R, x, y = (fitted + checked).centred(rows)
    W = ridge_towards(G, R, ridge, prior)
    return W, y - W @ x


def eliminated(moments, prior, channels, count):
    """The channels that are left: those go first without which the others make up best for what was there."""
    every = np.arange(prior.shape[1])
    G, R, *_ = moments.centred(every)
    size = len(G) // channels
    W = ridge_towards(G, R, RIDGE, prior).T.copy()
    P = np.linalg.inv(G + RIDGE * np.trace(G) / len(G) * np.eye(len(G)))
    left = list(range(channels))
    while len(left) > count:
        own = np.array(left)[:, None] * size + np.arange(size)
        blocks = P[own[:, :, None], own[:, None, :]]
        losses = (W[own] * np.linalg.solve(blocks, W[own])).sum((1, 2))
        gone = own[losses.argmin()]
        columns = P[:, gone]
        inverse = np.linalg.inv(P[np.ix_(gone, gone)])
        W -= columns @ (inverse @ W[gone])
        P -= columns @ (inverse @ columns.T)
        del left[losses.argmin()]
    return np.array(left)


# --- what layers read and give


class Reached(Exception):
    pass


@torch.no_grad()
def seen(block, layer, x, output):
    """What the layer gives, or reads, when the block runs on x; nothing after it runs."""
    found = []

    def keep(module, inputs, result):
        found.append(result if output else inputs[0])
        raise Reached

    hook = layer.register_forward_hook(keep)
    try:
        block(x)
    except Reached:
        pass
    hook.remove()
    return found[0]


def places_of(unknowns, samples, extent, random):
    """One out of each of so many equal parts, or all."""
    most = min(max(math.ceil(ROWS_PER_UNKNOWN * unknowns / samples), 4), PLACES)
    if extent <= most:
        return torch.arange(extent)
    ends = np.arange(most + 1) * extent // most
    return torch.from_numpy(random.integers(ends[:-1], ends[1:]))


def patches(x, layer, places, width):
    """[images, places, channels · kernel], without unfolding the places that are not looked at."""
    (a, b), (s, _), (p, _) = layer.kernel_size, layer.stride, layer.padding
    windows = F.pad(x, (p, p, p, p)).unfold(2, a, s).unfold(3, b, s)
    return windows[:, :, places // width, places % width].permute(0, 2, 1, 3, 4).flatten(2)


def add_split(moments, first, x, y):
    """Every fifth pair of images, an image and its mirror image, is checked on."""
    checked = (torch.arange(first, first + len(x)) // 2) % 5 == 4
    for own, which in zip(moments, (~checked, checked)):
        own.add(x[which].flatten(0, 1), y[which].flatten(0, 1))


# --- the method on a CIFAR ResNet


class Solver:
    def __init__(self, network, widths, images):
        self.original, self.compressed = network
        self.widths, self.samples = widths, len(images)
        self.before = list(images.split(BATCH))
        self.after = list(self.before)
        self.random = np.random.default_rng(0)
        self.kept = {}

    @torch.no_grad()
    def run(self):
        for network, values in ((self.original, self.before), (self.compressed, self.after)):
            for i, x in enumerate(values):
                values[i] = F.relu(network.bn1(network.conv1(x)))
        for (name, block), other in zip(self.blocks(self.original), dict(self.blocks(self.compressed)).values()):
            if self.kept:  # before the first cut nothing has changed
                self.solve(block, other, "conv1", None)
            self.solve(block, other, "conv2", name)
            for i, (x, z) in enumerate(zip(self.before, self.after)):
                self.before[i], self.after[i] = block(x), other(z)
        self.solve_last()

    @staticmethod
    def blocks(network):
        return [(name, module) for name, module in network.named_modules() if isinstance(module, Block)]

    def moments(self, block, other, which):
        moments = Moments(), Moments()
        layer, twin, norm = getattr(block, which), getattr(other, which), getattr(block, which.replace("conv", "bn"))
        for i, (x, z) in enumerate(zip(self.before, self.after)):
            target = seen(block, layer, x, output=True)
            if which == "conv2":  # what the shortcut lost
                lost = block.shortcut(x) - block.shortcut(z)
                target = target + lost * ((norm.running_var + norm.eps).sqrt() / norm.weight).view(-1, 1, 1)
            places = places_of(layer.weight[0].numel(), self.samples, target[0, 0].numel(), self.random)
            rows = patches(seen(other, twin, z, output=False), layer, places, target.shape[3])
            add_split(moments, i * BATCH, rows, target.flatten(2)[:, :, places].transpose(1, 2))
        return moments

    def solve(self, block, other, which, cut):
        fitted, checked = self.moments(block, other, which)
        layer, norm = getattr(other, which), getattr(other, which.replace("conv", "bn"))
        weight = layer.weight.detach().flatten(1).double().numpy()
        channels, rows, choices = layer.in_channels, np.arange(weight.shape[1]), CHOICES
        if cut:
            kept = eliminated(fitted + checked, weight, channels, self.widths[cut])
            rows = (kept[:, None] * 9 + np.arange(9)).ravel()
            self.kept[cut] = kept
        else:
            choices = [choice for choice in CHOICES if choice >= OWN_RIDGE]
        solution, bias = solve(fitted, checked, rows, weight[:, rows], choices)
        new = np.zeros_like(weight)
        new[:, rows] = solution
        layer.weight.copy_(torch.from_numpy(new).view_as(layer.weight))
        norm.running_mean.sub_(torch.from_numpy(bias).float())

    def solve_last(self):
        """The last layer on the places themselves, before they are averaged."""
        linear, moments = self.original.linear, (Moments(), Moments())
        for i, (x, z) in enumerate(zip(self.before, self.after)):
            rows = x.flatten(2).transpose(1, 2)
            add_split(moments, i * BATCH, z.flatten(2).transpose(1, 2), linear(rows))
        prior = linear.weight.detach().double().numpy()
        W, b = solve(*moments, np.arange(prior.shape[1]), prior, [choice for choice in CHOICES if choice >= OWN_RIDGE])
        self.compressed.linear.weight.copy_(torch.from_numpy(W))
        self.compressed.linear.bias.copy_(torch.from_numpy(b))


def network_of(model):
    network = ResNet20().eval()
    tensors = {tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy()) for tensor in model.graph.initializer}
    unknown = network.load_state_dict(tensors, strict=False)
    assert all(".shortcut." in name for name in unknown.unexpected_keys), unknown
    assert all("num_batches" in name for name in unknown.missing_keys), unknown
    return network


def write(model, network, kept, target):
    tensors = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    for block, channels in kept.items():
        for name in [f"{block}.conv1.weight"] + [f"{block}.bn1.{part}" for part in ("weight", "bias", "running_mean", "running_var")]:
            tensors[name] = tensors[name][channels]
        tensors[f"{block}.conv2.weight"] = tensors[f"{block}.conv2.weight"][:, channels]
    for tensor in model.graph.initializer:
        if tensor.name in tensors:
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(tensors[tensor.name]), tensor.name))
    onnx.save(model, target)


def main():
    source, plan, data, samples, target = sys.argv[1:]
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    model = onnx.load(source)
    widths = {name.removesuffix(".conv1"): width for name, width in tomllib.load(open(plan, "rb")).items()}
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)))
    pixels = cifar10(data, "train")[0][:int(samples)]
    images = (pixels.float() / 255 - mean) / std
    networks = network_of(model), network_of(model)
    wall, cpu = time.perf_counter(), time.process_time()
    solver = Solver(networks, widths, torch.stack([images, images.flip(3)], 1).flatten(0, 1))
    solver.run()
    print(json.dumps({"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}))
    write(model, networks[1], solver.kept, target)


if __name__ == "__main__":
    main()
