"""Layer by layer least squares in Python, as `pare prune --widths PLAN.toml --compensate calibrated` does it: torch for the
networks, numpy for what is solved.
    layerwise_peer.py resnet20|mobilenetv2 NETWORK.onnx WIDTHS.toml DATA SAMPLES OUT.onnx
DATA is the directory of CIFAR-10's files, or the table of pictures. Prints the wall and the CPU seconds of the method, start
and reading not counted. Channels that go are left in OUT as zeros. Needs python3-torch, python3-onnx, python3-pil, and
python3-torchvision for mobilenetv2.

Batch norms are folded first. Both networks go on block by block: what they give at the block's beginning is kept, and a
layer costs one run from there up to it, with hooks. The rows of a layer are patches at a few hundred random places of every
image and of its mirror image; a layer whose input channels are cut chooses them by elimination; the ridge is chosen on every
fifth pair of images; what a shortcut lost is asked of the layer beside it.
"""
import csv
import json
import math
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn
from torch.nn import functional as F

from peer_models import Block, ResNet20, cifar10

PLACES, ROWS_PER_UNKNOWN, EPSILON = 196, 1000, 1e-5
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
    if a == b == s == 1:
        return x.flatten(2)[:, :, places].transpose(1, 2)
    windows = F.pad(x, (p, p, p, p)).unfold(2, a, s).unfold(3, b, s)
    return windows[:, :, places // width, places % width].permute(0, 2, 1, 3, 4).flatten(2)


def add_split(moments, first, x, y):
    """Every fifth pair of images, an image and its mirror image, is checked on."""
    checked = (torch.arange(first, first + len(x)) // 2) % 5 == 4
    for own, which in zip(moments, (~checked, checked)):
        own.add(x[which].flatten(0, 1), y[which].flatten(0, 1))


# --- networks, batch norms folded away, as blocks one after another


class Step:
    """A layer to solve: `cut` is the layer whose channels, of which some go, it reads; `beside` is added to what it gives."""

    def __init__(self, layer, cut=None, beside=None):
        self.layer, self.cut, self.beside = layer, cut, beside


def without_norms(network):
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.BatchNorm2d):
                setattr(module, name, nn.Identity())
            if isinstance(child, nn.Conv2d):
                child.bias = nn.Parameter(torch.zeros(child.out_channels))
    return network.eval()


def linear_modules(network):
    return [module for module in network.modules() if isinstance(module, (nn.Conv2d, nn.Linear))]


def resnet20():
    """The network, its blocks with their layers, and the last layer, which reads averages."""
    network = without_norms(ResNet20())
    stages = [(nn.Sequential(network.conv1, nn.ReLU()), [])]
    for block in network.modules():
        if isinstance(block, Block):
            stages.append((block, [Step(block.conv1), Step(block.conv2, block.conv1, block.shortcut)]))
    return network, stages, Step(network.linear)


def mobilenetv2():
    import torchvision
    network = without_norms(torchvision.models.mobilenet_v2())
    features, layers = network.features, linear_modules(network)
    first, last = nn.Sequential(features[0], features[1]), features[18]
    stages = [(first, [Step(layers[2], layers[0])])]
    for block in features[2:18]:
        expand, _, project = linear_modules(block)
        stages.append((block, [Step(expand), Step(project, expand, nn.Identity() if block.use_res_connect else None)]))
    stages.append((last, [Step(layers[-2], layers[-3])]))
    return network, stages, Step(layers[-1], layers[-2])


# --- the method


class Solver:
    def __init__(self, original, compressed, widths, images, batch):
        """Networks as stages and a last step; `widths` by the layer of the compressed one that makes the channels."""
        (self.stages, self.last), (self.twins, self.last_twin) = original, compressed
        self.widths, self.samples, self.changed = widths, len(images), False
        self.before = list(images.split(batch))
        self.after = list(self.before)
        self.random = np.random.default_rng(0)

    @torch.no_grad()
    def run(self):
        for (block, steps), (twin, others) in zip(self.stages, self.twins):
            for step, other in zip(steps, others):
                if self.changed or other.cut in self.widths:
                    self.solve(other, self.moments(block, twin, step, other))
            for i, (x, z) in enumerate(zip(self.before, self.after)):
                self.before[i] = block(x)
                self.after[i] = twin(z) if self.changed else self.before[i]
        self.solve(self.last_twin, self.last_moments())

    def moments(self, block, twin, step, other):
        moments, first, layer = (Moments(), Moments()), 0, step.layer
        for x, z in zip(self.before, self.after):
            target = seen(block, layer, x, output=True)
            if step.beside is not None:  # what the shortcut lost
                target = target + step.beside(x) - step.beside(z)
            places = self.places(layer, target)
            rows = patches(seen(twin, other.layer, z, output=False), layer, places, target.shape[3])
            add_split(moments, first, rows, target.flatten(2)[:, :, places].transpose(1, 2))
            first += len(x)
        return moments

    def last_moments(self):
        """On the places themselves, before they are averaged."""
        moments, first, layer = (Moments(), Moments()), 0, self.last.layer
        for x, z in zip(self.before, self.after):
            places = self.places(layer, x)
            rows, target = (value.flatten(2)[:, :, places].transpose(1, 2) for value in (z, x))
            add_split(moments, first, rows, layer(target))
            first += len(x)
        return moments

    def places(self, layer, value):
        return places_of(layer.weight[0].numel(), self.samples, value[0, 0].numel(), self.random)

    def solve(self, step, moments):
        weight = step.layer.weight.flatten(1).double().numpy()
        rows, choices = np.arange(weight.shape[1]), CHOICES
        if step.cut in self.widths:
            size = step.layer.weight[0, 0].numel()
            kept = eliminated(moments[0] + moments[1], weight, weight.shape[1] // size, self.widths[step.cut])
            rows = (kept[:, None] * size + np.arange(size)).ravel()
        else:
            choices = [choice for choice in CHOICES if choice >= OWN_RIDGE]
        solution, bias = solve(*moments, rows, weight[:, rows], choices)
        new = np.zeros_like(weight)
        new[:, rows] = solution
        step.layer.weight.copy_(torch.from_numpy(new).view_as(step.layer.weight))
        step.layer.bias.copy_(torch.from_numpy(bias))
        self.changed = True


# --- files


class File:
    """The linear layers of an ONNX file, in their order, each with the batch norm after it."""

    def __init__(self, path):
        self.model = onnx.load(path)
        self.tensors = {tensor.name: tensor for tensor in self.model.graph.initializer}
        norms = {node.input[0]: node for node in self.model.graph.node if node.op_type == "BatchNormalization"}
        self.layers = [(node, norms.get(node.output[0])) for node in self.model.graph.node if node.op_type in ("Conv", "Gemm")]

    def value(self, name):
        return torch.from_numpy(numpy_helper.to_array(self.tensors[name]).copy())

    @torch.no_grad()
    def read(self, network):
        for module, (node, norm) in zip(linear_modules(network), self.layers, strict=True):
            weight = self.value(node.input[1])
            bias = self.value(node.input[2]) if len(node.input) > 2 else torch.zeros(len(weight))
            if norm is not None:
                gamma, beta, mean, variance = map(self.value, norm.input[1:])
                scale = gamma / (variance + EPSILON).sqrt()
                weight, bias = weight * scale.view(-1, 1, 1, 1), beta + (bias - mean) * scale
            module.weight.copy_(weight)
            module.bias.copy_(bias)

    def write(self, network, target):
        for module, (node, norm) in zip(linear_modules(network), self.layers):
            values = {node.input[1]: module.weight}
            if norm is None:
                values[node.input[2]] = module.bias
            else:
                one = torch.ones(len(module.weight))
                values.update(zip(norm.input[1:], (one, module.bias, 0 * one, one - EPSILON)))
            for name, value in values.items():
                self.tensors[name].CopyFrom(numpy_helper.from_array(value.detach().numpy(), name))
        onnx.save(self.model, target)


def pictures(table, count):
    from PIL import Image
    rows = [row for row in csv.DictReader(open(table)) if row["split"] == "train"][:count]
    images = []
    for row in rows:
        path = Path(table).parent / row["file"]
        image = Image.open(path if path.exists() else path.parent / "images" / row["file"]).convert("RGB")
        scale = 256 / min(image.size)
        image = image.resize([round(extent * scale) for extent in image.size], Image.BILINEAR)
        left, top = (image.width - 224) // 2, (image.height - 224) // 2
        images.append(np.asarray(image.crop((left, top, left + 224, top + 224))))
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)


def images_of(arch, data, count):
    cifar = arch == "resnet20"
    pixels = cifar10(data, "train")[0][:count] if cifar else pictures(data, count)
    mean, std = ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)) if cifar else ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (mean, std))
    images = (pixels.float() / 255 - mean) / std
    return torch.stack([images, images.flip(3)], 1).flatten(0, 1)


def main():
    arch, source, plan, data, samples, target = sys.argv[1:]
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    make, batch = {"resnet20": (resnet20, 64), "mobilenetv2": (mobilenetv2, 8)}[arch]
    file, images = File(source), images_of(arch, data, int(samples))
    (original, *before), (network, *after) = make(), make()
    for each in (original, network):
        file.read(each)
    names = {node.output[0]: module for module, (node, _) in zip(linear_modules(network), file.layers)}
    widths = {names[name]: width for name, width in tomllib.load(open(plan, "rb")).items()}
    wall, cpu = time.perf_counter(), time.process_time()
    Solver(before, after, widths, images, batch).run()
    print(json.dumps({"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}))
    file.write(network, target)


if __name__ == "__main__":
    main()
