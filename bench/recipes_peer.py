"""Recipes of others for a CIFAR ResNet, inside its blocks, physically narrower: calibration only, nothing is trained.
    recipes_peer.py draw CIFAR_DIRECTORY SEED DIRECTORY     288 training images drawn at random, as a table for pare's --data csv:
    recipes_peer.py wanda NETWORK.onnx WIDTHS.toml DIRECTORY OUT.onnx     the first 256 of those images
    recipes_peer.py fold NETWORK.onnx WIDTHS.toml SEED OUT.onnx           no data
WIDTHS is what `pare prune --save-plan` wrote. Needs python3-torch, python3-onnx, python3-pil.

wanda: a channel is worth Σ over what reads it of |w| √E[x²], x its activation (Sun et al. 2024, summed over structures); the
    least ones go and nothing makes up for them.
fold: the filters of a layer, batch norm folded in, are clustered by k-means and each cluster becomes its mean; what reads
    them reads the sum. The mean of c filters has a smaller deviation than they have, which is put right by
    c / √(c + (c² − c) r), r their mean cosine (Wang et al. 2025, "Forget the Data and Fine-Tuning! Just Fold the Network to
    Compress", with the correction that needs no data). On training images that did better than without the correction, and no
    worse than biases in the clusters.
"""
import csv
import sys
import tomllib
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

EPSILON, CALIBRATION, JUDGES, RESTARTS = 1e-5, 256, 32, 10


def tensors_of(model):
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def write(model, tensors, target):
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(tensors[tensor.name], np.float32), tensor.name))
    onnx.save(model, target)


def widths_of(plan):
    """By the block whose inner channels they are."""
    return {name.removesuffix(".conv1"): width for name, width in tomllib.load(open(plan, "rb")).items()}


def norm_of(block):
    return [f"{block}.bn1.{part}" for part in ("weight", "bias", "running_mean", "running_var")]


def draw(cifar, seed, directory):
    from PIL import Image
    from peer_models import cifar10
    pixels, labels, *_ = cifar10(cifar, "train")
    chosen = np.random.default_rng(seed).choice(len(pixels), CALIBRATION + JUDGES, replace=False)
    Path(directory).mkdir(parents=True, exist_ok=True)
    with open(f"{directory}/labels.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["file", "label", "split"])
        for i, k in enumerate(chosen):
            Image.fromarray(pixels[k].permute(1, 2, 0).numpy()).save(f"{directory}/{i:03}.png")
            table.writerow([f"{i:03}.png", int(labels[k]), "train"])
        table.writerow(["000.png", int(labels[chosen[0]]), "test"])  # pare prune wants one to measure; it is not looked at


def images_of(directory):
    import torch
    from PIL import Image
    pixels = np.stack([np.asarray(Image.open(f"{directory}/{i:03}.png").convert("RGB")) for i in range(CALIBRATION)])
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)))
    return (torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255 - mean) / std


def squares_of(tensors, images):
    """E[x²] of the channels that each block's second convolution reads."""
    import torch
    from peer_models import Block, ResNet20
    network = ResNet20().eval()
    network.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in tensors.items()}, strict=False)
    squares = {}

    def keep(name):
        return lambda module, inputs: squares.update({name: inputs[0].square().mean((0, 2, 3)).numpy()})

    for name, module in network.named_modules():
        if isinstance(module, Block):
            module.conv2.register_forward_pre_hook(keep(name))
    with torch.no_grad():
        network(images)
    return squares


def wanda(network, plan, directory, target):
    model = onnx.load(network)
    tensors = tensors_of(model)
    squares = squares_of(tensors, images_of(directory))
    for block, width in widths_of(plan).items():
        reader = tensors[f"{block}.conv2.weight"]
        worth = np.abs(reader).sum((0, 2, 3)) * np.sqrt(squares[block])
        kept = np.sort(np.argsort(-worth)[:width])
        for name in [f"{block}.conv1.weight", *norm_of(block)]:
            tensors[name] = tensors[name][kept]
        tensors[f"{block}.conv2.weight"] = reader[:, kept]
    write(model, tensors, target)


def clusters(rows, count, random):
    """The best of several runs of k-means, begun as k-means++ does: the cluster of each row, none of them empty."""
    best, least = None, np.inf
    for _ in range(RESTARTS):
        centres = rows[[random.integers(len(rows))]]
        while len(centres) < count:
            far = ((rows[:, None] - centres) ** 2).sum(2).min(1)
            centres = np.vstack([centres, rows[random.choice(len(rows), p=far / far.sum())]])
        for _ in range(100):
            distance = ((rows[:, None] - centres) ** 2).sum(2)
            nearest = distance.argmin(1)
            for empty in np.setdiff1d(np.arange(count), nearest):  # takes the row that is farthest from its own centre
                shared = np.bincount(nearest, minlength=count)[nearest] > 1
                nearest[np.argmax(np.where(shared, distance[np.arange(len(rows)), nearest], -1))] = empty
            moved = np.stack([rows[nearest == c].mean(0) for c in range(count)])
            if np.allclose(moved, centres):
                break
            centres = moved
        loss = ((rows - centres[nearest]) ** 2).sum()
        if loss < least:
            best, least = nearest, loss
    return best


def folded(rows):
    """What the deviation of their mean is multiplied by."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    c = len(rows)
    if c == 1:
        return 1
    r = ((unit @ unit.T).sum() - c) / (c * c - c)
    return c / np.sqrt(c + (c * c - c) * max(r, 0))


def fold(network, plan, seed, target):
    model, random = onnx.load(network), np.random.default_rng(seed)
    tensors = tensors_of(model)
    for block, width in widths_of(plan).items():
        weight, reader = tensors[f"{block}.conv1.weight"].astype(float), tensors[f"{block}.conv2.weight"]
        gamma, beta, mean, variance = (tensors[name].astype(float) for name in norm_of(block))
        scale = gamma / np.sqrt(variance + EPSILON)
        rows = (weight * scale[:, None, None, None]).reshape(len(weight), -1)
        nearest = clusters(rows, width, random)
        average = np.stack([(nearest == c) / (nearest == c).sum() for c in range(width)])
        tensors[f"{block}.conv1.weight"] = (average @ rows).reshape(width, *weight.shape[1:])
        corrections = np.array([folded(rows[nearest == c]) for c in range(width)])
        norm = (corrections, average @ beta, average @ (mean * scale), np.full(width, 1 - EPSILON))
        tensors.update(zip(norm_of(block), norm))
        tensors[f"{block}.conv2.weight"] = np.stack([reader[:, nearest == c].sum(1) for c in range(width)], 1)
    write(model, tensors, target)


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "draw":
        draw(rest[0], int(rest[1]), rest[2])
    elif what == "wanda":
        wanda(*rest)
    else:
        fold(rest[0], rest[1], int(rest[2]), rest[3])
