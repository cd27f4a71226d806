# Neuron merging in numpy, as it was published: a loop over every pair of a removed and a kept filter, layer by layer.
# Prints the seconds it takes over all of VGG-16 in its CIFAR form, weights drawn at random.
#   merging_peer.py [RATIO]
import sys
import time

import numpy as np

RATIO = float(sys.argv[1]) if len(sys.argv) > 1 else 0.5
WIDTHS = [64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
THRESHOLD, LAMBDA = 0.1, 0.85


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


random = np.random.default_rng(0)
layers, inputs = [], 3
for width in WIDTHS:
    layers.append((random.standard_normal((width, inputs, 3, 3)) / (3 * inputs**0.5), random.uniform(0.5, 1.5, width),
                   random.standard_normal(width), random.standard_normal(width), random.uniform(0.5, 1.5, width)))
    inputs = width
start = time.perf_counter()
Z = None
for filters, gamma, beta, mean, var in layers:
    norms = np.abs(filters).sum(axis=(1, 2, 3))
    kept = np.sort(np.argsort(norms)[len(filters) - int(len(filters) * (1 - RATIO) + 1e-9):])
    if Z is not None:
        filters = np.einsum("oikl,ij->ojkl", filters, Z)
    Z = merge_matrix(filters, gamma, beta, mean, var, kept)
print(time.perf_counter() - start)
