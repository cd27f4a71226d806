"""Neuron merging in numpy, as it was published: a loop over every pair of a removed and a kept filter, layer by layer.
    merging_peer.py draw IN.onnx OUT.onnx        the network with weights drawn anew, every filter like some others
    merging_peer.py merge NETWORK.onnx MERGED.onnx RATIO
The second prints the seconds it takes over all layers, loading not counted. MERGED is what pare made of the same network:
exit code 4 where its weights are not the same. Needs python3-onnx.
"""
import sys
import time

import numpy as np
import onnx
from onnx import numpy_helper

THRESHOLD, LAMBDA, TOLERANCE = 0.1, 0.85, 1e-4


def tensors_of(model):
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def layers_of(model):
    """Names of the tensors of every convolution with its batch norm, in their order, and the last layer's weight."""
    nodes = list(model.graph.node)
    norms = {node.input[0]: node for node in nodes if node.op_type == "BatchNormalization"}
    convolutions = [(list(node.input[1:]), list(norms[node.output[0]].input[1:])) for node in nodes if node.op_type == "Conv"]
    return convolutions, next(node.input[1] for node in reversed(nodes) if node.op_type == "Gemm")


def draw(source, target):
    model = onnx.load(source)
    tensors, random, drawn = tensors_of(model), np.random.default_rng(0), {}
    for (weight, *_), norm in layers_of(model)[0]:
        shape = tensors[weight].shape
        kinds = random.standard_normal((shape[0] // 4, *shape[1:]))
        own = kinds[random.integers(len(kinds), size=shape[0])] + 0.7 * random.standard_normal(shape)
        drawn[weight] = own * random.uniform(0.5, 1.5, (shape[0], 1, 1, 1)) / np.sqrt(np.prod(shape[1:]))
        for name, low in zip(norm, (0.5, -0.1, -0.1, 0.5)):
            drawn[name] = random.uniform(low, low + (1 if low > 0 else 0.2), shape[0])
    for tensor in model.graph.initializer:
        if tensor.name in drawn:
            tensor.CopyFrom(numpy_helper.from_array(drawn[tensor.name].astype(np.float32), tensor.name))
    onnx.save(model, target)


def merge_matrix(filters, gamma, beta, mean, var, kept):
    """One row per filter, at most one positive number in each: the kept filter that takes over, and its scale."""
    flat = filters.reshape(len(filters), -1)
    columns = {int(k): i for i, k in enumerate(kept)}
    sigma = np.sqrt(var + 1e-5)
    Z = np.zeros((len(flat), len(kept)))
    for n in range(len(flat)):
        if n in columns:
            Z[n, columns[n]] = 1
            continue
        cosines, scales, biases = [], [], []
        for k in kept:
            norm_n, norm_k = np.linalg.norm(flat[n]), np.linalg.norm(flat[k])
            sign = np.sign(gamma[n] * gamma[k])
            s = sign * norm_n / norm_k
            cosines.append(sign * np.dot(flat[n], flat[k]) / (norm_n * norm_k))
            S = s * gamma[n] / gamma[k] * sigma[k] / sigma[n]
            B = gamma[n] / sigma[n] * (s * (mean[k] - sigma[k] * beta[k] / gamma[k]) - mean[n]) + beta[n]
            scales.append(S)
            biases.append(abs(B) / S)
        biases = np.array(biases)
        biases = (biases - biases.min()) / max(biases.max() - biases.min(), 1e-30)
        best = int(np.argmin(LAMBDA * (1 - np.array(cosines)) + (1 - LAMBDA) * biases))
        if cosines[best] >= THRESHOLD:
            Z[n, best] = scales[best]
    return Z


def fold(filters, Z):
    return np.einsum("oikl,ij->ojkl", filters, Z, optimize=True)


def merge(network, ratio):
    """The weights that are left of every layer, and the seconds that took."""
    tensors = {name: tensor.astype(np.float64) for name, tensor in tensors_of(network).items()}
    convolutions, last = layers_of(network)
    start = time.perf_counter()
    left, Z = {}, None
    for (weight, *bias), norm in convolutions:
        filters = tensors[weight]
        gamma, beta, mean, var = (tensors[name] for name in norm)
        if bias:
            mean = mean - tensors[bias[0]]
        norms = np.abs(filters).sum(axis=(1, 2, 3))
        kept = np.sort(np.argsort(norms)[len(filters) - int(len(filters) * (1 - ratio) + 1e-9):])
        left[weight] = (filters if Z is None else fold(filters, Z))[kept]
        Z = merge_matrix(filters, gamma, beta, mean, var, kept)
    left[last] = fold(tensors[last][:, :, None, None], Z)[:, :, 0, 0]
    return left, time.perf_counter() - start


if sys.argv[1] == "draw":
    draw(sys.argv[2], sys.argv[3])
else:
    expected, seconds = merge(onnx.load(sys.argv[2]), float(sys.argv[4]))
    found = tensors_of(onnx.load(sys.argv[3]))
    for name, weight in expected.items():
        far = np.inf if found[name].shape != weight.shape else np.abs(found[name] - weight).max() / np.abs(weight).max()
        if far > TOLERANCE:
            print(f"{name}: pare's weights are not those of numpy: {far:.2g} of the largest", file=sys.stderr)
            sys.exit(4)
    print(seconds)
